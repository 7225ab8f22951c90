//! The query log.

use std::path::Path;

use limen_core::global::TrafficRules;
use limen_dns::{LoggedClients, QueryLogOptions, QueryLogTo};
use serde_json::Value;

use crate::bed::{Bed, shop};
use crate::client::*;

/// A server that logs, and what it has logged after some questions.
fn logged(
    file: &Path,
    sample: f64,
    clients: LoggedClients,
    questions: impl FnOnce(&Bed),
) -> Vec<Value> {
    let bed = Bed::with(shop(TrafficRules::default()), |options| {
        let to = QueryLogTo::File(file.to_owned());
        options.query_log = Some(QueryLogOptions { to, sample, clients });
    });
    questions(&bed);
    // A server that ends has written everything.
    drop(bed);
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_question_has_a_line_with_what_came_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries.log");
    let lines = logged(&file, 1.0, LoggedClients::Whole, |bed| {
        ask("ShOp.example.com", A).subnet("10.3.0.0", 16).udp(bed.address());
        ask("nothing.example.com", TXT).tcp(bed.address());
        ask("example.org", 65280).udp(bed.address());
    });
    let field = |name: &str| -> Vec<&Value> { lines.iter().map(|line| &line[name]).collect() };
    assert_eq!(field("host"), ["ShOp.example.com", "nothing.example.com", "example.org"]);
    assert_eq!(field("type"), ["A", "TXT", "TYPE65280"]);
    assert_eq!(field("status"), ["NOERROR", "NXDOMAIN", "REFUSED"]);
    assert_eq!(field("protocol"), ["UDP", "TCP", "UDP"]);
    assert_eq!(field("client"), ["127.0.0.1"; 3]);
    assert_eq!(lines[0]["subnet"], "10.3.0.0/16");
    assert_eq!(lines[0]["cluster"], "tokyo");
    assert_eq!((&lines[1]["subnet"], &lines[1]["cluster"]), (&Value::Null, &Value::Null));
    assert!(lines.iter().all(|line| line["sent"].as_u64() > Some(12)), "{lines:?}");
    assert!(lines[0]["time"].as_str().unwrap().ends_with('Z'), "{lines:?}");
}

#[test]
fn clients_can_be_left_out_and_questions_sampled() {
    let folder = tempfile::tempdir().unwrap();
    let asked = |bed: &Bed| {
        for _ in 0..400 {
            ask("shop.example.com", A).subnet("10.3.7.1", 32).udp(bed.address());
        }
    };
    let file = folder.path().join("nobody.log");
    let lines = logged(&file, 0.5, LoggedClients::Nothing, asked);
    // Two hundred, give or take ten standard deviations.
    assert!((100..300).contains(&lines.len()), "{}", lines.len());
    assert!(lines.iter().all(|line| line["client"].is_null() && line["subnet"].is_null()));
    let file = folder.path().join("networks.log");
    let lines = logged(&file, 1.0, LoggedClients::Network, asked);
    assert_eq!(lines.len(), 400);
    assert_eq!(
        (&lines[0]["client"], &lines[0]["subnet"]),
        (&"127.0.0.0/24".into(), &"10.3.7.0/24".into())
    );
    assert!(logged(&folder.path().join("none.log"), 0.0, LoggedClients::Whole, asked).is_empty());
}
