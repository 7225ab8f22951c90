use serde_json::json;

use super::*;

const HUB: &str = "hub-1";

fn object(kind: &str, metadata: Value) -> (String, Value) {
    (kind.to_owned(), metadata)
}

fn leaf(kind: &str, name: &str, going: bool) -> (String, Value) {
    let mut metadata = json!({"name": name, "uid": name, "labels": {HUB_LABEL: HUB}});
    if going {
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    object(kind, metadata)
}

fn owned(kind: &str, name: &str, owner: &str) -> (String, Value) {
    object(kind, json!({"name": name, "uid": name, "ownerReferences": [{"uid": owner}]}))
}

fn foreign(kind: &str, name: &str) -> (String, Value) {
    object(kind, json!({"name": name, "uid": name}))
}

#[test]
fn a_namespace_is_empty_only_without_anything_that_others_would_miss() {
    use NamespaceVerdict::{Empty, Foreign, NotYet};
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let token = object(
        "Secret",
        json!({"name": "default-token-x",
            "annotations": {"kubernetes.io/service-account.name": "default"}}),
    );
    let forged = object("Secret", json!({"name": "default-token-y"}));
    let other_hub = object("ConfigMap", json!({"name": "b", "labels": {HUB_LABEL: "hub-2"}}));
    for (objects, verdict) in [
        (vec![], Empty),
        (
            vec![
                foreign("Event", "started"),
                foreign("ConfigMap", "kube-root-ca.crt"),
                foreign("ServiceAccount", "default"),
                token,
            ],
            Empty,
        ),
        (vec![forged], Foreign(names(&["Secret default-token-y"]))),
        (vec![foreign("ServiceAccount", "robot")], Foreign(names(&["ServiceAccount robot"]))),
        (vec![foreign("Secret", "password")], Foreign(names(&["Secret password"]))),
        (vec![other_hub], Foreign(names(&["ConfigMap b"]))),
        (vec![leaf("ConfigMap", "a", true)], Empty),
        (vec![leaf("ConfigMap", "a", false)], NotYet(names(&["ConfigMap a"]))),
        (
            vec![leaf("ConfigMap", "a", false), foreign("Secret", "password")],
            Foreign(names(&["Secret password"])),
        ),
        // Owners decide: a Deployment of ours that goes takes its ReplicaSet along.
        (vec![leaf("Deployment", "d", true), owned("ReplicaSet", "r", "d")], Empty),
        (
            vec![leaf("Deployment", "d", false), owned("ReplicaSet", "r", "d")],
            NotYet(names(&["Deployment d", "ReplicaSet r"])),
        ),
        (
            vec![foreign("Deployment", "d"), owned("ReplicaSet", "r", "d"), owned("Pod", "p", "r")],
            Foreign(names(&["Deployment d", "ReplicaSet r", "Pod p"])),
        ),
        // The collector is about to take what has lost its owner.
        (vec![owned("ReplicaSet", "r", "gone")], NotYet(names(&["ReplicaSet r"]))),
        (
            vec![owned("ReplicaSet", "r", "gone"), owned("Pod", "p", "r")],
            NotYet(names(&["ReplicaSet r", "Pod p"])),
        ),
        // A loop of owners proves nothing.
        (vec![owned("A", "a", "b"), owned("B", "b", "a")], Foreign(names(&["A a", "B b"]))),
    ] {
        let contents = NamespaceContents { objects, unlistable: Vec::new() };
        assert_eq!(contents.verdict(HUB), verdict, "{contents:?}");
    }
}

#[test]
fn a_kind_that_cannot_be_listed_may_hold_anything() {
    let contents = NamespaceContents {
        objects: vec![leaf("ConfigMap", "a", false)],
        unlistable: vec!["widgets: forbidden".to_owned()],
    };
    let foreign = NamespaceVerdict::Foreign(vec!["widgets: forbidden".to_owned()]);
    assert_eq!(contents.verdict(HUB), foreign);
}

#[test]
fn an_object_without_owners_is_foreign_whatever_else_is_listed() {
    for ((kind, metadata), expected) in [
        (foreign("Secret", "password"), true),
        (foreign("Event", "started"), false),
        (foreign("ServiceAccount", "default"), false),
        (leaf("ConfigMap", "a", false), false),
        (leaf("ConfigMap", "a", true), false),
        (owned("ReplicaSet", "r", "d"), false),
    ] {
        assert_eq!(is_foreign(&kind, &metadata, HUB), expected, "{kind} {metadata}");
        let contents = NamespaceContents { objects: vec![(kind, metadata)], ..Default::default() };
        let judged = matches!(contents.verdict(HUB), NamespaceVerdict::Foreign(_));
        assert_eq!(judged, expected, "{contents:?}");
    }
}

#[test]
fn computed_resources_hold_nothing() {
    assert!(is_stored(&["create", "delete", "get", "list", "watch"]));
    assert!(!is_stored(&["get", "list"]), "PodMetrics");
    assert!(!is_stored(&["create"]), "LocalSubjectAccessReview");
    assert!(!is_stored(&["create", "delete", "get"]));
    assert!(is_virtual_group("metrics.k8s.io") && is_virtual_group("custom.metrics.k8s.io"));
    assert!(!is_virtual_group("example.com") && !is_virtual_group(""));
}
