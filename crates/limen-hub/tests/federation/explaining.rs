//! Explanations of a plan are those of the hub: holds, waves, autoscalers, rivals, members that leave.

use limen_api::dialect::Home;
use limen_core::federated::ObjectId;
use limen_hub::{Catalogue, Explained, explain};
use serde_json::{Value, json};

use crate::rig::{Rig, id_of};

const SELECTOR: &str = "federation.alpha.kubernetes.io/cluster-selector";

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"from": "native"},
        "metadata": {"name": "settings", "namespace": "default"}})
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}]}}}})
}

fn policy(spec: &Value) -> Value {
    json!({"apiVersion": "limen.dev/v1alpha1", "kind": "PlacementPolicy",
        "metadata": {"name": "careful", "namespace": "default"}, "spec": spec})
}

async fn explained(rig: &Rig, id: &ObjectId, instead: Option<Value>) -> Explained {
    let catalogue = Catalogue::read(&rig.hub.client).await.unwrap();
    explain(&rig.hub.client, &catalogue, id, instead, Home::Embedded).await.unwrap()
}

fn action<'a>(explained: &'a Explained, cluster: &str) -> &'a str {
    &explained.clusters.iter().find(|outlook| outlook.cluster == cluster).unwrap().action
}

async fn synced(rig: &Rig, id: &ObjectId, count: &str) {
    rig.eventually_on_hub(&Rig::record(id), |record| {
        record.is_some_and(|record| record["spec"]["synced"] == count)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_would_be_held_is_explained_as_held_before_and_after() {
    let rig = Rig::start(&["asia-1"]).await;
    let id = id_of(&config_map());
    rig.hub.create(&config_map()).await;
    synced(&rig, &id, "1/1").await;
    assert_eq!(action(&explained(&rig, &id, None).await, "asia-1"), "nothing: as it shall be");

    let mut nowhere = config_map();
    nowhere["metadata"]["annotations"] =
        json!({SELECTOR: r#"[{"key": "location", "operator": "in", "values": ["nowhere"]}]"#});
    let before = explained(&rig, &id, Some(nowhere.clone())).await;
    assert_eq!(action(&before, "asia-1"), "stays until its deletion is released");
    assert!(before.held.as_deref().unwrap().starts_with("would be held: "), "{before:?}");

    let patch = json!({"metadata": {"annotations": nowhere["metadata"]["annotations"]}});
    rig.hub.api().merge(&id, "", &patch).await.unwrap();
    let (name, _) = rig.wait_for_holds(1).await.remove(0);
    let after = explained(&rig, &id, None).await;
    assert_eq!(action(&after, "asia-1"), "stays until its deletion is released");
    assert!(after.held.as_deref().unwrap().contains(&name), "{after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_is_not_understood_is_explained_as_the_reason_that_nothing_changes() {
    let rig = Rig::start(&["asia-1"]).await;
    let id = id_of(&config_map());
    rig.hub.create(&config_map()).await;
    synced(&rig, &id, "1/1").await;
    let near = json!({"placement": {"clusterSelector": {
        "matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}}});
    rig.hub.create(&policy(&near)).await;
    let explained = explained(&rig, &id, None).await;
    let hindrance = explained.hindrance.as_deref().unwrap();
    assert!(hindrance.contains("nothing is changed in any cluster"), "{hindrance}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_of_a_later_wave_waits() {
    let rig = Rig::start(&["asia-1", "europe-1"]).await;
    let waves = json!({"placement": {"clusterSelector": {}},
        "rollout": {"waves": [{"clusters": [{"name": "asia-1"}]}]}});
    rig.hub.create(&policy(&waves)).await;
    let id = id_of(&deployment());
    rig.hub.create(&deployment()).await;
    rig.eventually(&id, &["asia-1"], |leaf| leaf.is_some()).await;
    let explained = explained(&rig, &id, None).await;
    assert_eq!(explained.policy.as_deref(), Some("careful"));
    assert_eq!(action(&explained, "asia-1"), "nothing: as it shall be");
    assert_eq!(action(&explained, "europe-1"), "waits for an earlier wave");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_belong_to_an_autoscaler_are_no_difference() {
    let rig = Rig::start(&["asia-1"]).await;
    let id = id_of(&deployment());
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minReplicas": 1, "maxReplicas": 9, "scaleTargetRef": {
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
    rig.hub.create(&deployment()).await;
    rig.hub.create(&scaler).await;
    synced(&rig, &id, "1/1").await;
    synced(&rig, &id_of(&scaler), "1/1").await;
    let scaled = json!({"spec": {"replicas": 7}});
    rig.member("asia-1").api().merge(&id, "", &scaled).await.unwrap();
    let found = explained(&rig, &id, None).await;
    assert!(!action(&found, "asia-1").contains("spec.replicas"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_leaves_and_a_leaf_of_another_root_are_explained() {
    let mut rig = Rig::start(&["asia-1", "europe-1"]).await;
    let id = id_of(&config_map());
    rig.hub.create(&config_map()).await;
    synced(&rig, &id, "2/2").await;
    let rival = json!({"apiVersion": "types.kubefed.io/v1beta1", "kind": "FederatedConfigMap",
        "metadata": {"name": "settings", "namespace": "default"},
        "spec": {"template": {"data": {"from": "federated"}},
            "placement": {"clusterSelector": {}}}});
    rig.hub.create(&rival).await;
    let refused = explained(&rig, &id_of(&rival), None).await;
    assert!(refused.hindrance.as_deref().unwrap().contains("already belong"), "{refused:?}");

    rig.stop_federation().await;
    let leave = json!({"metadata": {"annotations": {"limen.dev/unjoin": "keep"}}});
    let asia = id_of(&json!({"apiVersion": "limen.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "asia-1"}}));
    rig.hub.api().merge(&asia, "", &leave).await.unwrap();
    let found = explained(&rig, &id, None).await;
    assert_eq!(action(&found, "asia-1"), "its leaf stays, and is nobody's any more");
    assert_eq!(action(&found, "europe-1"), "nothing: as it shall be");
}
