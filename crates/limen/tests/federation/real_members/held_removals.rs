//! Removals that wait for a person, while the hub is killed and clusters are relabelled.

use serde_json::{Value, json};

use super::member::{
    Member, apply, config_map, eventually_held, eventually_nothing_held, eventually_synced,
    kubectl, policy,
};
use crate::processes::ApiServer;

/// So many that their loss looks like an accident.
const ROOTS: usize = 12;

async fn label(hub: &ApiServer, cluster: &str, label: &str) {
    let arguments = ["label", "cluster.limen.dev", cluster, label, "--overwrite"];
    kubectl(&hub.kubeconfig(), &arguments, "").await;
}

/// The roots of a hold, and the clusters that each of them would lose.
fn set(hold: &Value) -> Vec<(String, Value)> {
    let roots = hold["spec"]["roots"].as_array().unwrap();
    let root = |root: &Value| (root["name"].as_str().unwrap().to_owned(), root["clusters"].clone());
    let mut set: Vec<_> = roots.iter().map(root).collect();
    set.sort_by(|(a, _), (b, _)| a.cmp(b));
    set
}

/// A new root has reached member a: the hub has planned since it was started and relabelled.
async fn eventually_plans(hub: &ApiServer, a: &Member, name: &str) {
    apply(&hub.kubeconfig(), &[config_map("default", name, "one")]).await;
    a.eventually_has("default", name, Some("one")).await;
    eventually_synced(hub, "default", name, "1/1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_survives_kill_and_labels_and_is_released_by_name_once() {
    let (a, b) = tokio::join!(Member::start(), Member::start());
    let mut hub = ApiServer::hub();
    a.join(&hub.kubeconfig(), "a");
    b.join(&hub.kubeconfig(), "b");
    let live = policy(
        "default",
        "live",
        &json!({"placement": {"clusterSelector": {"matchLabels": {"stage": "live"}}}}),
    );
    label(&hub, "a", "stage=live").await;
    label(&hub, "b", "stage=live").await;
    let root = |n: usize| config_map("default", &format!("root-{n:02}"), "one");
    let roots: Vec<Value> = (0..ROOTS).map(root).collect();
    apply(&hub.kubeconfig(), &[live]).await;
    apply(&hub.kubeconfig(), &roots).await;
    for n in 0..ROOTS {
        eventually_synced(&hub, "default", &format!("root-{n:02}"), "2/2").await;
    }

    // The accident: all leaves of b would go.
    label(&hub, "b", "stage=test").await;
    let hold = eventually_held(&hub, ROOTS as u64).await;
    let name = hold["metadata"]["name"].as_str().unwrap();
    assert_eq!(hold["spec"]["reason"], "LargeRemoval", "{hold:#}");
    let expected = |n: usize| (format!("root-{n:02}"), json!(["b"]));
    assert_eq!(set(&hold), (0..ROOTS).map(expected).collect::<Vec<_>>());

    hub.kill();
    hub.start_again();
    eventually_plans(&hub, &a, "after-the-kill").await;
    label(&hub, "a", "unrelated=yes").await;
    eventually_plans(&hub, &a, "after-the-label").await;
    hub.kill();
    hub.start_again();
    eventually_plans(&hub, &a, "after-another-kill").await;
    assert_eq!(b.leaves("default").await.len(), ROOTS, "the hold was dissolved");
    let same = eventually_held(&hub, ROOTS as u64).await;
    assert_eq!(same["metadata"]["uid"], hold["metadata"]["uid"], "{same:#}");
    assert_eq!(set(&same), set(&hold));

    let released = hub.limen(&["release", name]);
    assert!(released.out().contains("1 released."), "{}", released.all());
    b.eventually_has_leaves("default", 0).await;
    eventually_nothing_held(&hub).await;
    assert_eq!(a.leaves("default").await.len(), ROOTS + 3, "a was not concerned");
    let again = hub.limen(&["release", name]);
    assert!(!again.succeeded() && again.err().contains("there is no hold"), "{}", again.all());

    // The release was for that accident, and not for the next one.
    label(&hub, "b", "stage=live").await;
    b.eventually_has_leaves("default", ROOTS + 3).await;
    for n in 0..ROOTS {
        eventually_synced(&hub, "default", &format!("root-{n:02}"), "2/2").await;
    }
    label(&hub, "b", "stage=test").await;
    let next = eventually_held(&hub, ROOTS as u64 + 3).await;
    assert_ne!(next["metadata"]["uid"], hold["metadata"]["uid"], "{next:#}");
    assert_eq!(b.leaves("default").await.len(), ROOTS + 3, "the same accident passed");
}
