//! Accidents wait for a person, and everyday work does not.

use limen_core::federated::ObjectId;
use serde_json::{Value, json};

use crate::rig::{Rig, eventually, id_of};

const BOTH: [&str; 2] = ["asia-1", "europe-1"];

fn config_map(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace}, "data": {"key": "one"}})
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn policy(spec: &Value) -> Value {
    json!({"apiVersion": "limen.dev/v1alpha1", "kind": "PlacementPolicy",
        "metadata": {"name": "governor", "namespace": "default"}, "spec": spec})
}

fn cluster(name: &str) -> ObjectId {
    id_of(&json!({"apiVersion": "limen.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name}}))
}

fn present(object: Option<&Value>) -> bool {
    object.is_some()
}

fn absent(object: Option<&Value>) -> bool {
    object.is_none()
}

/// Creates roots and waits until both members have them all.
async fn spread(rig: &Rig, namespace: &str, count: usize) -> Vec<ObjectId> {
    let mut ids = Vec::new();
    for n in 0..count {
        let root = config_map(namespace, &format!("root-{n}"));
        rig.hub.create(&root).await;
        ids.push(id_of(&root));
    }
    for id in &ids {
        rig.eventually(id, &BOTH, present).await;
    }
    ids
}

/// Waits until a root's record says that so many clusters are synced.
async fn recorded(rig: &Rig, id: &ObjectId) {
    let whole =
        |record: Option<&Value>| record.is_some_and(|record| record["spec"]["synced"] == "2/2");
    rig.eventually_on_hub(&Rig::record(id), whole).await;
}

async fn leaves(rig: &Rig, ids: &[ObjectId]) -> usize {
    let mut found = 0;
    for name in BOTH {
        for id in ids {
            found += usize::from(rig.member(name).get(id).await.is_some());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_objects_deleted_by_name_on_a_fresh_federation_are_not_held() {
    let rig = Rig::start(&BOTH).await;
    let ids = spread(&rig, "default", 7).await;
    for id in &ids {
        rig.delete(id).await;
    }
    for id in &ids {
        rig.eventually_on_hub(id, absent).await;
        rig.eventually(id, &BOTH, absent).await;
    }
    assert_eq!(rig.holds().await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_full_of_roots_is_held_whole_until_it_is_released() {
    let mut rig = Rig::start(&BOTH).await;
    rig.hub.create(&namespace("shop")).await;
    let ids = spread(&rig, "shop", 51).await;
    rig.delete(&id_of(&namespace("shop"))).await;
    let (name, hold) = rig.wait_for_holds(1).await.remove(0);
    assert_eq!(hold["spec"]["reason"], "NamespaceDeleted", "{hold:#}");
    eventually("the whole set is in the hold", async || {
        let hold = rig.holds().await.remove(0).1;
        let whole = hold["spec"]["rootCount"].as_u64() >= Some(51);
        (whole, format!("{} {}", hold["spec"]["rootCount"], hold["spec"]["message"]))
    })
    .await;
    assert_eq!(leaves(&rig, &ids).await, 102);

    // Neither a restart nor an unrelated label ends it.
    rig.kill_federation();
    rig.start_federation().await;
    let label = json!({"metadata": {"labels": {"unrelated": "yes"}}});
    rig.hub.api().merge(&cluster("asia-1"), "", &label).await.unwrap();
    let other = config_map("default", "other");
    rig.hub.create(&other).await;
    rig.eventually(&id_of(&other), &BOTH, present).await;
    rig.delete(&id_of(&other)).await;
    rig.eventually(&id_of(&other), &BOTH, absent).await;
    assert_eq!(leaves(&rig, &ids).await, 102, "a hold was dissolved");
    assert_eq!(rig.holds().await.len(), 1);

    rig.release(&name).await;
    for id in &ids {
        rig.eventually(id, &BOTH, absent).await;
    }
    rig.eventually_on_hub(&id_of(&namespace("shop")), absent).await;
    rig.wait_for_holds(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_follows_its_cause_and_a_release_counts_once() {
    let rig = Rig::start(&BOTH).await;
    let ids = spread(&rig, "default", 1).await;
    let select = |place: &str| {
        let selector = json!([{"key": "location", "operator": "in", "values": [place]}]);
        json!({"metadata": {"annotations": {
            "federation.alpha.kubernetes.io/cluster-selector": selector.to_string()}}})
    };
    let nowhere = select("nowhere");
    rig.hub.api().merge(&ids[0], "", &nowhere).await.unwrap();
    rig.wait_for_holds(1).await;

    // One cluster happens to match: the other is still lost, and still held.
    rig.hub.api().merge(&ids[0], "", &select("asia")).await.unwrap();
    eventually("the hold is about europe", async || {
        let holds = rig.holds().await;
        let clusters = &holds[0].1["spec"]["roots"][0]["clusters"];
        (*clusters == json!(["europe-1"]), clusters.to_string())
    })
    .await;
    assert_eq!(leaves(&rig, &ids).await, 2);
    let everywhere = json!({"metadata": {"annotations": {"federation.alpha.kubernetes.io/cluster-selector": null}}});
    rig.hub.api().merge(&ids[0], "", &everywhere).await.unwrap();
    rig.wait_for_holds(0).await;

    for round in 0..2 {
        rig.hub.api().merge(&ids[0], "", &nowhere).await.unwrap();
        let (name, _) = rig.wait_for_holds(1).await.remove(0);
        assert_eq!(leaves(&rig, &ids).await, 2, "the same accident passed in round {round}");
        rig.release(&name).await;
        rig.eventually(&ids[0], &BOTH, absent).await;
        rig.wait_for_holds(0).await;
        rig.hub.api().merge(&ids[0], "", &everywhere).await.unwrap();
        rig.eventually(&ids[0], &BOTH, present).await;
        recorded(&rig, &ids[0]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_keeps_its_placement_when_its_policy_vanishes() {
    let mut rig = Rig::start(&BOTH).await;
    let eu_only = policy(&json!({"placement": {"clusters": [{"name": "europe-1"}]}}));
    rig.hub.create(&eu_only).await;
    let root = config_map("default", "settings");
    let id = id_of(&root);
    rig.hub.create(&root).await;
    rig.eventually(&id, &["europe-1"], present).await;
    rig.eventually_on_hub(&Rig::record(&id), |record| {
        record.is_some_and(|record| record["spec"]["governed"]["policy"] == "governor")
    })
    .await;
    rig.delete(&id_of(&eu_only)).await;
    let (name, hold) = rig.wait_for_holds(1).await.remove(0);
    assert_eq!(hold["spec"]["reason"], "PolicyGone", "{hold:#}");
    rig.kill_federation();
    rig.start_federation().await;
    let other = config_map("default", "other");
    rig.hub.create(&other).await;
    rig.eventually(&id_of(&other), &BOTH, present).await;
    assert!(rig.member("asia-1").get(&id).await.is_none(), "a vanished policy widened a placement");
    rig.release(&name).await;
    rig.eventually(&id, &BOTH, present).await;
    rig.wait_for_holds(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaves_stay_that_a_policy_orphans_also_when_it_is_deleted_with_the_root() {
    let rig = Rig::start(&BOTH).await;
    let orphans = policy(&json!({"placement": {"clusterSelector": {}}, "onDelete": "Orphan"}));
    rig.hub.create(&orphans).await;
    let ids = spread(&rig, "default", 2).await;
    for id in &ids {
        recorded(&rig, id).await;
    }
    // One is broken before it is deleted, and the policy is deleted together with the other.
    let nonsense = json!({"metadata": {"annotations": {
        "federation.alpha.kubernetes.io/cluster-selector": "nonsense"}}});
    rig.hub.api().merge(&ids[0], "", &nonsense).await.unwrap();
    rig.delete(&id_of(&orphans)).await;
    for id in &ids {
        rig.delete(id).await;
        rig.eventually_on_hub(id, absent).await;
    }
    assert_eq!(leaves(&rig, &ids).await, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_cluster_is_let_go_of_before_it_is_forgotten() {
    let rig = Rig::start(&BOTH).await;
    let ids = spread(&rig, "default", 1).await;
    rig.eventually_on_hub(&cluster("asia-1"), |cluster| {
        cluster.is_some_and(|cluster| cluster["metadata"]["finalizers"][0] == "limen.dev/member")
    })
    .await;
    rig.delete(&cluster("asia-1")).await;
    rig.eventually_on_hub(&cluster("asia-1"), absent).await;
    let leaf = rig.member("asia-1").get(&ids[0]).await.unwrap();
    assert!(
        leaf["metadata"]["labels"]["limen.dev/hub"].is_null(),
        "it was not let go of: {leaf:#}"
    );
}
