use serde_json::json;

use super::*;
use crate::federated::{Kind, ObjectId, OnConflict, OnDelete, Override, Placement};
use crate::leaf::{HASH_ANNOTATION, HUB_LABEL, ROOT_LABEL};
use crate::placement::ClusterFacts;
use crate::selector::Selector;

fn federated(api_version: &str, kind: &str, template: &Value) -> Federated {
    let id = ObjectId {
        kind: Arc::new(Kind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
            namespaced: true,
        }),
        namespace: Some("default".to_owned()),
        name: "web".to_owned(),
    };
    Federated {
        root: id.clone(),
        root_uid: "u-1".to_owned(),
        leaf: id,
        template: template.into(),
        placement: Placement::Selector(Selector::default()),
        overrides: Vec::new(),
        on_conflict: OnConflict::default(),
        on_delete: OnDelete::default(),
        waves: Vec::new(),
    }
}

fn clusters(names: &[&str]) -> Clusters {
    names.iter().map(|&name| (name.into(), ClusterFacts::default())).collect()
}

fn patch(operations: Value) -> Patch {
    serde_json::from_value(operations).unwrap()
}

#[test]
fn a_leaf_has_what_the_person_wrote_and_nothing_of_the_hub() {
    let service = federated(
        "v1",
        "Service",
        &json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "web", "namespace": "default", "uid": "u-1", "resourceVersion": "9",
                "generation": 3, "finalizers": ["limen.dev/leaves"],
                "ownerReferences": [{"uid": "x"}], "managedFields": [{}],
                "labels": {"app": "web", "limen.dev/federate": "true"},
                "annotations": {
                    "federation.alpha.kubernetes.io/cluster-selector": "[]",
                    "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            },
            "spec": {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"],
                "ports": [{"port": 80, "nodePort": 30001}], "selector": {"app": "web"}},
            "status": {"loadBalancer": {}},
        }),
    );
    let plan = plan(&service, &clusters(&["a"]), "hub-1", &BTreeMap::new());
    let leaf = &plan.leaves["a"];
    assert_eq!(
        leaf.object.value(),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "web", "namespace": "default",
                "labels": {"app": "web", HUB_LABEL: "hub-1", ROOT_LABEL: "u-1"},
                "annotations": {HASH_ANNOTATION: *leaf.hash},
            },
            "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}},
        })
    );
}

#[test]
fn headless_services_stay_headless() {
    let spec = json!({"clusterIP": "None", "clusterIPs": ["None"]});
    let service = federated("v1", "Service", &json!({"spec": spec}));
    let plan = plan(&service, &clusters(&["a"]), "hub", &BTreeMap::new());
    assert_eq!(plan.leaves["a"].object.value()["spec"], spec);
}

#[test]
fn overrides_make_leaves_differ_and_equal_leaves_are_shared() {
    let mut deployment = federated("apps/v1", "Deployment", &json!({"spec": {"replicas": 5}}));
    deployment.overrides = vec![Override {
        clusters: Placement::Clusters(vec!["b".to_owned()]),
        patch: patch(json!([{"op": "replace", "path": "/spec/replicas", "value": 10}])),
    }];
    let plan = plan(&deployment, &clusters(&["a", "b", "c"]), "hub", &BTreeMap::new());
    let replicas = |name: &str| plan.leaves[name].object.value()["spec"]["replicas"].clone();
    assert_eq!((replicas("a"), replicas("b"), replicas("c")), (json!(5), json!(10), json!(5)));
    assert!(Arc::ptr_eq(&plan.leaves["a"], &plan.leaves["c"]));
    assert_ne!(plan.leaves["a"].hash, plan.leaves["b"].hash);
}

#[test]
fn an_override_that_does_not_fit_leaves_its_member_as_it_is() {
    for (operation, reason) in [
        (
            json!({"op": "replace", "path": "/spec/missing/field", "value": 1}),
            "override 0 cannot be applied",
        ),
        (
            json!({"op": "replace", "path": "/metadata/name", "value": "other"}),
            "it changes which object this is",
        ),
        (json!({"op": "replace", "path": "", "value": 7}), "it changes which object this is"),
    ] {
        let mut deployment = federated("apps/v1", "Deployment", &json!({"spec": {"replicas": 5}}));
        deployment.overrides = vec![Override {
            clusters: Placement::Clusters(vec!["b".to_owned()]),
            patch: patch(json!([operation])),
        }];
        let plan = plan(&deployment, &clusters(&["a", "b"]), "hub", &BTreeMap::new());
        assert_eq!(plan.leaves.keys().map(|name| &**name).collect::<Vec<_>>(), ["a"]);
        let error = plan.refused["b"].to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn the_hash_changes_with_the_content_only() {
    let one = federated("v1", "ConfigMap", &json!({"data": {"a": "1", "b": "2"}}));
    let same = federated("v1", "ConfigMap", &json!({"data": {"b": "2", "a": "1"}, "status": {}}));
    let other = federated("v1", "ConfigMap", &json!({"data": {"a": "1", "b": "3"}}));
    let hash = |federated| {
        plan(federated, &clusters(&["a"]), "hub", &BTreeMap::new()).leaves["a"].hash.clone()
    };
    assert_eq!(hash(&one), hash(&same));
    assert_ne!(hash(&one), hash(&other));
}

#[test]
fn handed_over_fields_are_left_out_of_the_leaves_of_their_members_only() {
    let template = json!({"spec": {"replicas": 5, "paused": false}});
    let mut deployment = federated("apps/v1", "Deployment", &template);
    deployment.overrides = vec![Override {
        clusters: Placement::Clusters(vec!["a".to_owned(), "b".to_owned()]),
        patch: patch(json!([{"op": "replace", "path": "/spec/replicas", "value": 10}])),
    }];
    let fields = vec!["/spec/replicas".to_owned()];
    let handed_over = BTreeMap::from([("b".into(), fields.clone())]);
    let plan = plan(&deployment, &clusters(&["a", "b", "c"]), "hub", &handed_over);
    let spec = |name: &str| plan.leaves[name].object.value()["spec"].clone();
    assert_eq!(spec("a"), json!({"replicas": 10, "paused": false}));
    assert_eq!(spec("b"), json!({"paused": false}));
    assert_eq!(spec("c"), json!({"replicas": 5, "paused": false}));
    assert_eq!(plan.leaves["b"].handed_over, fields);
    assert!(plan.leaves["a"].handed_over.is_empty());
    assert_ne!(plan.leaves["a"].hash, plan.leaves["b"].hash);
}
