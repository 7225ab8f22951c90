//! What real gateways report, and what the hub makes of it.

use serde_json::{Value, json};

use crate::bed::{Bed, Upstream, ask, cluster_id, eventually_asked, policy, policy_id, targets};
use crate::rig::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_that_fails_real_requests_is_rolled_back() {
    let mut bed = Bed::start(&["c1", "c2"]).await;
    let bad = Upstream::answering("500 Internal Server Error", "c2").await;
    bed.upstreams.insert("c2".to_owned(), bad);
    // A policy for whatever is in the namespace.
    let spec = json!({
        "groups": [{"name": "v1", "clusters": ["c1"]}, {"name": "v2", "clusters": ["c2"]}],
        "canary": {"group": "v2", "steps": [50], "stepSeconds": 3600,
            "minSuccessPercent": 95.0, "minRequests": 20}});
    bed.hub().api().apply(&policy_id("web"), &policy("web", &spec)).await.unwrap();
    bed.submit("web", Some("web.test"), &["c1", "c2"]).await;
    bed.compiled("web", |global| targets(global).len() == 2).await;
    let gateway = bed.gateway(|_| {}).await;
    let half = [("c1".to_owned(), 10), ("500".to_owned(), 10)].into();
    eventually_asked(&gateway, "web.test", 20, |found| *found == half).await;
    // Clients go on asking, and the gateway tells how that goes.
    eventually("the canary's phase", async || {
        ask(&gateway, "web.test", 20).await;
        let policy = bed.hub().get(&policy_id("web")).await.unwrap();
        let canary = &policy["status"]["canary"];
        (canary["phase"] == "RolledBack", canary.to_string())
    })
    .await;
    eventually_asked(&gateway, "web.test", 20, |found| found.keys().eq(["c1"])).await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_way_in_that_does_not_answer_is_known_to_the_hub() {
    let mut bed = Bed::start(&["c1", "c2"]).await;
    let check = json!({"healthCheck": {"kind": "Tcp", "intervalMilliseconds": 100,
        "timeoutMilliseconds": 1000, "unhealthyThreshold": 2, "healthyThreshold": 2}});
    bed.hub().api().apply(&policy_id("all"), &policy("all", &check)).await.unwrap();
    bed.submit("web", Some("web.test"), &["c1", "c2"]).await;
    let gateway = bed.gateway(|_| {}).await;
    let edge = |at: usize, wanted: &'static str| {
        move |global: &Value| {
            global["spec"]["backends"][0]["targets"][at]["verdicts"]["edge"] == wanted
        }
    };
    bed.compiled("web", edge(0, "Healthy")).await;
    // Its API is well, and nothing answers where it is served.
    bed.upstreams.remove("c1");
    bed.compiled("web", edge(0, "Unhealthy")).await;
    bed.compiled("web", edge(1, "Healthy")).await;
    let verdicts = |cluster: &Value| cluster["status"]["verdicts"].clone();
    let split = |cluster: Option<&Value>| {
        cluster.is_some_and(|cluster| {
            let verdicts = verdicts(cluster);
            verdicts["edge"]["verdict"] == "Unhealthy" && verdicts["api"]["verdict"] == "Healthy"
        })
    };
    bed.rig.eventually_on_hub(&cluster_id("c1"), split).await;
    eventually_asked(&gateway, "web.test", 10, |found| found.keys().eq(["c2"])).await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_that_starts_again_knows_what_gateways_said_and_writes_nothing_twice() {
    let mut bed = Bed::start(&["c1"]).await;
    bed.submit("web", Some("web.test"), &["c1"]).await;
    let gateway = bed.gateway(|_| {}).await;
    // Nobody asked for a health check.
    let healthy = |global: &Value| {
        global["spec"]["backends"][0]["targets"][0]["verdicts"]["edge"] == "Healthy"
    };
    let before = bed.compiled("web", healthy).await;
    bed.stop_compiling().await;
    bed.compile_again();
    bed.submit("other", Some("other.test"), &["c1"]).await;
    bed.compiled("other", healthy).await;
    let after = bed.compiled("web", |_| true).await;
    assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    gateway.stop().await;
}
