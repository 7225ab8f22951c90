//! Which clusters may join, and how they leave.

use std::time::Duration;

use limen_core::federated::ObjectId;
use limen_hub::{JoinError, JoinOptions, Joined, Left, UnjoinOptions, join, unjoin};
use serde_json::{Value, json};

use crate::rig::{ApiServer, Rig, id_of};

async fn ask(rig: &Rig, member: &ApiServer, options: &JoinOptions) -> Result<Joined, JoinError> {
    join(&rig.hub.client, &member.client, options).await
}

fn cluster(name: &str) -> ObjectId {
    id_of(&json!({"apiVersion": "limen.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name}}))
}

fn in_system(api_version: &str, kind: &str, name: &str) -> ObjectId {
    id_of(&json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": "limen-system"}}))
}

async fn uid(server: &ApiServer) -> String {
    limen_hub::hub_id(&server.api()).await.unwrap()
}

async fn claim(member: &ApiServer, hub: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "limen-system"}});
    member.api().apply(&id_of(&namespace), &namespace).await.unwrap();
    member
        .create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("claim-{hub}"), "namespace": "limen-system",
                "labels": {"limen.dev/claim": "true", "limen.dev/hub": hub}},
            "data": {"instance": "hub", "mark": "1.1"}}))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hub_cannot_join_itself() {
    let rig = Rig::start(&[]).await;
    let mut options = rig.hub.join_options("itself");
    (options.moves, options.share) = (true, true);
    let refused = ask(&rig, &rig.hub, &options).await;
    assert!(matches!(refused, Err(JoinError::HubItself(_))), "{refused:?}");
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("this kubeconfig leads to the hub itself"), "{text}");
    assert!(rig.hub.get(&cluster("itself")).await.is_none());
    let account = in_system("v1", "ServiceAccount", &rig.account().await);
    assert!(rig.hub.get(&account).await.is_none(), "nothing was made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_cluster_has_one_name() {
    let rig = Rig::start(&["asia-1"]).await;
    let asia = rig.member("asia-1");
    let known = rig.hub.get(&cluster("asia-1")).await.unwrap();
    assert_eq!(known["spec"]["uid"], uid(asia).await);
    let again = JoinOptions { moves: true, ..asia.join_options("asia-2") };
    let refused = ask(&rig, asia, &again).await;
    assert!(matches!(refused, Err(JoinError::SameCluster { .. })), "{refused:?}");
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("is the same cluster as asia-1"), "{text}");
    assert!(rig.hub.get(&cluster("asia-2")).await.is_none());
    ask(&rig, asia, &asia.join_options("asia-1")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_leads_to_another_cluster_only_if_it_moves() {
    let rig = Rig::start(&["asia-1"]).await;
    let other = ApiServer::start().await;
    // Another cluster behind the same address.
    let known = rig.hub.get(&cluster("asia-1")).await.unwrap();
    let same_address = json!({"spec": {"endpoint": other.config.cluster_url.to_string()}});
    rig.hub.api().merge(&cluster("asia-1"), "", &same_address).await.unwrap();
    let mut options = other.join_options("asia-1");
    let refused = ask(&rig, &other, &options).await;
    assert!(matches!(refused, Err(JoinError::OtherCluster { .. })), "{refused:?}");
    options.moves = true;
    ask(&rig, &other, &options).await.unwrap();
    let moved = rig.hub.get(&cluster("asia-1")).await.unwrap();
    assert_eq!(moved["spec"]["uid"], uid(&other).await);
    assert_eq!(moved["metadata"]["labels"], known["metadata"]["labels"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_another_hub_claims_joins_only_to_be_shared() {
    let rig = Rig::start(&[]).await;
    let member = ApiServer::start().await;
    claim(&member, "another-hub").await;
    let mut options = member.join_options("asia-1");
    let refused = ask(&rig, &member, &options).await;
    assert!(matches!(refused, Err(JoinError::Claimed { .. })), "{refused:?}");
    assert!(refused.unwrap_err().to_string().contains("--share"));
    let account = in_system("v1", "ServiceAccount", &rig.account().await);
    assert!(member.get(&account).await.is_none(), "nothing was made");
    options.share = true;
    ask(&rig, &member, &options).await.unwrap();
}

/// The account of a hub in a member.
async fn account_of(rig: &Rig) -> [ObjectId; 5] {
    let (name, rbac) = (rig.account().await, "rbac.authorization.k8s.io/v1");
    [
        in_system("v1", "ServiceAccount", &name),
        in_system(rbac, "Role", &name),
        in_system(rbac, "RoleBinding", &name),
        cluster_wide("ClusterRole", &name),
        cluster_wide("ClusterRoleBinding", &name),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_hub_changes_nothing_of_the_account_of_the_first() {
    let (first, second) = (Rig::start(&["asia-1"]).await, Rig::start(&[]).await);
    // The second hub needs other rights than the first.
    let widgets = json!({"apiVersion": "limen.dev/v1alpha1", "kind": "FederatedType",
        "metadata": {"name": "widgets.example.com"}, "spec": {"apiVersion": "example.com/v1",
            "kind": "Widget", "plural": "widgets", "scope": "Namespaced"}});
    second.hub.create(&widgets).await;
    let asia = first.member("asia-1");
    let label = format!("limen.dev/claim=true,limen.dev/hub={}", uid(&first.hub).await);
    let claims = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
    let claimed = async {
        while asia.api().list(&claims, &label).await.unwrap().0.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), claimed).await.expect("no claim is made");
    let account = async || {
        let mut found = Vec::new();
        for id in account_of(&first).await {
            found.push(asia.get(&id).await.unwrap_or_else(|| panic!("{id} is gone")));
        }
        found
    };
    let before = account().await;
    let mut options = asia.join_options("asia-1");
    let refused = ask(&second, asia, &options).await;
    assert!(matches!(refused, Err(JoinError::Claimed { .. })), "{refused:?}");
    options.share = true;
    ask(&second, asia, &options).await.unwrap();
    assert_eq!(account().await, before);
    for id in account_of(&second).await {
        assert!(asia.get(&id).await.is_some(), "{id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_of_this_hub_is_no_hindrance() {
    let rig = Rig::start(&[]).await;
    let member = ApiServer::start().await;
    claim(&member, &uid(&rig.hub).await).await;
    ask(&rig, &member, &member.join_options("asia-1")).await.unwrap();
}

/// Makes the account that all hubs shared, and has the hub use it.
async fn share_account(rig: &Rig, member: &ApiServer) {
    let name = rig.account().await;
    let rbac = "rbac.authorization.k8s.io/v1";
    let ids = [
        in_system("v1", "ServiceAccount", &name),
        in_system(rbac, "Role", &name),
        in_system(rbac, "RoleBinding", &name),
        cluster_wide("ClusterRole", &name),
        cluster_wide("ClusterRoleBinding", &name),
    ];
    for id in &ids {
        let found = member.get(id).await.unwrap();
        let text = found.to_string().replace(&name, "limen-hub");
        let mut old: Value = serde_json::from_str(&text).unwrap();
        let metadata = json!({"name": "limen-hub", "namespace": id.namespace});
        old["metadata"] = metadata;
        member.api().create(&id.kind, &old).await.unwrap();
    }
    let path = "/api/v1/namespaces/limen-system/serviceaccounts/limen-hub/token";
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": []}});
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(body.to_string().into_bytes()).unwrap();
    let token: Value = member.client.request(request).await.unwrap();
    let token = token["status"]["token"].as_str().unwrap();
    let patch = json!({"stringData": {"token": token}});
    let secret = in_system("v1", "Secret", "cluster-asia-1");
    rig.hub.api().merge(&secret, "", &patch).await.unwrap();
}

fn cluster_wide(kind: &str, name: &str) -> ObjectId {
    id_of(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": {"name": name}}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joining_again_replaces_a_shared_account_that_is_this_hubs_alone() {
    let rig = Rig::start(&["asia-1"]).await;
    let asia = rig.member("asia-1");
    share_account(&rig, asia).await;
    ask(&rig, asia, &asia.join_options("asia-1")).await.unwrap();
    let rbac = "rbac.authorization.k8s.io/v1";
    for id in [
        in_system("v1", "ServiceAccount", "limen-hub"),
        in_system(rbac, "Role", "limen-hub"),
        in_system(rbac, "RoleBinding", "limen-hub"),
        cluster_wide("ClusterRole", "limen-hub"),
        cluster_wide("ClusterRoleBinding", "limen-hub"),
    ] {
        assert!(asia.get(&id).await.is_none(), "{id}");
    }
    let root = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "default"}, "data": {"key": "value"}});
    rig.hub.create(&root).await;
    rig.eventually(&id_of(&root), &["asia-1"], |leaf| leaf.is_some()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joining_again_leaves_a_shared_account_that_another_hub_may_use() {
    let rig = Rig::start(&["asia-1"]).await;
    let asia = rig.member("asia-1");
    share_account(&rig, asia).await;
    // An older hub makes no claim, and is known by its leaves only.
    asia.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "theirs", "namespace": "default",
            "labels": {"limen.dev/hub": "another-hub", "limen.dev/root-uid": "theirs"}}}))
        .await;
    ask(&rig, asia, &asia.join_options("asia-1")).await.unwrap();
    assert!(asia.get(&in_system("v1", "ServiceAccount", "limen-hub")).await.is_some());
    assert!(asia.get(&cluster_wide("ClusterRoleBinding", "limen-hub")).await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_being_deleted_cannot_be_joined_again() {
    let mut rig = Rig::start(&["asia-1"]).await;
    rig.stop_federation().await;
    let id = cluster("asia-1");
    let held = json!({"metadata": {"finalizers": ["limen.dev/member"]}});
    rig.hub.api().merge(&id, "", &held).await.unwrap();
    rig.delete(&id).await;
    let asia = rig.member("asia-1");
    let refused = ask(&rig, asia, &asia.join_options("asia-1")).await;
    assert!(matches!(refused, Err(JoinError::Deleting(_))), "{refused:?}");
}

fn leaving(delete_leaves: bool, abandon: bool) -> UnjoinOptions {
    let patience = Duration::from_secs(60);
    UnjoinOptions { name: "asia-1".to_owned(), delete_leaves, abandon, patience }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_does_not_answer_leaves_only_if_it_is_abandoned() {
    let mut rig = Rig::start(&["asia-1"]).await;
    rig.members.get_mut("asia-1").unwrap().stop().await;
    rig.eventually_on_hub(&cluster("asia-1"), |cluster| {
        cluster
            .is_some_and(|cluster| cluster["status"]["verdicts"]["api"]["verdict"] == "Unhealthy")
    })
    .await;
    for delete_leaves in [false, true] {
        let refused = unjoin(&rig.hub.client, &leaving(delete_leaves, false)).await;
        assert!(matches!(refused, Err(JoinError::Unreachable { .. })), "{refused:?}");
    }
    let there = rig.hub.get(&cluster("asia-1")).await.unwrap();
    assert!(there["metadata"]["annotations"]["limen.dev/unjoin"].is_null(), "{there:#}");
    let left = unjoin(&rig.hub.client, &leaving(false, true)).await.unwrap();
    assert!(matches!(left, Left::Abandoned { .. }), "{left:?}");
    assert!(rig.hub.get(&cluster("asia-1")).await.is_none());
    assert!(rig.hub.get(&in_system("v1", "Secret", "cluster-asia-1")).await.is_none());
}

/// The hub holds a finalizer; the unjoin ends when it has removed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unjoin_waits_until_the_hub_has_removed_its_finalizer() {
    let mut rig = Rig::start(&["asia-1"]).await;
    rig.stop_federation().await;
    let id = cluster("asia-1");
    let finalizers = |all: Value| json!({"metadata": {"finalizers": all}});
    rig.hub.api().merge(&id, "", &finalizers(json!(["limen.dev/member"]))).await.unwrap();
    let options = leaving(false, true);
    let hub = async {
        let deleting = rig
            .eventually_on_hub(&id, |cluster| {
                cluster.is_some_and(|found| found["metadata"]["deletionTimestamp"].is_string())
            })
            .await
            .unwrap();
        assert_eq!(deleting["metadata"]["annotations"]["limen.dev/unjoin"], "abandon");
        rig.hub.api().merge(&id, "", &finalizers(json!([]))).await.unwrap();
    };
    let (left, ()) = tokio::join!(unjoin(&rig.hub.client, &options), hub);
    assert!(matches!(left, Ok(Left::Abandoned { .. })), "{left:?}");
    assert!(rig.hub.get(&id).await.is_none());
}

/// A join that stores a new credential while the member is being removed keeps it, whether it changes
/// the Secret or makes another of the same name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_that_has_changed_since_it_was_read_is_kept() {
    for replaced in [false, true] {
        keeps_a_new_credential(replaced).await;
    }
}

async fn keeps_a_new_credential(replaced: bool) {
    let mut rig = Rig::start(&["asia-1"]).await;
    rig.stop_federation().await;
    let (id, secret) = (cluster("asia-1"), in_system("v1", "Secret", "cluster-asia-1"));
    let finalizers = |all: Value| json!({"metadata": {"finalizers": all}});
    rig.hub.api().merge(&id, "", &finalizers(json!(["limen.dev/member"]))).await.unwrap();
    let options = leaving(false, true);
    let joining = async {
        rig.eventually_on_hub(&id, |cluster| {
            cluster.is_some_and(|found| found["metadata"]["deletionTimestamp"].is_string())
        })
        .await;
        let new = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"token": "new"},
            "metadata": {"name": "cluster-asia-1", "namespace": "limen-system"}});
        match replaced {
            true => {
                rig.delete(&secret).await;
                rig.hub.create(&new).await;
            }
            false => drop(rig.hub.api().merge(&secret, "", &new).await.unwrap()),
        }
        rig.hub.api().merge(&id, "", &finalizers(json!([]))).await.unwrap();
    };
    let (left, ()) = tokio::join!(unjoin(&rig.hub.client, &options), joining);
    left.unwrap();
    assert!(rig.hub.get(&secret).await.is_some(), "replaced: {replaced}");
}
