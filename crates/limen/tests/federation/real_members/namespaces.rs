//! Namespaces that are deleted on the hub while members keep objects of others in theirs.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use limen_testbed::ControlPlane;
use serde_json::{Value, json};

use super::member::{
    HUB_LABEL, Member, apply, config_map, eventually_held, eventually_nothing_held,
    eventually_synced, kubectl, namespace, policy,
};
use crate::processes::{ApiServer, eventually};

/// A hub with two members that end namespaces, and put into each what every Kubernetes puts there.
async fn federation() -> (ApiServer, Member, Member) {
    let controllers = [
        "namespace-controller",
        "serviceaccount-controller",
        "root-ca-certificate-publisher-controller",
    ];
    let member = || Member::build(ControlPlane::builder().with_controllers(&controllers));
    let (a, b) = tokio::join!(member(), member());
    let hub = ApiServer::hub();
    a.join(&hub.kubeconfig(), "a");
    b.join(&hub.kubeconfig(), "b");
    (hub, a, b)
}

/// Objects that no hub has anything to do with, in the namespace shop.
struct Foreign {
    before: Value,
}

impl Foreign {
    async fn create(member: &Member) -> Self {
        let map = ["create", "configmap", "theirs", "-n", "shop", "--from-literal=key=theirs"];
        member.kubectl(&map).await;
        let secret = ["create", "secret", "generic", "password", "-n", "shop"];
        member.kubectl(&[&secret[..], &["--from-literal=password=hunter2"]].concat()).await;
        Self { before: Self::read(member).await }
    }

    async fn read(member: &Member) -> Value {
        let secrets: Api<Secret> = Api::namespaced(member.client.clone(), "shop");
        let map = member.config_maps("shop").get_opt("theirs").await.unwrap();
        json!([map, secrets.get_opt("password").await.unwrap()])
    }

    async fn assert_untouched(&self, member: &Member) {
        let now = Self::read(member).await;
        assert_eq!(now, self.before, "foreign objects were changed or deleted");
    }
}

async fn eventually_gone(what: &str, namespaces: &Api<Namespace>, hub: &ApiServer) {
    eventually(&format!("the namespace {what}"), async || {
        let found = namespaces.get_opt("shop").await;
        let status = hub.limen(&["status", "namespace/shop"]).all();
        (matches!(found, Ok(None)), format!("{found:?}\n{status}"))
    })
    .await;
}

/// The namespace is there, is not ending, and is no leaf any more.
async fn eventually_released(namespaces: &Api<Namespace>) {
    eventually("the namespace of the member", async || {
        let found = namespaces.get_opt("shop").await.unwrap();
        let found = found.expect("the namespace was deleted with foreign objects in it");
        assert!(found.metadata.deletion_timestamp.is_none(), "it was deleted: {found:?}");
        let labels = found.metadata.labels.clone().unwrap_or_default();
        (!labels.contains_key(HUB_LABEL), format!("{found:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_namespace_leaves_foreign_objects_and_orphans_where_they_are() {
    let (hub, a, b) = federation().await;
    let orphans = policy(
        "shop",
        "orphans",
        &json!({"roots": [{"name": "kept"}], "onDelete": "Orphan",
            "placement": {"clusters": [{"name": "a"}]}}),
    );
    apply(&hub.kubeconfig(), &[namespace("shop"), orphans]).await;
    let roots = ["web", "api", "kept"].map(|name| config_map("shop", name, "one"));
    apply(&hub.kubeconfig(), &roots).await;
    for (name, synced) in [("web", "2/2"), ("api", "2/2"), ("kept", "1/1")] {
        eventually_synced(&hub, "shop", name, synced).await;
    }
    let foreign = Foreign::create(&a).await;

    kubectl(&hub.kubeconfig(), &["delete", "namespace", "shop", "--wait=false"], "").await;
    eventually_gone("of the hub", &Api::all(hub.client().await), &hub).await;
    // Nothing foreign was in the namespace of b: it goes.
    eventually_gone("of b", &Api::all(b.client.clone()), &hub).await;
    eventually_released(&Api::all(a.client.clone())).await;
    foreign.assert_untouched(&a).await;
    let kept = a.config_maps("shop").get("kept").await.unwrap();
    assert!(!kept.metadata.labels.unwrap_or_default().contains_key(HUB_LABEL), "it is no orphan");
    assert_eq!(kept.data.unwrap()["key"], "one");
    for name in ["web", "api"] {
        a.eventually_has("shop", name, None).await;
    }
    eventually_nothing_held(&hub).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_namespace_with_many_roots_waits_until_the_named_set_is_released() {
    const ROOTS: usize = 51;
    let (hub, a, b) = federation().await;
    apply(&hub.kubeconfig(), &[namespace("shop")]).await;
    let root = |n: usize| config_map("shop", &format!("root-{n}"), "one");
    let roots: Vec<Value> = (0..ROOTS).map(root).collect();
    apply(&hub.kubeconfig(), &roots).await;
    for member in [&a, &b] {
        member.eventually_has_leaves("shop", ROOTS).await;
    }
    let foreign = Foreign::create(&a).await;

    kubectl(&hub.kubeconfig(), &["delete", "namespace", "shop", "--wait=false"], "").await;
    let hold = eventually_held(&hub, ROOTS as u64).await;
    let name = hold["metadata"]["name"].as_str().unwrap();
    assert_eq!(hold["spec"]["reason"], "NamespaceDeleted", "{hold:#}");
    assert_eq!(hold["spec"]["leafCount"], 2 * ROOTS, "{hold:#}");
    let listed = hub.limen(&["holds", "-n", "shop"]).out();
    assert!(listed.contains(name) && listed.contains("Namespace shop deleted"), "{listed}");
    for member in [&a, &b] {
        assert_eq!(member.leaves("shop").await.len(), ROOTS, "leaves went before the release");
    }

    let released = hub.limen(&["release", name]);
    assert!(released.out().contains("1 released."), "{}", released.all());
    for n in 0..ROOTS {
        let line = format!("ConfigMap shop/root-{n}: a, b\n");
        assert!(released.out().contains(&line), "{line}{}", released.all());
    }
    eventually_gone("of the hub", &Api::all(hub.client().await), &hub).await;
    eventually_gone("of b", &Api::all(b.client.clone()), &hub).await;
    eventually_released(&Api::all(a.client.clone())).await;
    a.eventually_has_leaves("shop", 0).await;
    foreign.assert_untouched(&a).await;
    eventually_nothing_held(&hub).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_leaves_without_its_leaves_keeps_foreign_objects() {
    let a = Member::start().await;
    let hub = ApiServer::hub();
    a.join(&hub.kubeconfig(), "a");
    apply(&hub.kubeconfig(), &[namespace("shop")]).await;
    apply(&hub.kubeconfig(), &[config_map("shop", "web", "one")]).await;
    eventually_synced(&hub, "shop", "web", "1/1").await;
    let foreign = Foreign::create(&a).await;

    let left = hub.limen(&["unjoin", "a", "--delete-leaves", "--yes"]);
    assert!(left.succeeded(), "{}", left.all());
    a.eventually_has("shop", "web", None).await;
    eventually_released(&Api::all(a.client.clone())).await;
    foreign.assert_untouched(&a).await;
}
