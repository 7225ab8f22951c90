//! Another field manager that keeps changing a leaf.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::history::History;
use super::member::{Member, apply, config_map, eventually_synced, kubectl};
use crate::processes::ApiServer;

/// Corrections back off for about a minute before the hub yields.
const LIMIT: Duration = Duration::from_secs(240);

/// The rival applies its value whenever it is gone, as a GitOps tool in the member would, until the
/// hub names it.
async fn insist_until_named(hub: &ApiServer, member: &Member) {
    let arguments =
        ["apply", "--server-side", "--field-manager=gitops", "--force-conflicts", "-f", "-"];
    let theirs = config_map("default", "web", "theirs").to_string();
    let status = || hub.limen(&["status", "configmap/web"]).all();
    let named = tokio::time::timeout(LIMIT, async {
        loop {
            if value(member).await != "theirs" {
                kubectl(member.plane.kubeconfig_path(), &arguments, &theirs).await;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
            if status().contains("gitops keeps changing data.key") {
                return;
            }
        }
    });
    assert!(named.await.is_ok(), "nobody is named: {}", status());
}

async fn value(member: &Member) -> String {
    let found = member.config_maps("default").get("web").await.unwrap();
    found.data.unwrap_or_default().remove("key").unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rival_manager_is_corrected_a_few_times_and_then_named_and_yielded_to() {
    let a = Member::start().await;
    let hub = ApiServer::hub();
    a.join(&hub.kubeconfig(), "a");
    apply(&hub.kubeconfig(), &[config_map("default", "web", "ours")]).await;
    eventually_synced(&hub, "default", "web", "1/1").await;
    let history = History::start::<ConfigMap>(&a.client, json!({})).await;

    insist_until_named(&hub, &a).await;
    let corrections = async || {
        let changes = history.so_far().await;
        changes.iter().filter(|change| change.object["data"]["key"] != "theirs").count()
    };
    assert_eq!(corrections().await, 5, "corrections before it was yielded");
    assert_eq!(value(&a).await, "theirs");
}
