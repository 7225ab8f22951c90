//! Hosts outside the managed domain, which their owners have to prove.

use limen_api::source::{Objects, Within};
use limen_api::{DnsRecord, DnsZoneSpec};
use limen_dns::{Options, Server};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::bed::{Bed, global_id, ingress};
use crate::hosts::submit_elsewhere;
use crate::rig::{eventually, id_of};

/// The zone of somebody else, with a proof or without.
fn zone(text: Option<&str>) -> Objects {
    let record = |text: &str| DnsRecord {
        name: "_limen-challenge.shop".to_owned(),
        kind: "TXT".to_owned(),
        ttl_seconds: Some(1),
        data: vec!["something else".to_owned(), text.to_owned()],
    };
    let records = text.map(record).into_iter().collect();
    let spec = DnsZoneSpec { zone: "other.test".to_owned(), records, ..DnsZoneSpec::default() };
    let key = ("default".to_owned(), "other".to_owned());
    Objects { zones: [(key, std::sync::Arc::new(spec))].into(), ..Objects::default() }
}

fn hosts(global: &Value) -> Vec<String> {
    let rules = global["spec"]["rules"].as_array().cloned().unwrap_or_default();
    rules.iter().map(|rule| rule["host"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_host_is_served_once_its_owner_allows_it() {
    let (records, receive) = watch::channel(zone(None));
    let options = Options {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        rate_limit: 0,
        ..Options::default()
    };
    let dns = Server::start(&options, Within(receive)).unwrap();
    dns.ready().await;
    let bed = Bed::with(&["c1"], |options| {
        options.domain = Some("apps.test".to_owned());
        options.verify_hosts = Some(dns.listen()[0]);
    })
    .await;

    // Under the managed domain nothing has to be proven.
    bed.submit("ours", Some("ours.apps.test"), &["c1"]).await;
    bed.compiled("ours", |global| hosts(global) == ["ours.apps.test"]).await;

    // Somebody else came first, and has no proof either.
    submit_elsewhere(&bed, json!({"hosts": ["shop.other.test"]})).await;
    bed.submit("shop", Some("shop.other.test"), &["c1"]).await;
    let hub = limen_hub::hub_id(&bed.hub().api()).await.unwrap();
    let proof = format!("limen-verification={hub}/default");
    let expected = format!(
        "shop.other.test is served once the TXT record _limen-challenge.shop.other.test says \"{proof}\""
    );
    let id = id_of(&ingress("shop", None));
    eventually("an Event that says what to do", async || {
        let events = bed.rig.events(&id).await;
        (events.iter().any(|(_, message)| *message == expected), format!("{events:?}"))
    })
    .await;
    assert!(bed.hub().get(&global_id("shop")).await.is_none(), "it is not served yet");

    // The proof of another namespace is none.
    records.send_replace(zone(Some(&format!("limen-verification={hub}/elsewhere"))));
    records.send_replace(zone(Some(&proof)));
    bed.compiled("shop", |global| hosts(global) == ["shop.other.test"]).await;

    // What is served stays.
    records.send_replace(zone(None));
    bed.serve("c1", "shop", 3).await;
    let three = |global: &Value| global["spec"]["backends"][0]["targets"][0]["readyEndpoints"] == 3;
    let after = bed.compiled("shop", three).await;
    assert_eq!(hosts(&after), ["shop.other.test"]);
}
