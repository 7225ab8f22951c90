//! Answers and records that are older than what has happened in a member since.

use limen_testbed::{ControlPlane, Lag};
use serde_json::Value;

use super::member::{Member, apply, config_map, eventually_synced, kubectl};
use crate::processes::{ApiServer, copy_folder, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaf_deleted_while_the_answer_to_its_update_is_in_flight_is_put_back() {
    let a = Member::build(ControlPlane::builder().without_http2()).await;
    let hub = ApiServer::hub();
    let detour = a.join_by_detour(&hub.kubeconfig(), "a").await;
    apply(&hub.kubeconfig(), &[config_map("default", "web", "one")]).await;
    eventually_synced(&hub, "default", "web", "1/1").await;

    // The update is done and its answer waits. The watch goes on: it tells of the update, and then
    // of the deletion, before the answer comes.
    detour.set(Lag::NewRequests);
    apply(&hub.kubeconfig(), &[config_map("default", "web", "two")]).await;
    a.eventually_has("default", "web", Some("two")).await;
    a.kubectl(&["delete", "configmap", "web"]).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(a.leaves("default").await.is_empty(), "nothing can be answered yet");
    detour.set(Lag::Nothing);
    a.eventually_has("default", "web", Some("two")).await;
    eventually_synced(&hub, "default", "web", "1/1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_restored_from_its_own_backup_is_put_right() {
    let mut a = Member::start().await;
    let hub = ApiServer::hub();
    a.join(&hub.kubeconfig(), "a");
    let names: Vec<String> = (0..6).map(|n| format!("root-{n}")).collect();
    let roots = |names: &[String], value: &str| -> Vec<Value> {
        names.iter().map(|name| config_map("default", name, value)).collect()
    };
    apply(&hub.kubeconfig(), &roots(&names[..3], "one")).await;
    apply(&hub.kubeconfig(), &[config_map("default", "deleted", "one")]).await;
    for name in names[..3].iter().map(String::as_str).chain(["deleted"]) {
        eventually_synced(&hub, "default", name, "1/1").await;
    }
    let backup = tempfile::tempdir().unwrap();
    a.plane.stop().await.unwrap();
    let data = a.plane.etcd().data_dir().to_owned();
    copy_folder(&data, backup.path());
    a.plane.start_again().await.unwrap();

    // Half of the leaves change after the backup, half are new, one is deleted.
    apply(&hub.kubeconfig(), &roots(&names, "two")).await;
    kubectl(&hub.kubeconfig(), &["delete", "configmap", "deleted"], "").await;
    for name in &names {
        a.eventually_has("default", name, Some("two")).await;
        eventually_synced(&hub, "default", name, "1/1").await;
    }
    a.eventually_has("default", "deleted", None).await;

    a.plane.stop().await.unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    copy_folder(backup.path(), &data);
    a.plane.start_again().await.unwrap();
    for name in &names {
        a.eventually_has("default", name, Some("two")).await;
    }
    a.eventually_has("default", "deleted", None).await;
    for name in &names {
        eventually_synced(&hub, "default", name, "1/1").await;
    }
    // It is at rest: what it says is what is there.
    let mut before = String::new();
    eventually("the leaves", async || {
        let now = a
            .kubectl(&["get", "configmaps", "-o", "jsonpath={.items[*].metadata.resourceVersion}"])
            .await;
        let rest = now == before;
        before.clone_from(&now);
        (rest, now)
    })
    .await;
    assert_eq!(a.leaves("default").await.len(), names.len());
}
