//! What a hub does by itself: credentials, records of policies, and what people did unseen or
//! halfway.

use std::time::Duration;

use limen_core::federated::ObjectId;
use limen_hub::{JoinError, UnjoinOptions, unjoin};
use serde_json::{Value, json};

use crate::rig::{Rig, eventually, id_of};

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"key": "value"}})
}

fn secret() -> ObjectId {
    id_of(&json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "cluster-asia-1", "namespace": "limen-system"}}))
}

fn cluster() -> ObjectId {
    id_of(&json!({"apiVersion": "limen.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "asia-1"}}))
}

fn condition<'a>(object: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    let conditions = object?["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == name)
}

/// Deletes a root and wants its leaves to stay, as `kubectl delete --cascade=orphan` does.
async fn delete_orphaning(rig: &Rig, id: &ObjectId) {
    let options =
        json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan"});
    let request = http::Request::delete(limen_sync::object_path(id))
        .header("content-type", "application/json")
        .body(options.to_string().into_bytes())
        .unwrap();
    rig.hub.client.request::<Value>(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_is_renewed_before_it_expires() {
    let mut rig = Rig::start(&["asia-1"]).await;
    rig.stop_federation().await;
    let token = async || rig.hub.get(&secret()).await.unwrap()["data"]["token"].clone();
    let before = token().await;
    // Every look finds that it is time.
    rig.start_federation_with(|options| {
        options.renew_percent_left = 101;
        options.renew_every = Duration::from_secs(3600);
    })
    .await;
    eventually("the token is another", async || {
        let now = rig.hub.get(&secret()).await.unwrap()["data"]["token"].clone();
        (now != before, "the same".to_owned())
    })
    .await;
    let root = config_map("settings");
    rig.hub.create(&root).await;
    rig.eventually(&id_of(&root), &["asia-1"], |leaf| leaf.is_some()).await;
    let found = rig.hub.get(&cluster()).await;
    assert!(condition(found.as_ref(), "CredentialExpiring").is_none(), "{found:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_that_cannot_be_renewed_is_said_and_still_used() {
    let mut rig = Rig::start(&["asia-1"]).await;
    rig.stop_federation().await;
    let role = id_of(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": rig.account().await, "namespace": "limen-system"}}));
    let member = rig.member("asia-1").api();
    let uid = member.get(&role).await.unwrap().unwrap()["metadata"]["uid"].clone();
    member.delete(&role, uid.as_str().unwrap()).await.unwrap();
    rig.start_federation_with(|options| options.renew_percent_left = 101).await;
    let found = rig
        .eventually_on_hub(&cluster(), |cluster| condition(cluster, "CredentialExpiring").is_some())
        .await;
    let said = condition(found.as_ref(), "CredentialExpiring").unwrap();
    assert_eq!(said["reason"], "CannotRenew");
    assert!(said["message"].as_str().unwrap().contains("run limen join again"), "{said}");
    let root = config_map("settings");
    rig.hub.create(&root).await;
    rig.eventually(&id_of(&root), &["asia-1"], |leaf| leaf.is_some()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_is_deleted_in_the_member_is_told_apart() {
    let rig = Rig::start(&["asia-1"]).await;
    let account = id_of(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": rig.account().await, "namespace": "limen-system"}}));
    let member = rig.member("asia-1").api();
    let uid = member.get(&account).await.unwrap().unwrap()["metadata"]["uid"].clone();
    member.delete(&account, uid.as_str().unwrap()).await.unwrap();
    rig.eventually_on_hub(&cluster(), |cluster| {
        condition(cluster, "Ready").is_some_and(|ready| ready["reason"] == "CredentialRejected")
    })
    .await;
    rig.join("asia-1", rig.member("asia-1")).await;
    rig.eventually_on_hub(&cluster(), |cluster| {
        condition(cluster, "Ready").is_some_and(|ready| ready["status"] == "True")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_says_whether_it_is_valid_and_how_many_roots_go_by_it() {
    let rig = Rig::start(&["asia-1"]).await;
    let policy = json!({
        "apiVersion": "limen.dev/v1alpha1", "kind": "PlacementPolicy",
        "metadata": {"name": "maps", "namespace": "default"},
        "spec": {"roots": [{"kind": "ConfigMap"}], "placement": {"clusterSelector": {}}}});
    let id = id_of(&policy);
    rig.hub.create(&policy).await;
    rig.eventually_on_hub(&id, |policy| {
        condition(policy, "Valid").is_some_and(|valid| valid["reason"] == "NoRoots")
    })
    .await;
    for name in ["one", "two"] {
        rig.hub.create(&config_map(name)).await;
    }
    rig.eventually_on_hub(&id, |policy| {
        policy.is_some_and(|policy| policy["status"]["roots"] == 2)
            && condition(policy, "Valid").is_some_and(|valid| valid["status"] == "True")
    })
    .await;
    rig.delete(&id_of(&config_map("one"))).await;
    rig.eventually_on_hub(&id, |policy| {
        policy.is_some_and(|policy| policy["status"]["roots"] == 1)
    })
    .await;
    let nonsense = json!({"spec": {"placement": {"clusterSelector": {
        "matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}}}});
    rig.hub.api().merge(&id, "", &nonsense).await.unwrap();
    rig.eventually_on_hub(&id, |policy| {
        condition(policy, "Valid").is_some_and(|valid| {
            valid["status"] == "False"
                && valid["message"].as_str().is_some_and(|text| text.contains("Near"))
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphans_stay_also_when_nobody_was_there_to_see_the_deletion() {
    let mut rig = Rig::start(&["asia-1"]).await;
    let (stays, goes) = (config_map("stays"), config_map("goes"));
    for root in [&stays, &goes] {
        rig.hub.create(root).await;
        let record = Rig::record(&id_of(root));
        rig.eventually_on_hub(&record, |record| {
            record.is_some_and(|record| record["spec"]["synced"] == "1/1")
        })
        .await;
    }
    rig.stop_federation().await;
    delete_orphaning(&rig, &id_of(&stays)).await;
    rig.delete(&id_of(&goes)).await;
    rig.eventually_on_hub(&id_of(&stays), |root| {
        let finalizers = root.map(|root| root["metadata"]["finalizers"].clone());
        finalizers == Some(json!(["limen.dev/leaves"]))
    })
    .await;

    rig.start_federation().await;
    for root in [&stays, &goes] {
        rig.eventually_on_hub(&id_of(root), |root| root.is_none()).await;
    }
    rig.eventually(&id_of(&goes), &["asia-1"], |leaf| leaf.is_none()).await;
    let leaf = rig.member("asia-1").get(&id_of(&stays)).await.unwrap();
    assert!(leaf["metadata"]["labels"]["limen.dev/hub"].is_null(), "{leaf:#}");
}

/// The definition in one member is older than the hub's and knows one field less. Leaving the
/// field out there would be a guess, so nothing is done until the member has caught up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_an_older_version_says_what_it_does_not_know_and_the_others_go_on() {
    let rig = Rig::start(&["asia-1", "europe-1"]).await;
    let crd = |fields: Value| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced",
                "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": fields}}}}}]}})
    };
    let old = crd(json!({"size": {"type": "integer"}}));
    let new = crd(json!({"size": {"type": "integer"}, "colour": {"type": "string"}}));
    rig.hub.create(&new).await;
    rig.member("europe-1").create(&new).await;
    rig.member("asia-1").create(&old).await;
    rig.hub
        .create(&json!({"apiVersion": "limen.dev/v1alpha1", "kind": "FederatedType",
            "metadata": {"name": "widgets.example.com"},
            "spec": {"apiVersion": "example.com/v1", "kind": "Widget", "plural": "widgets",
                "scope": "Namespaced"}}))
        .await;
    for name in ["asia-1", "europe-1"] {
        rig.join(name, rig.member(name)).await;
    }
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"}, "spec": {"size": 3, "colour": "red"}});
    let id = id_of(&widget);
    rig.hub.create(&widget).await;
    rig.eventually(&id, &["europe-1"], |leaf| leaf.is_some()).await;
    rig.eventually_on_hub(&Rig::record(&id), |record| {
        record.is_some_and(|record| {
            let leaf = &record["spec"]["clusters"][0];
            leaf["state"] == "Failed"
                && leaf["message"].as_str().is_some_and(|text| text.contains("colour"))
        })
    })
    .await;
    let upgrade = json!({"spec": {"versions": new["spec"]["versions"]}});
    rig.member("asia-1").api().merge(&id_of(&old), "", &upgrade).await.unwrap();
    rig.eventually(&id, &["asia-1"], |leaf| {
        leaf.is_some_and(|leaf| leaf["spec"] == json!({"size": 3, "colour": "red"}))
    })
    .await;
}

async fn eventually_healthy(rig: &Rig) {
    rig.eventually_on_hub(&cluster(), |cluster| {
        cluster.is_some_and(|cluster| cluster["status"]["verdicts"]["api"]["verdict"] == "Healthy")
    })
    .await;
}

fn leaving(patience: Duration) -> UnjoinOptions {
    UnjoinOptions { name: "asia-1".to_owned(), delete_leaves: false, abandon: false, patience }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_joins_again_before_it_has_left_stays() {
    let mut rig = Rig::start(&["asia-1"]).await;
    eventually_healthy(&rig).await;
    // Nobody lets go of it, so that leaving takes too long.
    rig.stop_federation().await;
    let left = unjoin(&rig.hub.client, &leaving(Duration::ZERO)).await;
    assert!(matches!(left, Err(JoinError::Unfinished { .. })), "{left:?}");
    rig.join("asia-1", rig.member("asia-1")).await;
    rig.start_federation().await;
    let root = config_map("settings");
    rig.hub.create(&root).await;
    rig.eventually(&id_of(&root), &["asia-1"], |leaf| leaf.is_some()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unjoin_that_waits_while_the_cluster_joins_again_ends() {
    let mut rig = Rig::start(&["asia-1"]).await;
    eventually_healthy(&rig).await;
    rig.stop_federation().await;
    let options = leaving(Duration::from_secs(60));
    let joining = async {
        rig.eventually_on_hub(&cluster(), |cluster| {
            cluster.is_some_and(|cluster| {
                cluster["metadata"]["annotations"]["limen.dev/unjoin"].is_string()
            })
        })
        .await;
        rig.join("asia-1", rig.member("asia-1")).await;
    };
    let (left, ()) = tokio::join!(unjoin(&rig.hub.client, &options), joining);
    assert!(matches!(left, Err(JoinError::JoinedAgain(_))), "{left:?}");
    assert!(rig.hub.get(&cluster()).await.is_some());
    assert!(rig.hub.get(&secret()).await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_asks_for_an_agent_is_refused_as_long_as_there_is_none() {
    let rig = Rig::start(&[]).await;
    let mut pulled = json!({"apiVersion": "limen.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "asia-1"}, "spec": {"mode": "Pull"}});
    let refused = rig.hub.api().create(&cluster().kind, &pulled).await.unwrap_err();
    assert!(refused.to_string().contains("use Push"), "{refused}");
    pulled["spec"]["mode"] = json!("Push");
    rig.hub.create(&pulled).await;
}
