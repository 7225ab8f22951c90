use std::collections::BTreeMap;

use limen_core::federated::{OnConflict, Placement};
use limen_core::placement::{ClusterFacts, Clusters};
use limen_core::plan::plan;
use serde_json::json;

use super::*;
use crate::PlacementPolicy;

fn native_kind(name: &str) -> Arc<Kind> {
    crate::kind(*crate::NATIVE.iter().find(|row| row.1 == name).unwrap())
}

fn clusters(names: &[&str]) -> Clusters {
    names.iter().map(|&name| (name.into(), ClusterFacts::default())).collect()
}

#[test]
fn the_selector_of_the_seed_is_read() {
    let selector = cluster_selector(
        r#"[{"key": "location", "operator": "in", "values": ["europe"]},
            {"key": "environment", "operator": "==", "values": ["prod"]}]"#,
    );
    let text: Vec<_> = selector.unwrap().0.iter().map(ToString::to_string).collect();
    assert_eq!(text, ["location=europe", "environment=prod"]);
    assert_eq!(cluster_selector("[]").unwrap().0, []);
}

#[test]
fn a_selector_that_is_not_understood_says_what_to_write() {
    for (text, reason) in [
        ("{", "not a JSON array"),
        (r#"[{"key": "a", "operator": "like", "values": ["b"]}]"#, "there is no operator \"like\""),
        (r#"[{"key": "a", "operator": "in"}]"#, "operator in needs one value or more, and got 0"),
        (
            r#"[{"key": "a", "operator": "=", "values": ["b", "c"]}]"#,
            "operator = needs one value, and got 2",
        ),
        (
            r#"[{"key": "a", "operator": "exists", "values": ["b"]}]"#,
            "operator exists needs no values, and got 1",
        ),
        (
            r#"[{"key": "a", "operator": "gt", "values": ["b"]}]"#,
            "operator gt needs an integer, not \"b\"",
        ),
        (r#"[{"key": "a", "operator": "in", "values": ["b"], "x": 1}]"#, "unknown field `x`"),
    ] {
        let error = cluster_selector(text).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn the_three_objects_of_the_seed_give_5_and_10_replicas() {
    let federated = json!({
        "metadata": {"namespace": "default", "name": "frontend", "uid": "u"},
        "spec": {"template": {
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "nginx-deployment", "labels": {"app": "nginx"}},
            "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "nginx"}}}}}});
    let placing = json!({"spec": {"clusterNames": ["cluster1", "cluster2"]}});
    let overriding = json!({"spec": {"overrides": [{"clusterName": "cluster2", "replicas": 10}]}});
    let leaf = native_kind("ReplicaSet");
    let kind = crate::kind(("core.federation.k8s.io/v1alpha1", "FederatedReplicaSet", "x", true));
    let federated =
        three_objects(&federated, Some(&placing), Some(&overriding), &kind, &leaf).unwrap();
    let plan =
        plan(&federated, &clusters(&["cluster1", "cluster2", "cluster3"]), "hub", &BTreeMap::new());
    let replicas: Vec<_> = plan
        .leaves
        .iter()
        .map(|(name, leaf)| (&**name, leaf.object.value()["spec"]["replicas"].clone()))
        .collect();
    assert_eq!(replicas, [("cluster1", json!(5)), ("cluster2", json!(10))]);
    assert_eq!(plan.leaves["cluster1"].object.value()["metadata"]["name"], "frontend");
}

#[test]
fn a_list_of_clusters_beats_a_selector_even_when_it_is_empty() {
    for (placement, expected) in [
        (json!({"clusters": [], "clusterSelector": {}}), Placement::Clusters(Vec::new())),
        (json!({}), Placement::Nowhere),
        (json!({"clusterSelector": {}}), Placement::Selector(Default::default())),
    ] {
        let object = json!({"metadata": {"name": "a"}, "spec": {
            "template": {}, "placement": placement}});
        let kind = native_kind("ConfigMap");
        assert_eq!(one_object(&object, &kind, &kind).unwrap().placement, expected);
    }
}

#[test]
fn an_override_replaces_unless_it_says_otherwise() {
    let object = json!({"metadata": {"name": "a"}, "spec": {
        "template": {"data": {"k": "v"}},
        "placement": {"clusters": [{"name": "one"}, {"name": "two"}]},
        "overrides": [{"clusterName": "two", "clusterOverrides": [
            {"path": "/data/k", "value": "w"}, {"op": "add", "path": "/data/x", "value": "y"}]}]}});
    let kind = native_kind("ConfigMap");
    let plan = plan(
        &one_object(&object, &kind, &kind).unwrap(),
        &clusters(&["one", "two"]),
        "hub",
        &BTreeMap::new(),
    );
    assert_eq!(plan.leaves["one"].object.value()["data"], json!({"k": "v"}));
    assert_eq!(plan.leaves["two"].object.value()["data"], json!({"k": "w", "x": "y"}));
}

#[test]
fn what_is_written_on_an_object_beats_its_policy() {
    let policy: PlacementPolicy = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"placement": {"clusters": [{"name": "one"}]}, "onConflict": "Abort",
            "rollout": {"waves": [{"clusters": [{"name": "one"}]}]}}}))
    .unwrap();
    let kind = native_kind("Ingress");
    let plain = json!({"metadata": {"name": "web", "namespace": "default"}});
    let under_policy = native(&plain, &kind, Some(&policy)).unwrap();
    assert_eq!(under_policy.placement, Placement::Clusters(vec!["one".to_owned()]));
    assert_eq!(under_policy.on_conflict, OnConflict::Abort);
    assert_eq!(under_policy.waves.len(), 1);

    let annotated = json!({"metadata": {"name": "web", "annotations": {
        "federation.alpha.kubernetes.io/cluster-selector": "[]"}}});
    let federated = native(&annotated, &kind, Some(&policy)).unwrap();
    assert_eq!(federated.placement, Placement::Selector(Default::default()));
    assert_eq!(native(&plain, &kind, None).unwrap().on_conflict, OnConflict::Adopt);
}

#[test]
fn preferences_are_checked_even_before_they_are_used() {
    let annotation = "federation.kubernetes.io/replica-set-preferences";
    let ok = r#"{"Rebalance": true, "clusters": {"*": {"MinReplicas": 1, "maxReplicas": 5, "weight": 2}}}"#;
    let preferences = Preferences::parse(ok, annotation).unwrap();
    assert!(preferences.rebalance);
    assert_eq!(preferences.clusters["*"].max, Some(5));
    for (text, reason) in [
        ("nonsense", "not JSON"),
        (r#"{"clusters": {"a": {"weight": -1}}}"#, "cluster \"a\": weight is -1"),
        (r#"{"clusters": {"a": {"minReplicas": 3, "maxReplicas": 1}}}"#, "is below minReplicas 3"),
        (r#"{"cluster": {}}"#, "there is no field \"cluster\""),
    ] {
        let error = Preferences::parse(text, annotation).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn limen_never_seizes_what_it_was_not_given() {
    let labels = Default::default();
    let given = [("limen.dev/federate".to_owned(), "true".to_owned())].into();
    let object =
        |namespace: &str, name: &str| json!({"metadata": {"namespace": namespace, "name": name}});
    let config = native_kind("ConfigMap");
    let embedded =
        |object: &Value, kind: &Kind| is_root(object, kind, Home::Embedded, false, &labels);
    assert!(embedded(&object("shop", "settings"), &config));
    assert!(!embedded(&object("kube-system", "settings"), &config));
    assert!(!embedded(&object("limen-system", "settings"), &config));
    assert!(!embedded(&object("shop", "kube-root-ca.crt"), &config));
    assert!(!embedded(&object("default", "kubernetes"), &native_kind("Service")));
    assert!(!embedded(&json!({"metadata": {"name": "default"}}), &native_kind("Namespace")));
    let off = json!({"metadata": {"namespace": "a", "name": "b",
        "annotations": {"limen.dev/federate": "false"}}});
    assert!(!embedded(&off, &config));
    let owned = json!({"metadata": {"namespace": "a", "name": "b",
        "ownerReferences": [{"controller": true}]}});
    assert!(!embedded(&owned, &native_kind("ReplicaSet")));

    let there = object("shop", "settings");
    assert!(!is_root(&there, &config, Home::Existing, false, &labels));
    assert!(is_root(&there, &config, Home::Existing, true, &labels));
    assert!(is_root(&there, &config, Home::Existing, false, &given));
}

#[test]
fn a_leaf_of_any_hub_is_never_a_root() {
    let given = [("limen.dev/federate".to_owned(), "true".to_owned())].into();
    let object = |labels: Value| {
        json!({"metadata": {"namespace": "shop", "name": "settings",
        "labels": labels, "annotations": {"limen.dev/federate": "true"}}})
    };
    let leaf = object(json!({"limen.dev/hub": "any-hub", "limen.dev/root-uid": "u-1"}));
    let config = native_kind("ConfigMap");
    for home in [Home::Embedded, Home::Existing] {
        assert!(is_root(&object(json!({})), &config, home, true, &given), "{home:?}");
        assert!(!is_root(&leaf, &config, home, true, &given), "{home:?}");
    }
}
