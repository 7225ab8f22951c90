//! `limen holds`, `limen release` and `limen resume`, against an API that has the hub's kinds and no
//! hub that would change them.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use limen_api::Hold;
use limen_sync::ObjectApi;
use serde_json::{Value, json};

use crate::processes::ApiServer;

/// An API with the hub's kinds.
async fn hub() -> ApiServer {
    let hub = ApiServer::member();
    limen_hub::set_up(&ObjectApi::new(hub.client().await)).await.unwrap();
    hub
}

fn root(kind: &str, namespace: &str, name: &str) -> Value {
    let api_version = if kind == "Ingress" { "networking.k8s.io/v1" } else { "v1" };
    json!({"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name,
        "uid": format!("uid-of-{name}"), "clusters": ["asia", "europe"]})
}

async fn create(hub: &ApiServer, name: &str, roots: &[Value]) {
    let holds: Api<Hold> = Api::all(hub.client().await);
    let hold = json!({"metadata": {"name": name}, "spec": {
        "reason": "NothingSelected", "message": format!("{name} looks like an accident"),
        "rootCount": roots.len(), "leafCount": 2 * roots.len(), "roots": roots}});
    let hold = serde_json::from_value(hold).unwrap();
    holds.create(&PostParams::default(), &hold).await.unwrap();
}

async fn released(hub: &ApiServer, name: &str) -> bool {
    let holds: Api<Hold> = Api::all(hub.client().await);
    holds.get(name).await.unwrap().spec.release
}

async fn three_holds() -> ApiServer {
    let hub = hub().await;
    create(&hub, "one", &[root("Ingress", "shop", "web")]).await;
    create(&hub, "many", &[root("Ingress", "shop", "api"), root("ConfigMap", "shop", "api")]).await;
    create(&hub, "other", &[root("Ingress", "default", "web")]).await;
    hub
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_are_listed_the_worst_first() {
    let hub = three_holds().await;
    let said = hub.limen(&["holds"]).out();
    let names: Vec<&str> =
        said.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["many", "one", "other"], "{said}");
    assert!(said.contains("NothingSelected"), "{said}");
    assert!(said.contains("many looks like an accident"), "{said}");
    assert_eq!(hub.limen(&["holds", "-n", "default", "-o", "name"]).out(), "hold/other\n");
    let listed: Value = serde_json::from_str(&hub.limen(&["holds", "-o", "json"]).out()).unwrap();
    assert_eq!(listed["items"][0]["spec"]["roots"][1]["kind"], "ConfigMap", "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_released_by_its_name_and_its_set_is_shown() {
    let hub = three_holds().await;
    let said = hub.limen(&["release", "many"]);
    assert!(said.succeeded() && said.out().contains("1 released."), "{}", said.all());
    for root in ["Ingress shop/api: asia, europe", "ConfigMap shop/api: asia, europe"] {
        assert!(said.out().contains(root), "{}", said.all());
    }
    assert!(released(&hub, "many").await);
    assert!(!released(&hub, "one").await && !released(&hub, "other").await);
    let nobody = hub.limen(&["release", "nobody"]);
    assert!(!nobody.succeeded() && nobody.err().contains("there is no hold nobody"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_with_other_roots_is_released_by_one_root_only_after_asking() {
    let hub = three_holds().await;
    let alone = hub.limen(&["release", "ingress/web", "-n", "shop"]);
    assert!(alone.succeeded(), "{}", alone.all());
    assert!(released(&hub, "one").await && !released(&hub, "other").await);

    let unasked = hub.limen(&["release", "ingress/api", "-n", "shop"]);
    assert!(!unasked.succeeded() && unasked.err().contains("nothing was done"));
    assert!(unasked.out().contains("ConfigMap shop/api"), "{}", unasked.all());
    assert!(!released(&hub, "many").await);
    let meant = hub.limen(&["release", "ingress/api", "-n", "shop", "--yes"]);
    assert!(meant.succeeded() && released(&hub, "many").await, "{}", meant.all());

    let nothing = hub.limen(&["release", "ingress/nobody", "-n", "shop"]);
    assert!(!nothing.succeeded() && nothing.err().contains("is held"), "{}", nothing.all());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_holds_that_were_shown_and_meant_are_released() {
    let hub = three_holds().await;
    let all = ["release", "--all", "-n", "shop"];
    let unasked = hub.limen(&all);
    assert!(!unasked.succeeded() && unasked.err().contains("nothing was done"));
    assert!(unasked.out().contains("Hold many: many looks"), "{}", unasked.all());
    assert!(!unasked.out().contains("Hold other"), "{}", unasked.all());
    assert!(!released(&hub, "many").await && !released(&hub, "one").await);
    let meant = hub.limen(&[&all[..], &["--yes"]].concat());
    assert!(meant.succeeded() && meant.out().contains("2 released."), "{}", meant.all());
    assert!(released(&hub, "many").await && released(&hub, "one").await);
    assert!(!released(&hub, "other").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_hub_resumes_from_the_mark_that_it_found() {
    let hub = hub().await;
    let nothing = hub.limen(&["resume", "--yes"]);
    assert!(nothing.succeeded() && nothing.out() == "nothing to resume\n", "{}", nothing.all());
    let namespaces: Api<Namespace> = Api::all(hub.client().await);
    let annotate = async |annotations: Value| {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        namespaces.patch("limen-system", &PatchParams::default(), &patch).await.unwrap();
    };
    let resumed = async || {
        let found = namespaces.get("limen-system").await.unwrap();
        found.metadata.annotations.unwrap_or_default().remove("limen.dev/resume")
    };
    annotate(json!({"limen.dev/newer-mark": "nonsense"})).await;
    let odd = hub.limen(&["resume", "--yes"]);
    assert!(!odd.succeeded() && odd.err().contains("EPOCH.REVISION"), "{}", odd.all());
    annotate(json!({"limen.dev/newer-mark": "7.1234", "limen.dev/newer-mark-cluster": "asia"}))
        .await;
    let unasked = hub.limen(&["resume"]);
    assert!(!unasked.succeeded(), "{}", unasked.all());
    assert!(unasked.out().contains("asia") && unasked.out().contains("epoch 7, revision 1234"));
    assert_eq!(resumed().await, None);
    let meant = hub.limen(&["resume", "--yes"]);
    assert!(meant.succeeded(), "{}", meant.all());
    assert_eq!(resumed().await.as_deref(), Some("7.1234"));
}
