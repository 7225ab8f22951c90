//! A hub that is started from an older copy of its data folder.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use limen_api::Cluster;
use serde_json::{Value, json};

use super::history::History;
use super::member::{Member, apply, config_map, eventually_synced, kubectl};
use crate::processes::{ApiServer, eventually};

async fn assert_unwritten(history: &History) {
    let changes = history.so_far().await;
    assert!(changes.is_empty(), "an old copy of the hub wrote to the member: {changes:#?}");
}

/// Roots besides, so that the hub's revision grows.
const MORE: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_from_an_older_copy_writes_nothing_to_members_until_it_is_resumed() {
    let a = Member::start().await;
    let mut hub = ApiServer::hub();
    a.join(&hub.kubeconfig(), "a");
    let root = |name: &str, value: &str| config_map("default", name, value);
    apply(&hub.kubeconfig(), &[root("changed", "old"), root("deleted", "old")]).await;
    for name in ["changed", "deleted"] {
        eventually_synced(&hub, "default", name, "1/1").await;
    }
    hub.stop();
    let mut copy = hub.copy();

    // Life goes on after the backup.
    hub.start_again();
    let more = |prefix: &str, value: &str| -> Vec<Value> {
        (0..MORE).map(|n| root(&format!("{prefix}-{n:02}"), value)).collect()
    };
    apply(&hub.kubeconfig(), &more("more", "new")).await;
    a.eventually_has_leaves("default", MORE + 2).await;
    apply(&hub.kubeconfig(), &[root("changed", "new"), root("added", "new")]).await;
    kubectl(&hub.kubeconfig(), &["delete", "configmap", "deleted"], "").await;
    for name in ["changed", "added"] {
        eventually_synced(&hub, "default", name, "1/1").await;
        a.eventually_has("default", name, Some("new")).await;
    }
    a.eventually_has("default", "deleted", None).await;
    hub.kill();

    let history = History::start::<ConfigMap>(&a.client, json!({})).await;
    let claims = a.kubectl(&["get", "configmaps", "-n", "limen-system", "-o", "yaml"]).await;
    copy.start_again();
    let clusters: Api<Cluster> = Api::all(copy.client().await);
    eventually("the condition of the cluster", async || {
        assert_unwritten(&history).await;
        let found = clusters.get("a").await.unwrap();
        let conditions = found.status.clone().unwrap_or_default().conditions;
        let stopped = conditions.iter().any(|one| {
            one.type_ == "Writable" && one.status == "False" && one.reason == "HubSuperseded"
        });
        (stopped, format!("{conditions:?}"))
    })
    .await;
    // It has work: roots of its own that the member does not have, and people who change them.
    apply(&copy.kubeconfig(), &[root("changed", "older"), root("another", "older")]).await;
    eventually("the record of the new root", async || {
        let said = copy.limen(&["status", "configmap/another"]);
        (said.out().contains("synced 0/1"), said.all())
    })
    .await;
    // Neither writes, however many, nor a crash make its state the newest.
    for value in ["older", "older still", "oldest"] {
        apply(&copy.kubeconfig(), &more("local", value)).await;
    }
    copy.kill();
    copy.start_again();
    // The next probes and corrections have come and gone.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_unwritten(&history).await;
    let now = a.kubectl(&["get", "configmaps", "-n", "limen-system", "-o", "yaml"]).await;
    assert_eq!(now, claims, "an old copy of the hub has claimed the member");

    let doctor = copy.limen(&["doctor", "--resolver", "127.0.0.1:1"]);
    let line = doctor.out().lines().find(|line| line.contains("of a newer hub")).map(str::to_owned);
    assert!(line.is_some_and(|line| line.contains("fault")), "{}", doctor.all());
    let unasked = copy.limen(&["resume"]);
    assert!(!unasked.succeeded() && unasked.out().contains("Found in a"), "{}", unasked.all());
    let resumed = copy.limen(&["resume", "--yes"]);
    assert!(resumed.out().contains("Resumed from epoch"), "{}", resumed.all());
    for (name, value) in [("changed", "older"), ("another", "older"), ("deleted", "old")] {
        a.eventually_has("default", name, Some(value)).await;
    }
    // It goes on from its own state, and takes nothing away that only the newer one knew.
    a.eventually_has_leaves("default", 2 * MORE + 4).await;
    a.eventually_has("default", "added", Some("new")).await;
}
