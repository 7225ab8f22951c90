//! What policies ask for, what is wrong with them, and when a drain is refused.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::{Policy, compile, objections, quorum, reachable};
use super::{members, root, serving};
use crate::compile::{BackendSource, Listed, ListedObject, PortName};
use crate::edge::{EdgeReport, TargetReport};
use crate::global::Verdict;

fn policy(value: Value) -> Policy {
    serde_json::from_value(value).unwrap()
}

#[test]
fn what_is_wrong_with_a_policy_is_said() {
    for (spec, problem) in [
        (
            json!({"weights": {"clusters": {"c1": 1, "c9": 1}}}),
            "weights.clusters names the cluster c9, which has not joined; known are: c1, c2",
        ),
        (json!({"failover": ["c1", "c1"]}), "failover names c1 twice"),
        (
            json!({"weights": {"clusters": {"c1": 0}}}),
            "the weights in weights.clusters are all zero; one of them must get something",
        ),
        (
            json!({"groups": [{"name": "v1"}], "weights": {"groups": {"v2": 1}}}),
            "weights.groups names the group v2, which spec.groups does not",
        ),
        (
            json!({"groups": [{"name": "v1", "clusters": ["c1"]}, {"name": "v2"}]}),
            "cluster (each) is in the groups v1 and v2 with the same Service; give one of them a service of its own",
        ),
        (
            json!({"activeGroup": "v1", "canary": {"group": "v2", "steps": [5], "stepSeconds": 1}}),
            "give only one of weights.groups, canary and activeGroup: each says which group gets how much",
        ),
        (
            json!({"canary": {"group": "v2", "steps": [50, 5], "stepSeconds": 1}}),
            "canary.steps must rise from step to step, within 1 and 100",
        ),
        (
            json!({"capacity": {"requestsPerEndpoint": 0.0}}),
            "capacity.requestsPerEndpoint must be more than zero",
        ),
    ] {
        let found = policy(spec.clone()).check(["c1", "c2"].into_iter());
        assert_eq!(found.unwrap_err().to_string(), problem, "{spec}");
    }
    policy(json!({"failover": ["c1", "c2"]})).check(["c1", "c2"].into_iter()).unwrap();
}

#[test]
fn groups_capacity_and_rules_reach_the_compiled_form() {
    let all = members([("c1", serving("192.0.2.1", 2)), ("c2", serving("192.0.2.2", 3))]);
    let asked = policy(json!({
        "groups": [{"name": "v1", "clusters": ["c1"]}, {"name": "v2", "clusters": ["c2"]}],
        "activeGroup": "v2", "failover": ["c2"],
        "capacity": {"requestsPerEndpoint": 10.0, "clusters": {"c1": 7.0}},
        "client": {"hstsSeconds": 60}}));
    let global = compile(&root(), &asked, None, &all, None, 0).global.unwrap();
    let targets = &global.backends[0].targets;
    let groups: Vec<_> = targets.iter().map(|target| target.group.as_deref()).collect();
    assert_eq!(groups, [Some("v1"), Some("v2")]);
    let capacities: Vec<_> = targets.iter().map(|t| t.capacity.requests_per_second).collect();
    assert_eq!(capacities, [Some(7.0), Some(30.0)]);
    let split = global.traffic.split.unwrap();
    assert_eq!(split.groups, [("v2".to_owned(), 100)].into());
    assert_eq!(global.client.hsts_seconds, Some(60));
    assert_eq!(global.client.redirect_to_https, Some(false));
}

#[test]
fn named_objects_of_named_members_have_their_weights() {
    let listed = |cluster: &str, object, weight| Listed {
        cluster: cluster.to_owned(),
        object,
        weight: Some(weight),
        group: None,
    };
    let mut root = root();
    root.backends = BTreeMap::from([(
        "web:80".to_owned(),
        BackendSource::Listed(vec![
            listed("c1", ListedObject::Ingress(super::key("web")), 90),
            listed("c2", ListedObject::Service(super::key("web"), PortName::Number(80)), 10),
            listed("c3", ListedObject::Ingress(super::key("web")), 0),
        ]),
    )]);
    let mut reachable = serving("192.0.2.2", 2);
    reachable.pods_reachable = true;
    let all =
        members([("c1", serving("192.0.2.1", 1)), ("c2", reachable), ("c3", super::member(&[]))]);
    let compiled = compile(&root, &Policy::default(), None, &all, None, 0);
    assert_eq!(compiled.findings, ["cluster c3 has no shop/web"]);
    let global = compiled.global.unwrap();
    let targets = &global.backends[0].targets;
    assert_eq!(targets.len(), 2);
    assert_eq!(targets[0].addresses[0].host, "192.0.2.1");
    assert_eq!(targets[1].addresses[0].host, "10.0.0.1");
    let expected =
        [("c1.web", 90), ("c2.web", 10), ("c3.web", 0)].map(|(name, w)| (name.to_owned(), w));
    assert_eq!(global.traffic.split.unwrap().groups, expected.into());
}

#[test]
fn a_drain_is_refused_with_numbers() {
    let all = members([("c1", serving("192.0.2.1", 2)), ("c2", serving("192.0.2.2", 3))]);
    let asked = policy(json!({"capacity": {"requestsPerEndpoint": 10.0}}));
    let global = compile(&root(), &asked, None, &all, None, 0).global.unwrap();
    let key = ("shop/web".to_owned(), "web:80".to_owned());
    let check = |keep, demand: Option<f64>| -> Vec<String> {
        let demand = demand.map(|demand| (key.clone(), demand)).into_iter().collect();
        let globals = [("shop/web".to_owned(), &global)].into_iter();
        objections(globals, "c2", keep, &demand).iter().map(ToString::to_string).collect()
    };
    assert_eq!(check(1, None), [""; 0]);
    assert_eq!(check(1, Some(20.0)), [""; 0]);
    assert_eq!(check(2, None), ["shop/web (web:80): 1 of 2 clusters would be left (c1)"]);
    assert_eq!(
        check(1, Some(45.0)),
        ["shop/web (web:80): clients want 45 requests/s and the others can take 20 (c1)"]
    );
}

#[test]
fn edges_decide_by_majority_and_not_at_once() {
    let report = |healthy: bool| EdgeReport {
        targets: vec![TargetReport {
            cluster: "c1".to_owned(),
            address: Some("192.0.2.1:80".to_owned()),
            healthy,
            ..TargetReport::default()
        }],
        ..EdgeReport::default()
    };
    let look = |before: &BTreeMap<_, _>, healthy: [bool; 3], now| {
        let reports = healthy.map(report);
        quorum(before, reports.iter(), now)
    };
    let well = look(&BTreeMap::new(), [true, true, false], 0);
    assert_eq!(reachable(&well, "c1").verdict, Verdict::Healthy);
    let once = look(&well, [false, false, true], 1);
    assert_eq!(reachable(&once, "c1").verdict, Verdict::Healthy, "one look is not enough");
    let twice = look(&once, [false, false, true], 2);
    assert_eq!(reachable(&twice, "c1").verdict, Verdict::Unhealthy);
    let silence = quorum(&twice, [].iter(), 3);
    assert_eq!(reachable(&silence, "c1").verdict, Verdict::Unknown, "nobody says anything");
}
