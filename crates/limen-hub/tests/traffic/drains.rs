//! Taking traffic away from a cluster, and asking where it goes.

use limen_core::compile::NextDrain;
use limen_hub::{Drain, TrafficSnapshot, drain, undrain};
use serde_json::json;

use crate::bed::{Bed, cluster_id, eventually_asked, ingress, report, service};
use crate::rig::id_of;

fn options(cluster: &str) -> Drain {
    Drain { cluster: cluster.to_owned(), over_seconds: 0, keep: 1, force: false, dry_run: false }
}

/// Whether the endpoints of two clusters are known, and a way in to them: members report the two
/// one after the other.
fn both_are_ready(global: &serde_json::Value) -> bool {
    let targets = global["spec"]["backends"][0]["targets"].as_array();
    let ready = |target: &&serde_json::Value| {
        let ways = target["addresses"].as_array().map_or(0, Vec::len);
        target["readyEndpoints"].as_u64() > Some(0) && ways > 0
    };
    targets.is_some_and(|targets| targets.iter().filter(ready).count() == 2)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_moves_traffic_or_is_refused_with_numbers() {
    let bed = Bed::start(&["c1", "c2"]).await;
    bed.submit("web", Some("web.test"), &["c1", "c2"]).await;
    bed.compiled("web", both_are_ready).await;
    let client = &bed.hub().client;
    let gateway = bed.gateway(|_| {}).await;
    eventually_asked(&gateway, "web.test", 10, |found| found.len() == 2).await;

    let refused = drain(client, &Drain { keep: 2, ..options("c1") }).await.unwrap_err().to_string();
    assert_eq!(
        refused,
        "c1 must not be drained:\n  default/web (web:80): 1 of 2 clusters would be left (c2)"
    );
    let unknown = drain(client, &options("c9")).await.unwrap_err().to_string();
    assert_eq!(unknown, "no cluster c9 has joined; known are: c1, c2");
    let dry = drain(client, &Drain { dry_run: true, ..options("c1") }).await.unwrap();
    assert_eq!(dry.backends, 1);
    assert!(bed.hub().get(&cluster_id("c1")).await.unwrap()["spec"]["drain"].is_null());

    drain(client, &options("c1")).await.unwrap();
    eventually_asked(&gateway, "web.test", 10, |found| found.keys().eq(["c2"])).await;
    // Little by little would give it back what it has lost.
    let slowly = Drain { over_seconds: 300, ..options("c1") };
    assert_eq!(drain(client, &slowly).await.unwrap().next, NextDrain::AlreadyGone);
    let spec = bed.hub().get(&cluster_id("c1")).await.unwrap()["spec"].clone();
    assert!(spec["drain"] == true && spec["drainSchedule"].is_null(), "{spec}");
    let last = drain(client, &options("c2")).await.unwrap_err().to_string();
    assert!(last.contains("0 of 1 clusters would be left (none)"), "{last}");
    undrain(client, "c1").await.unwrap();
    eventually_asked(&gateway, "web.test", 10, |found| found.len() == 2).await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_goes_on_by_itself_and_minds_the_demand() {
    let bed = Bed::start(&["c1", "c2"]).await;
    let capacity = json!({"targetRef": {"name": "web"}, "capacity": {"requestsPerEndpoint": 10.0}});
    let policy = crate::bed::policy("web", &capacity);
    bed.hub().api().apply(&crate::bed::policy_id("web"), &policy).await.unwrap();
    bed.submit("web", Some("web.test"), &["c1", "c2"]).await;
    bed.compiled("web", both_are_ready).await;
    let demand = json!({"demand": [{"globalIngress": "default/web", "backend": "web:80",
        "requestsPerSecond": 35.0}]});
    report(bed.hub(), "edge-1", &json!({"kind": "Gateway"}), demand).await;
    let client = &bed.hub().client;
    let refused = drain(client, &options("c1")).await.unwrap_err().to_string();
    assert!(
        refused.contains("clients want 35 requests/s and the others can take 20 (c2)"),
        "{refused}"
    );
    let forced = Drain { force: true, over_seconds: 3, ..options("c1") };
    assert_eq!(drain(client, &forced).await.unwrap().objections.len(), 1);
    let drained = |global: &serde_json::Value| {
        global["spec"]["backends"][0]["targets"][0]["drainedPercent"].as_u64().unwrap_or(0)
    };
    bed.compiled("web", |global| drained(global) > 0).await;
    bed.compiled("web", |global| drained(global) == 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_to_leave_gets_no_more_clients_while_it_still_has_its_leaves() {
    let bed = Bed::start(&["c1", "c2"]).await;
    bed.submit("web", Some("web.test"), &["c1", "c2"]).await;
    bed.compiled("web", both_are_ready).await;
    let gateway = bed.gateway(|_| {}).await;
    eventually_asked(&gateway, "web.test", 10, |found| found.len() == 2).await;
    // Its leaves cannot be taken away yet.
    let kept = json!({"metadata": {"finalizers": ["example.com/slow"]}});
    for leaf in [id_of(&service("web")), id_of(&ingress("web", None))] {
        bed.rig.member("c1").api().merge(&leaf, "", &kept).await.unwrap();
    }
    let leave = json!({"metadata": {"annotations": {"limen.dev/unjoin": "delete"}}});
    bed.hub().api().merge(&cluster_id("c1"), "", &leave).await.unwrap();
    eventually_asked(&gateway, "web.test", 10, |found| found.keys().eq(["c2"])).await;
    assert!(both_are_ready(&bed.compiled("web", |_| true).await), "it is drained, not gone");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_traffic_goes_can_be_asked() {
    let bed = Bed::start(&["c1", "c2"]).await;
    for (name, region) in [("c1", "eu"), ("c2", "us")] {
        let patch = json!({"spec": {"region": region}});
        bed.hub().api().merge(&cluster_id(name), "", &patch).await.unwrap();
    }
    bed.submit("web", Some("web.test"), &["c1", "c2"]).await;
    bed.compiled("web", |global| {
        let all = &global["spec"]["backends"][0]["targets"];
        all[0]["region"] == "eu" && all[1]["region"] == "us" && both_are_ready(global)
    })
    .await;
    let edge = json!({"kind": "Gateway", "region": "us"});
    report(bed.hub(), "edge-us", &edge, json!({})).await;
    report(bed.hub(), "edge-eu", &json!({"kind": "Gateway", "region": "eu"}), json!({})).await;
    let picture = TrafficSnapshot::read(&bed.hub().client).await.unwrap();
    for (from, gateway, cluster) in [("us", "edge-us", "c2"), ("eu", "edge-eu", "c1")] {
        let (name, vantage) = picture.vantage(None, &[from]).unwrap();
        assert_eq!(name.as_deref(), Some(gateway));
        let asked = picture.ask(("web.test", "/cart"), &[from], &vantage).unwrap();
        assert_eq!((asked.global.as_str(), asked.rule.as_str()), ("default/web", "web.test/"));
        assert_eq!(asked.explanation.cluster.as_deref(), Some(cluster));
    }
    let Err(error) = picture.vantage(Some("edge-x"), &[]) else { panic!("there is no edge-x") };
    assert_eq!(error.to_string(), "there is no gateway edge-x; known are: edge-eu, edge-us");
    let (_, vantage) = picture.vantage(Some("edge-us"), &[]).unwrap();
    assert!(picture.ask(("other.test", "/"), &[], &vantage).is_none());
    // What would a policy change?
    let policy = serde_json::from_value(json!({"weights": {"clusters": {"c1": 30, "c2": 70}}}));
    let changed = picture.with_policy("default/web", &policy.unwrap()).unwrap();
    let odds = changed.ask(("web.test", "/"), &[], &vantage).unwrap().explanation.odds;
    let shares: Vec<_> = odds.iter().map(|odds| (odds.cluster.as_str(), odds.share)).collect();
    assert!((shares[0].1 - 0.7).abs() < 1e-9 && shares[0].0 == "c2", "{shares:?}");
}
