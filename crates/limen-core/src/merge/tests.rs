use serde_json::json;

use super::*;

fn kind(api_version: &str, kind: &str) -> Kind {
    Kind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: String::new(),
        namespaced: true,
    }
}

fn merged(of: &Kind, statuses: &[(&str, Value)]) -> Value {
    let leaves: Vec<_> = statuses
        .iter()
        .map(|(cluster, status)| LeafStatus { cluster, status, current: true })
        .collect();
    merge(of, &leaves, 4).unwrap()
}

#[test]
fn addresses_are_united_and_each_is_there_once() {
    let ingress = kind("networking.k8s.io/v1", "Ingress");
    let at = |addresses: Value| json!({"loadBalancer": {"ingress": addresses}});
    let status = merged(
        &ingress,
        &[
            ("a", at(json!([{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}]))),
            ("b", at(json!([{"hostname": "lb.example.com"}, {"ip": "192.0.2.1"}]))),
            ("c", json!({})),
        ],
    );
    let expected =
        json!([{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}, {"hostname": "lb.example.com"}]);
    assert_eq!(status, at(expected));
    assert_eq!(merged(&ingress, &[]), json!({"loadBalancer": {}}));
}

#[test]
fn deployments_sum_and_name_the_clusters_that_differ() {
    let available = |on: &str, message: &str, at: &str| {
        json!({"type": "Available", "status": on, "reason": "R", "message": message,
            "lastTransitionTime": at})
    };
    let one = json!({"replicas": 3, "readyReplicas": 3, "observedGeneration": 9,
        "conditions": [available("True", "ok", "2026-01-01T00:00:00Z")]});
    let two = json!({"replicas": 2, "readyReplicas": 1, "unavailableReplicas": 1,
        "conditions": [available("False", "too few", "2026-01-02T00:00:00Z")]});
    let status = merged(&kind("apps/v1", "Deployment"), &[("asia", one), ("europe", two)]);
    assert_eq!(
        status,
        json!({
            "replicas": 5, "readyReplicas": 4, "unavailableReplicas": 1, "observedGeneration": 4,
            "conditions": [{"type": "Available", "status": "False", "reason": "R",
                "message": "europe: too few", "lastTransitionTime": "2026-01-02T00:00:00Z"}],
        })
    );
}

#[test]
fn a_rollout_is_not_seen_as_done_while_a_leaf_is_behind() {
    let status = json!({"replicas": 1});
    let behind = LeafStatus { cluster: "a", status: &status, current: false };
    let merged = merge(&kind("apps/v1", "Deployment"), &[behind], 4).unwrap();
    assert_eq!(merged, json!({"replicas": 1}));
}

#[test]
fn a_job_is_complete_only_when_all_are_and_failed_when_one_is() {
    let job = kind("batch/v1", "Job");
    let done = |time: &str| {
        json!({"succeeded": 2, "startTime": time, "completionTime": time, "conditions": [
            {"type": "Complete", "status": "True", "reason": "Done", "message": "m"}]})
    };
    let running = json!({"active": 1, "startTime": "2026-01-01T00:00:05Z"});
    let failed = json!({"failed": 1, "conditions": [
        {"type": "Failed", "status": "True", "reason": "Limit", "message": "backoff"}]});

    let (early, late) = (done("2026-01-01T00:00:01Z"), done("2026-01-01T00:00:09Z"));
    let both = merged(&job, &[("a", early.clone()), ("b", late)]);
    assert_eq!(both["completionTime"], "2026-01-01T00:00:09Z");
    assert_eq!(both["startTime"], "2026-01-01T00:00:01Z");
    assert_eq!(both["conditions"][0]["type"], "Complete");

    let half = merged(&job, &[("a", early.clone()), ("b", running)]);
    assert_eq!(half["conditions"], Value::Null);
    assert_eq!((half["active"].clone(), half["succeeded"].clone()), (json!(1), json!(2)));

    let broken = merged(&job, &[("a", early), ("b", failed)]);
    assert_eq!(broken["conditions"][0]["type"], "Failed");
    assert_eq!(broken["conditions"][0]["message"], "b: backoff");
}

#[test]
fn kinds_without_a_status_have_none_to_merge() {
    assert_eq!(merge(&kind("v1", "ConfigMap"), &[], 1), None);
}
