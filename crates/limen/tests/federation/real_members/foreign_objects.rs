//! Foreign objects that take the place of leaves before the hub knows.

use k8s_openapi::api::core::v1::ConfigMap;
use limen_testbed::Lag;
use serde_json::{Value, json};

use super::history::{Change, History};
use super::member::{Member, apply, config_map, eventually_synced, kubectl, policy};
use crate::processes::{ApiServer, eventually};

/// Deletes a leaf in the member and creates a foreign object of that name; its uid.
async fn replace(member: &Member, name: &str) -> String {
    member.kubectl(&["delete", "configmap", name]).await;
    member.kubectl(&["create", "configmap", name, "--from-literal=key=theirs"]).await;
    member.kubectl(&["get", "configmap", name, "-o", "jsonpath={.metadata.uid}"]).await
}

/// Foreign objects have had no version but their first.
async fn assert_untouched(history: &History, foreign: &[String]) {
    let changes = history.so_far().await;
    for uid in foreign {
        let versions: Vec<&Change> = changes.iter().filter(|one| one.uid() == uid).collect();
        assert_eq!(versions[0].object["data"]["key"], "theirs", "its creation comes first");
        assert!(versions.len() == 1, "a foreign object was touched: {versions:#?}");
    }
}

/// Waits until the hub says that an object is in the place of a leaf.
async fn eventually_refused(hub: &ApiServer, name: &str, history: &History, foreign: &[String]) {
    eventually(&format!("the status of {name}"), async || {
        assert_untouched(history, foreign).await;
        let said = hub.limen(&["status", &format!("configmap/{name}")]);
        (said.out().contains("Conflict"), said.all())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_object_in_the_place_of_a_leaf_is_never_touched_however_late_the_hub_learns() {
    let a = Member::start().await;
    let hub = ApiServer::hub();
    let detour = a.join_by_detour(&hub.kubeconfig(), "a").await;
    let abort = policy(
        "default",
        "abort",
        &json!({"placement": {"clusterSelector": {}}, "onConflict": "Abort"}),
    );
    let roots = |names: &[&str], value: &str| -> Vec<Value> {
        names.iter().map(|name| config_map("default", name, value)).collect()
    };
    let names = ["late", "deleted", "paused", "other"];
    apply(&hub.kubeconfig(), &[abort]).await;
    apply(&hub.kubeconfig(), &roots(&names, "one")).await;
    for name in names {
        eventually_synced(&hub, "default", name, "1/1").await;
    }
    let history = History::start::<ConfigMap>(&a.client, json!({})).await;

    // The hub updates and deletes what it believes to be its leaves: no event has told it better.
    detour.set(Lag::Everything);
    let mut foreign = vec![replace(&a, "late").await, replace(&a, "deleted").await];
    apply(&hub.kubeconfig(), &roots(&["late"], "two")).await;
    kubectl(&hub.kubeconfig(), &["delete", "configmap", "deleted", "--wait=false"], "").await;
    // Its requests have come when a later one has.
    apply(&hub.kubeconfig(), &roots(&["other"], "two")).await;
    a.eventually_has("default", "other", Some("two")).await;
    detour.set(Lag::Nothing);
    eventually_refused(&hub, "late", &history, &foreign).await;

    // The hub stands still, and goes on with a change that came meanwhile.
    hub.signal("-STOP");
    foreign.push(replace(&a, "paused").await);
    hub.signal("-CONT");
    apply(&hub.kubeconfig(), &roots(&["paused"], "two")).await;
    eventually_refused(&hub, "paused", &history, &foreign).await;

    // Roots without leaves can go, and take nothing along.
    kubectl(&hub.kubeconfig(), &["delete", "configmap", "late", "paused"], "").await;
    eventually("the roots", async || {
        let left = hub.config_maps().await.list_metadata(&Default::default()).await.unwrap();
        let left: Vec<_> = left.items.into_iter().filter_map(|map| map.metadata.name).collect();
        (left == ["other"], format!("{left:?}"))
    })
    .await;
    assert_untouched(&history, &foreign).await;
}
