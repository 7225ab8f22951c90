//! Policies that cannot be, and canaries that move by themselves.

use serde_json::{Value, json};

use crate::bed::{Bed, policy, policy_id, report, report_by, targets};
use crate::rig::ApiServer;

async fn write(bed: &Bed, name: &str, spec: &Value) {
    bed.hub().api().apply(&policy_id(name), &policy(name, spec)).await.unwrap();
}

fn accepted(policy: &Value) -> (&str, &str) {
    let condition = &policy["status"]["conditions"][0];
    (
        condition["status"].as_str().unwrap_or_default(),
        condition["message"].as_str().unwrap_or_default(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_schema_can_refuse_is_refused_at_once() {
    refuses_what_cannot_be(Bed::start(&[]).await.hub()).await;
}

/// The same on a real Kubernetes, which also minds what rules cost.
#[cfg(feature = "e2e")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_kubernetes_refuses_the_same() {
    let plane = limen_testbed::ControlPlane::start().await.unwrap();
    let hub = ApiServer::running(plane.kubeconfig_path()).await;
    limen_hub::set_up(&hub.api()).await.unwrap();
    refuses_what_cannot_be(&hub).await;
}

async fn refuses_what_cannot_be(hub: &ApiServer) {
    let target = json!({"name": "web"});
    for (spec, part) in [
        (json!({"weights": {"clusters": {"c1": 0, "c2": 0}}}), "must not all be zero"),
        (json!({"weights": {"clusters": {"c1": -1}}}), "weights.clusters"),
        (json!({"capacity": {"requestsPerEndpoint": 0}}), "more than zero"),
        (json!({"capacity": {"clusters": {"c1": 0}}}), "more than zero"),
        (json!({"failover": ["c1", "c2", "c1"]}), "uplicate"),
        (json!({"canary": {"group": "v2", "steps": [50, 10], "stepSeconds": 5}}), "must rise"),
        (json!({"canary": {"group": "v2", "steps": [0], "stepSeconds": 5}}), "must rise"),
        (
            json!({"activeGroup": "v1", "canary": {"group": "v2", "steps": [5], "stepSeconds": 5}}),
            "only one of",
        ),
        (json!({"affinity": {"cookie": "a", "header": "b"}}), "exactly one of"),
        (json!({"mirror": {"percent": 101}}), "mirror.percent"),
    ] {
        let mut spec = spec;
        spec["targetRef"] = target.clone();
        let refused = hub.api().create(&policy_id("p").kind, &policy("p", &spec)).await;
        let message = refused.expect_err(&spec.to_string()).to_string();
        assert!(message.contains(part), "{spec}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_cannot_be_leaves_the_last_that_could_in_force() {
    let mut bed = Bed::start(&["c1", "c2"]).await;
    let target = json!({"kind": "Ingress", "name": "web"});
    let weights = |c1: u32, other: &str| json!({"targetRef": target, "weights": {"clusters": {"c1": c1, other: 10}}});
    write(&bed, "web", &weights(90, "c2")).await;
    bed.submit("web", Some("web.test"), &["c1", "c2"]).await;
    let split =
        |c1: u32| move |global: &Value| global["spec"]["traffic"]["split"]["clusters"]["c1"] == c1;
    bed.compiled("web", split(90)).await;

    write(&bed, "web", &weights(50, "nowhere")).await;
    let says = |part: &'static str| {
        move |policy: Option<&Value>| {
            policy.is_some_and(|policy| {
                let (status, message) = accepted(policy);
                status == "False" && message.contains(part)
            })
        }
    };
    let unknown =
        says("weights.clusters names the cluster nowhere, which has not joined; known are: c1, c2");
    bed.rig.eventually_on_hub(&policy_id("web"), unknown).await;
    assert!(split(90)(&bed.compiled("web", |global| targets(global).len() == 2).await));
    // Also for a hub that starts anew.
    bed.start_again().await;
    bed.serve("c2", "web", 4).await;
    let seen = |global: &Value| global["spec"]["backends"][0]["targets"][1]["readyEndpoints"] == 4;
    assert!(split(90)(&bed.compiled("web", seen).await));

    // A second policy for the same root contradicts the first, which stays.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    write(&bed, "other", &weights(1, "c2")).await;
    let older = says("the policy web is for the same root and older");
    bed.rig.eventually_on_hub(&policy_id("other"), older).await;
    write(&bed, "web", &weights(70, "c2")).await;
    bed.compiled("web", split(70)).await;
    let fine = |policy: Option<&Value>| policy.is_some_and(|policy| accepted(policy).0 == "True");
    bed.rig.eventually_on_hub(&policy_id("web"), fine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_goes_on_while_it_does_well_and_back_when_it_does_not() {
    let bed = Bed::start(&["c1", "c2"]).await;
    let spec = |steps: &[u8], seconds: u32| {
        json!({"targetRef": {"name": "web"},
            "groups": [{"name": "v1", "clusters": ["c1"]}, {"name": "v2", "clusters": ["c2"]}],
            "canary": {"group": "v2", "steps": steps, "stepSeconds": seconds,
                "minSuccessPercent": 99.0, "minRequests": 10}})
    };
    write(&bed, "web", &spec(&[10, 60], 1)).await;
    bed.submit("web", Some("web.test"), &["c1", "c2"]).await;
    let share = |v1: u32, v2: u32| {
        move |global: &Value| {
            let groups = &global["spec"]["traffic"]["split"]["groups"];
            groups["v1"] == v1 && groups["v2"] == v2
        }
    };
    bed.compiled("web", share(90, 10)).await;
    let sent = |requests: u64, success: f64| {
        json!({"demand": [{"globalIngress": "default/web", "backend": "web:80", "requestsPerSecond": 50.0,
            "clusters": [{"cluster": "c2", "group": "v2", "requestsPerSecond": 5.0,
                "requests": requests, "successPercent": success}]}]})
    };
    let edge = json!({"kind": "Gateway"});
    report(bed.hub(), "edge-1", &edge, sent(1_000, 100.0)).await;
    bed.compiled("web", share(40, 60)).await;
    report(bed.hub(), "edge-1", &edge, sent(9_000, 99.9)).await;
    bed.compiled("web", share(0, 100)).await;
    let phase = |wanted: &'static str| {
        move |policy: Option<&Value>| {
            policy.is_some_and(|policy| policy["status"]["canary"]["phase"] == wanted)
        }
    };
    bed.rig.eventually_on_hub(&policy_id("web"), phase("Promoted")).await;

    // Another canary, which fails: all traffic is back where it was.
    write(&bed, "web", &spec(&[20], 600)).await;
    bed.compiled("web", share(80, 20)).await;
    report(bed.hub(), "edge-1", &edge, sent(9_500, 42.0)).await;
    bed.compiled("web", share(100, 0)).await;
    let policy = bed.rig.eventually_on_hub(&policy_id("web"), phase("RolledBack")).await.unwrap();
    let message = policy["status"]["canary"]["message"].as_str().unwrap();
    assert!(message.contains("42.0% of answers are no errors"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_have_a_say_whatever_their_clocks_show() {
    let bed = Bed::start(&["c1", "c2"]).await;
    let spec = json!({"targetRef": {"name": "web"},
        "groups": [{"name": "v1", "clusters": ["c1"]}, {"name": "v2", "clusters": ["c2"]}],
        "canary": {"group": "v2", "steps": [50], "stepSeconds": 600, "minSuccessPercent": 99.0,
            "minRequests": 10}});
    write(&bed, "web", &spec).await;
    bed.submit("web", Some("web.test"), &["c1", "c2"]).await;
    bed.compiled("web", |global| targets(global).len() == 2).await;
    let edge = json!({"kind": "Gateway"});
    let sent = |requests: u64| {
        json!({"demand": [{"globalIngress": "default/web", "backend": "web:80", "requestsPerSecond": 50.0,
            "clusters": [{"cluster": "c2", "group": "v2", "requestsPerSecond": 5.0,
                "requests": requests, "successPercent": 42.0}]}]})
    };
    // An hour late, and yet heard of just now.
    report_by(bed.hub(), "edge-1", &edge, sent(5), 3600).await;
    report_by(bed.hub(), "edge-1", &edge, sent(50), 3599).await;
    let back = |policy: Option<&Value>| {
        policy.is_some_and(|policy| policy["status"]["canary"]["phase"] == "RolledBack")
    };
    bed.rig.eventually_on_hub(&policy_id("web"), back).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proposed_policy_that_would_not_be_in_force_is_told_why() {
    let bed = Bed::start(&[]).await;
    let client = &bed.hub().client;
    let why = async |name: &str, spec: Value, global: &str| {
        let proposed = serde_json::from_value(policy(name, &spec)).unwrap();
        limen_hub::hindrance(client, &proposed, global).await.unwrap().unwrap_or_default()
    };
    let (web, general) = (json!({"targetRef": {"name": "web"}}), json!({}));
    assert_eq!(why("p", web.clone(), "default/web").await, "");
    assert_eq!(why("p", general.clone(), "default/web").await, "");
    assert_eq!(why("p", web.clone(), "default/api").await, "it is for the Ingress default/web");
    assert_eq!(why("p", general.clone(), "shop/web").await, "it is for the namespace default");
    let federated = json!({"targetRef": {"kind": "FederatedIngress", "name": "web"}});
    assert_eq!(why("p", federated.clone(), "default/federatedingress.web").await, "");
    assert!(why("p", federated, "default/web").await.contains("FederatedIngress"));

    // One that names the root, or that is older, comes first.
    write(&bed, "own", &web).await;
    let first = "the TrafficPolicy default/own comes first";
    assert_eq!(why("p", general.clone(), "default/web").await, first);
    assert_eq!(why("p", web.clone(), "default/web").await, first);
    assert_eq!(why("own", web, "default/web").await, "", "it would replace itself");
    assert_eq!(why("p", general, "default/api").await, "");
}
