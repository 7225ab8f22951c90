//! Objects that are roots no more, and leaves that more than one root claims.

use limen_api::ONE_OBJECT_GROUP;
use serde_json::{Value, json};

use crate::rig::{Rig, id_of};

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "default"}, "data": {"from": "native"}})
}

/// The same leaf, by the form in one object.
fn federated() -> Value {
    json!({"apiVersion": format!("{ONE_OBJECT_GROUP}/v1beta1"), "kind": "FederatedConfigMap",
        "metadata": {"name": "settings", "namespace": "default"},
        "spec": {"template": {"data": {"from": "federated"}},
            "placement": {"clusterSelector": {}}}})
}

fn absent(object: Option<&Value>) -> bool {
    object.is_none()
}

fn is_from(object: Option<&Value>, form: &str) -> bool {
    object.is_some_and(|leaf| leaf["data"]["from"] == form)
}

fn is_refused(record: Option<&Value>) -> bool {
    let message = record.and_then(|record| record["spec"]["message"].as_str());
    message.is_some_and(|text| text.contains("already belong to"))
}

/// Says that an object is to be federated no longer.
async fn take_back(rig: &Rig) {
    let no_root = json!({"metadata": {"annotations": {"limen.dev/federate": "false"}}});
    rig.hub.api().merge(&id_of(&config_map()), "", &no_root).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_became_no_root_while_no_hub_was_there_loses_its_leaves_and_its_finalizer() {
    let mut rig = Rig::start(&["asia-1"]).await;
    let id = id_of(&config_map());
    rig.hub.create(&config_map()).await;
    rig.eventually(&id, &["asia-1"], |leaf| leaf.is_some()).await;
    rig.eventually_recorded(&id).await;
    rig.stop_federation().await;
    take_back(&rig).await;
    rig.start_federation().await;
    rig.eventually(&id, &["asia-1"], absent).await;
    let left = rig
        .eventually_on_hub(&id, |object| {
            let finalizers = object.map(|object| object["metadata"]["finalizers"].clone());
            finalizers.is_none_or(|all| all.as_array().is_none_or(Vec::is_empty))
        })
        .await;
    assert!(is_from(left.as_ref(), "native"), "it is gone itself: {left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_root_any_more_can_be_deleted_after_the_hub_started_anew() {
    let mut rig = Rig::start(&["asia-1"]).await;
    let id = id_of(&config_map());
    rig.hub.create(&config_map()).await;
    rig.eventually(&id, &["asia-1"], |leaf| leaf.is_some()).await;
    rig.eventually_recorded(&id).await;
    take_back(&rig).await;
    rig.stop_federation().await;
    rig.start_federation().await;
    rig.delete(&id).await;
    rig.eventually_on_hub(&id, absent).await;
    rig.eventually(&id, &["asia-1"], absent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_understood_takes_its_leaves_along_also_after_the_hub_started_anew() {
    let mut rig = Rig::start(&["asia-1"]).await;
    let (leaf, id) = (id_of(&config_map()), id_of(&federated()));
    rig.hub.create(&federated()).await;
    rig.eventually(&leaf, &["asia-1"], |leaf| is_from(leaf, "federated")).await;
    rig.eventually_recorded(&id).await;
    rig.stop_federation().await;
    let nonsense = json!({"spec": {"placement": {"clusterSelector": {
        "matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}}}});
    rig.hub.api().merge(&id, "", &nonsense).await.unwrap();
    rig.start_federation().await;
    rig.delete(&id).await;
    rig.eventually_on_hub(&id, absent).await;
    rig.eventually(&leaf, &["asia-1"], absent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaf_goes_to_the_next_who_claims_it_when_its_root_is_deleted() {
    let rig = Rig::start(&["asia-1"]).await;
    let id = id_of(&config_map());
    rig.hub.create(&config_map()).await;
    rig.eventually(&id, &["asia-1"], |leaf| is_from(leaf, "native")).await;
    rig.hub.create(&federated()).await;
    rig.eventually_on_hub(&Rig::record(&id_of(&federated())), is_refused).await;
    rig.delete(&id).await;
    rig.eventually(&id, &["asia-1"], |leaf| is_from(leaf, "federated")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaf_goes_to_the_next_who_claims_it_when_its_root_is_none_any_more() {
    let rig = Rig::start(&["asia-1"]).await;
    let id = id_of(&config_map());
    rig.hub.create(&config_map()).await;
    rig.eventually(&id, &["asia-1"], |leaf| is_from(leaf, "native")).await;
    rig.hub.create(&federated()).await;
    rig.eventually_on_hub(&Rig::record(&id_of(&federated())), is_refused).await;
    take_back(&rig).await;
    rig.eventually(&id, &["asia-1"], |leaf| is_from(leaf, "federated")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaf_stays_with_its_root_when_the_hub_starts_anew() {
    let mut rig = Rig::start(&["asia-1"]).await;
    let id = id_of(&config_map());
    rig.hub.create(&config_map()).await;
    rig.eventually(&id, &["asia-1"], |leaf| is_from(leaf, "native")).await;
    rig.hub.create(&federated()).await;
    let record = Rig::record(&id_of(&federated()));
    let refused = rig.eventually_on_hub(&record, is_refused).await.unwrap();
    rig.stop_federation().await;
    // So that the next one is seen to be new.
    let uid = refused["metadata"]["uid"].as_str().unwrap();
    rig.hub.api().delete(&record, uid).await.unwrap();
    rig.start_federation().await;
    rig.eventually_on_hub(&record, is_refused).await;
    assert!(is_from(rig.member("asia-1").get(&id).await.as_ref(), "native"));
}
