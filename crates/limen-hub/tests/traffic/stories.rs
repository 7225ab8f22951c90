//! The stories that the project grew from, with real HTTP.

use std::collections::BTreeMap;

use crate::bed::{Bed, ask, eventually_asked, policy, policy_id};
use serde_json::{Value, json};

/// Story 1: one application in two clusters, one domain for both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_domain_serves_an_application_in_two_clusters() {
    let bed = Bed::start(&["c1", "c2"]).await;
    bed.submit("web", Some("web.test"), &["c1", "c2"]).await;
    let global = bed
        .compiled("web", |global| {
            let targets = global["spec"]["backends"][0]["targets"].as_array();
            let ready = |target: &Value| target["readyEndpoints"] == 2;
            targets.is_some_and(|all| all.len() == 2 && all.iter().all(ready))
        })
        .await;
    assert_eq!(global["spec"]["rules"][0]["host"], "web.test");

    let gateway = bed.gateway(|_| {}).await;
    // Equally near and equally large: they take turns, once the last news of them has come.
    let halves = [("c1".to_owned(), 10), ("c2".to_owned(), 10)].into();
    eventually_asked(&gateway, "web.test", 20, |found| *found == halves).await;
    gateway.stop().await;
}

/// Story 2: v1 in one cluster and v2 in the other, and more and more goes to v2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weights_between_two_clusters_hold_exactly() {
    let bed = Bed::start(&["c1", "c2"]).await;
    let weights = |c1: u32, c2: u32| {
        json!({"targetRef": {"kind": "Ingress", "name": "web"},
            "groups": [{"name": "v1", "clusters": ["c1"]}, {"name": "v2", "clusters": ["c2"]}],
            "weights": {"groups": {"v1": c1, "v2": c2}}})
    };
    let written = policy("web", &weights(90, 10));
    bed.hub().api().create(&policy_id("web").kind, &written).await.unwrap();
    bed.submit("web", Some("web.test"), &["c1", "c2"]).await;
    let gateway = bed.gateway(|_| {}).await;
    for (v1, v2) in [(90, 10), (50, 50), (0, 100)] {
        let patch = json!({"spec": weights(v1, v2)});
        bed.hub().api().merge(&policy_id("web"), "", &patch).await.unwrap();
        let mut expected = BTreeMap::new();
        for (name, count) in [("c1", v1), ("c2", v2)] {
            if count > 0 {
                expected.insert(name.to_owned(), count as usize);
            }
        }
        eventually_asked(&gateway, "web.test", 100, |found| *found == expected).await;
        // Late news begin the turns anew: the promise is one request in a hundred.
        let again = ask(&gateway, "web.test", 100).await;
        for name in ["c1", "c2"] {
            let of = |counts: &BTreeMap<String, usize>| counts.get(name).copied().unwrap_or(0);
            assert!(of(&again).abs_diff(of(&expected)) <= 1, "{v1} to {v2}: {again:?}");
        }
    }
    gateway.stop().await;
}
