//! Members and hubs that go away, come back, or refuse.

use std::time::Duration;

use limen_hub::{UnjoinOptions, unjoin};
use serde_json::{Value, json};

use crate::rig::{Rig, id_of};

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"key": value}})
}

fn present(object: Option<&Value>) -> bool {
    object.is_some()
}

fn absent(object: Option<&Value>) -> bool {
    object.is_none()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_member_delays_no_other_and_catches_up() {
    let mut rig = Rig::start(&["asia-1", "europe-1"]).await;
    let first = config_map("first", "one");
    rig.hub.create(&first).await;
    rig.eventually(&id_of(&first), &["asia-1", "europe-1"], present).await;

    rig.members.get_mut("asia-1").unwrap().stop().await;
    let second = config_map("second", "one");
    rig.hub.create(&second).await;
    rig.eventually(&id_of(&second), &["europe-1"], present).await;
    rig.eventually_on_hub(&Rig::record(&id_of(&first)), |record| {
        record.is_some_and(|record| record["spec"]["clusters"][0]["stale"] == true)
    })
    .await;
    let cluster = id_of(&json!({"apiVersion": "limen.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "asia-1"}}));
    rig.eventually_on_hub(&cluster, |cluster| {
        cluster.is_some_and(|cluster| {
            cluster["status"]["conditions"][0]["status"] == "False"
                && cluster["status"]["conditions"][0]["reason"] == "ClusterNotReachable"
        })
    })
    .await;

    rig.members.get_mut("asia-1").unwrap().start_again().await;
    rig.eventually(&id_of(&second), &["asia-1"], present).await;
    rig.eventually_on_hub(&Rig::record(&id_of(&first)), |record| {
        record.is_some_and(|record| record["spec"]["clusters"][0]["stale"].is_null())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_deleted_while_a_member_is_away_is_gone_there_when_it_returns() {
    let mut rig = Rig::start(&["asia-1", "europe-1"]).await;
    let root = config_map("settings", "one");
    let id = id_of(&root);
    rig.hub.create(&root).await;
    rig.eventually(&id, &["asia-1", "europe-1"], present).await;

    rig.members.get_mut("asia-1").unwrap().stop().await;
    rig.delete(&id).await;
    rig.eventually_on_hub(&id, absent).await;
    let cluster = id_of(&json!({"apiVersion": "limen.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "asia-1"}}));
    let found = rig.hub.get(&cluster).await.unwrap();
    assert_eq!(found["status"]["tombstones"][0]["name"], "settings", "{found:#}");

    // Also a hub that was started anew remembers.
    rig.stop_federation().await;
    rig.members.get_mut("asia-1").unwrap().start_again().await;
    rig.start_federation().await;
    rig.eventually(&id, &["asia-1"], absent).await;
    rig.eventually_on_hub(&cluster, |cluster| {
        cluster.is_some_and(|cluster| {
            cluster["status"]["tombstones"].as_array().is_none_or(Vec::is_empty)
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_that_starts_anew_goes_on_and_writes_nothing_twice() {
    let mut rig = Rig::start(&["asia-1"]).await;
    let root = config_map("settings", "one");
    let id = id_of(&root);
    rig.hub.create(&root).await;
    rig.eventually(&id, &["asia-1"], present).await;
    let version = |leaf: &Value| leaf["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let before = version(&rig.member("asia-1").get(&id).await.unwrap());

    rig.stop_federation().await;
    let other = config_map("other", "two");
    rig.hub.create(&other).await;
    rig.start_federation().await;
    rig.eventually(&id_of(&other), &["asia-1"], present).await;
    assert_eq!(version(&rig.member("asia-1").get(&id).await.unwrap()), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_selector_that_matches_nothing_is_held_until_it_is_released() {
    let rig = Rig::start(&["asia-1"]).await;
    let root = config_map("settings", "one");
    let id = id_of(&root);
    rig.hub.create(&root).await;
    rig.eventually(&id, &["asia-1"], present).await;
    let nowhere = json!({"metadata": {"annotations": {
        "federation.alpha.kubernetes.io/cluster-selector":
            r#"[{"key": "location", "operator": "in", "values": ["nowhere"]}]"#}}});
    rig.hub.api().merge(&id, "", &nowhere).await.unwrap();
    let record = rig
        .eventually_on_hub(&Rig::record(&id), |record| {
            record.is_some_and(|record| record["spec"]["clusters"][0]["state"] == "Held")
        })
        .await
        .unwrap();
    assert!(rig.member("asia-1").get(&id).await.is_some());

    let message = record["spec"]["message"].as_str().unwrap();
    let (name, hold) = rig.holds().await.pop().unwrap();
    assert!(message.contains(&name), "{message}");
    assert_eq!(hold["spec"]["roots"][0]["clusters"], json!(["asia-1"]));
    rig.release(&name).await;
    rig.eventually(&id, &["asia-1"], absent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_credential_is_told_apart_and_a_new_one_takes_effect() {
    let rig = Rig::start(&["asia-1"]).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "cluster-asia-1", "namespace": "limen-system"}});
    let broken = json!({"data": {"token": "bm9uc2Vuc2U="}});
    rig.hub.api().merge(&id_of(&secret), "", &broken).await.unwrap();
    let cluster = id_of(&json!({"apiVersion": "limen.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "asia-1"}}));
    let reason = |cluster: Option<&Value>, reason: &str| {
        cluster.is_some_and(|cluster| cluster["status"]["conditions"][0]["reason"] == reason)
    };
    let root = config_map("settings", "one");
    rig.hub.create(&root).await;
    rig.eventually_on_hub(&cluster, |cluster| reason(cluster, "CredentialRejected")).await;

    rig.join("asia-1", rig.member("asia-1")).await;
    rig.eventually(&id_of(&root), &["asia-1"], present).await;
    rig.eventually_on_hub(&cluster, |cluster| reason(cluster, "ClusterReady")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_leaves_keeps_its_leaves_or_loses_them() {
    for (delete_leaves, there) in [(false, true), (true, false)] {
        let rig = Rig::start(&["asia-1", "europe-1"]).await;
        let root = config_map("settings", "one");
        let id = id_of(&root);
        rig.hub.create(&root).await;
        rig.eventually(&id, &["asia-1", "europe-1"], present).await;
        let patience = Duration::from_secs(60);
        let options =
            UnjoinOptions { name: "asia-1".to_owned(), delete_leaves, abandon: false, patience };
        unjoin(&rig.hub.client, &options).await.unwrap();
        let leaf = rig.member("asia-1").get(&id).await;
        assert_eq!(leaf.is_some(), there);
        if let Some(leaf) = leaf {
            assert!(leaf["metadata"]["labels"]["limen.dev/hub"].is_null(), "{leaf:#}");
        }
        assert!(rig.member("europe-1").get(&id).await.is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_leaves_gets_no_more_traffic_before_its_leaves_go() {
    let rig = Rig::start(&["asia-1"]).await;
    let root = config_map("settings", "one");
    let id = id_of(&root);
    rig.hub.create(&root).await;
    rig.eventually(&id, &["asia-1"], present).await;
    // Nobody compiles here: the test says when edges are told to send clients elsewhere.
    let global = |drained: u8| {
        json!({"apiVersion": "limen.dev/v1alpha1", "kind": "GlobalIngress",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"backends": [{"name": "web:80", "targets": [
                {"cluster": "asia-1", "drainedPercent": drained}]}]}})
    };
    let mut global_id = id_of(&global(0));
    global_id.kind =
        limen_api::kind(("limen.dev/v1alpha1", "GlobalIngress", "globalingresses", true));
    rig.hub.api().create(&global_id.kind, &global(0)).await.unwrap();
    let cluster = id_of(&json!({"apiVersion": "limen.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "asia-1"}}));

    let patience = Duration::from_secs(60);
    let options =
        UnjoinOptions { name: "asia-1".to_owned(), delete_leaves: true, abandon: false, patience };
    let leaving = unjoin(&rig.hub.client, &options);
    let drained = async {
        rig.eventually_on_hub(&cluster, |cluster| {
            cluster.is_some_and(|cluster| cluster["spec"]["drain"] == true)
        })
        .await;
        let found = rig.hub.get(&cluster).await.unwrap();
        assert!(found["metadata"]["annotations"]["limen.dev/unjoin"].is_null(), "{found:#}");
        assert!(rig.member("asia-1").get(&id).await.is_some());
        rig.hub.api().apply(&global_id, &global(100)).await.unwrap();
    };
    let (left, ()) = tokio::join!(leaving, drained);
    left.unwrap();
    assert!(rig.member("asia-1").get(&id).await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_a_member_lacks_is_said_and_the_others_go_on() {
    let rig = Rig::start(&["asia-1", "europe-1"]).await;
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}});
    rig.hub.create(&crd).await;
    rig.member("asia-1").create(&crd).await;
    let federated = json!({"apiVersion": "limen.dev/v1alpha1", "kind": "FederatedType",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"apiVersion": "example.com/v1", "kind": "Widget", "plural": "widgets",
            "scope": "Namespaced"}});
    rig.hub.create(&federated).await;
    // Rights in the members are those of the kinds at the time of joining.
    for name in ["asia-1", "europe-1"] {
        rig.join(name, rig.member(name)).await;
    }
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"}, "spec": {"size": 3}});
    let id = id_of(&widget);
    rig.hub.create(&widget).await;
    rig.eventually(&id, &["asia-1"], present).await;
    rig.eventually_on_hub(&Rig::record(&id), |record| {
        record.is_some_and(|record| {
            let leaf = &record["spec"]["clusters"][1];
            leaf["state"] == "Failed"
                && leaf["message"]
                    .as_str()
                    .is_some_and(|text| text.contains("does not know Widget"))
        })
    })
    .await;
}
