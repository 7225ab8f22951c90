//! Names of federated Services.

use limen_core::global::{Backend, Global, RootReference, Target};

use crate::bed::{Bed, objects, target, until};
use crate::client::*;

fn service(targets: Vec<Target>) -> Global {
    let root =
        RootReference { api_version: "v1".into(), kind: "Service".into(), name: "web".into() };
    let backends = vec![Backend { name: "web".into(), targets }];
    Global { root: Some(root), backends, ..Global::default() }
}

fn shard(cluster: &str, region: &str, hosts: &[&str], ready: u32) -> Target {
    let mut shard = target(cluster, region, "0,0", hosts);
    shard.locality.zone = Some(format!("{region}-1"));
    shard.local_addresses = vec![format!("10.0.0.{}", cluster.len())];
    shard.ready_endpoints = Some(ready);
    shard
}

fn bed(targets: Vec<Target>) -> Bed {
    Bed::with(objects(vec![service(targets)]), |options| options.federation = Some("fed".into()))
}

fn found(bed: &Bed, name: &str) -> (u8, Vec<String>) {
    let answer = ask(&format!("web.default.fed.svc{name}.example.com"), A).udp(bed.address());
    (answer.rcode, answer.texts().into_iter().map(str::to_owned).collect())
}

#[test]
fn every_level_is_answered_and_aliases_are_followed() {
    let bed = bed(vec![
        shard("paris", "eu", &["192.0.2.1", "2001:db8::1"], 1),
        shard("york", "us", &["192.0.2.2"], 0),
    ]);
    let name = |name: &str| format!("web.default.fed.svc{name}.example.com.");
    assert_eq!(found(&bed, ""), (NOERROR, vec!["192.0.2.1".into()]));
    assert_eq!(found(&bed, ".eu"), (NOERROR, vec!["192.0.2.1".into()]));
    assert_eq!(found(&bed, ".eu-1.eu"), (NOERROR, vec!["192.0.2.1".into()]));
    assert_eq!(found(&bed, ".paris.cluster"), (NOERROR, vec!["10.0.0.5".into()]));
    assert_eq!(found(&bed, ".us"), (NOERROR, vec![name(""), "192.0.2.1".into()]));
    let chain = vec![name(".us-1.us"), name(".us"), name(""), "192.0.2.1".into()];
    assert_eq!(found(&bed, ".york.cluster"), (NOERROR, chain));
    assert_eq!(found(&bed, ".asia").0, NXDOMAIN);
    let answer = ask("web.default.fed.svc.us.example.com", AAAA).udp(bed.address());
    let owners: Vec<_> = answer.answers.iter().map(|record| record.name.clone()).collect();
    assert_eq!(owners, [name(".us"), name("")]);
    assert_eq!(answer.texts()[1], "2001:db8::1");
}

#[test]
fn names_go_with_the_last_ready_endpoint_and_leave_no_alias() {
    let bed =
        bed(vec![shard("paris", "eu", &["192.0.2.1"], 1), shard("york", "us", &["192.0.2.2"], 1)]);
    let one = vec![shard("paris", "eu", &["192.0.2.1"], 0), shard("york", "us", &["192.0.2.2"], 1)];
    bed.set(objects(vec![service(one)]));
    until(|| found(&bed, ""), |(_, texts)| texts == &["192.0.2.2"]);
    let none =
        vec![shard("paris", "eu", &["192.0.2.1"], 0), shard("york", "us", &["192.0.2.2"], 0)];
    bed.set(objects(vec![service(none)]));
    for level in ["", ".eu", ".eu-1.eu", ".us", ".york.cluster"] {
        until(|| found(&bed, level), |(rcode, _)| *rcode == NXDOMAIN);
    }
}

#[test]
fn a_load_balancer_with_a_name_is_an_alias_when_alone_and_looked_up_beside_others() {
    let bed =
        bed(vec![shard("paris", "eu", &["localhost"], 1), shard("york", "us", &["192.0.2.2"], 1)]);
    assert_eq!(found(&bed, ".eu"), (NOERROR, vec!["localhost.".into()]));
    until(
        || found(&bed, "").1,
        |texts| {
            let mut texts = texts.clone();
            texts.sort();
            texts == ["127.0.0.1", "192.0.2.2"]
        },
    );
}
