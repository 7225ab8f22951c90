//! Autoscalers that arrive for Deployments which run already.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::Api;
use serde_json::{Value, json};

use super::history::History;
use super::member::{Member, apply, kubectl};
use crate::processes::{ApiServer, eventually};

/// The replicas that the root asks for in each member.
const REPLICAS: i32 = 4;

fn deployment(image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"}, "spec": pods(REPLICAS, image)})
}

fn pods(replicas: i32, image: &str) -> Value {
    json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": image}]}}})
}

/// An autoscaler for member a only.
fn autoscaler() -> Value {
    let in_a = json!([{"key": "name", "operator": "in", "values": ["a"]}]).to_string();
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default", "annotations": {
            "federation.alpha.kubernetes.io/cluster-selector": in_a}},
        "spec": {"minReplicas": 2, "maxReplicas": 20, "scaleTargetRef": {
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}})
}

async fn eventually_is(member: &Member, replicas: i32, image: &str) {
    let deployments: Api<Deployment> = Api::default_namespaced(member.client.clone());
    eventually("the Deployment", async || {
        let spec = deployments.get_opt("web").await.unwrap().and_then(|found| found.spec);
        let count = spec.as_ref().and_then(|spec| spec.replicas);
        assert!(count.is_none_or(|count| count >= REPLICAS), "replicas fell to {count:?}");
        let fits = spec.as_ref().is_some_and(|spec| {
            let pods = spec.template.spec.as_ref().unwrap();
            spec.replicas == Some(replicas) && pods.containers[0].image.as_deref() == Some(image)
        });
        (fits, format!("{spec:?}"))
    })
    .await;
}

/// The replicas of the Deployment in every version that it has had.
async fn replicas(history: &History) -> Vec<i32> {
    let changes = history.so_far().await;
    let replicas = |change: &super::history::Change| {
        assert!(!change.gone, "the Deployment was deleted");
        i32::try_from(change.object["spec"]["replicas"].as_i64().unwrap()).unwrap()
    };
    changes.iter().map(replicas).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_autoscaler_that_arrives_takes_no_replica_away_in_any_member() {
    let (a, b) = tokio::join!(Member::start(), Member::start());
    let mut hub = ApiServer::hub();
    a.join(&hub.kubeconfig(), "a");
    b.join(&hub.kubeconfig(), "b");
    apply(&hub.kubeconfig(), &[deployment("web:1")]).await;
    for member in [&a, &b] {
        eventually_is(member, REPLICAS, "web:1").await;
    }
    let marker = || json!({"spec": pods(0, "marker")});
    let in_a = History::start::<Deployment>(&a.client, marker()).await;
    let in_b = History::start::<Deployment>(&b.client, marker()).await;

    apply(&hub.kubeconfig(), &[autoscaler()]).await;
    let scalers: Api<HorizontalPodAutoscaler> = Api::default_namespaced(a.client.clone());
    eventually("the autoscaler in a", async || {
        let found = scalers.get_opt("web").await.unwrap();
        (found.is_some(), format!("{found:?}"))
    })
    .await;
    // Every plan from here on knows of the autoscaler, and so does a hub that is started anew.
    apply(&hub.kubeconfig(), &[deployment("web:2")]).await;
    for member in [&a, &b] {
        eventually_is(member, REPLICAS, "web:2").await;
    }
    hub.kill();
    hub.start_again();
    apply(&hub.kubeconfig(), &[deployment("web:3")]).await;
    for member in [&a, &b] {
        eventually_is(member, REPLICAS, "web:3").await;
    }
    assert!(replicas(&in_a).await.iter().all(|count| *count == REPLICAS));

    // The autoscaler scales: the hub leaves the field to it, also when it changes all the rest.
    a.kubectl(&["scale", "deployment", "web", "--replicas=7"]).await;
    for image in ["web:4", "web:5"] {
        apply(&hub.kubeconfig(), &[deployment(image)]).await;
        eventually_is(&a, 7, image).await;
        eventually_is(&b, REPLICAS, image).await;
    }
    let counts = replicas(&in_a).await;
    assert!(counts.is_sorted() && *counts.last().unwrap() == 7, "replicas fell in a: {counts:?}");
    let counts = replicas(&in_b).await;
    assert!(counts.iter().all(|count| *count == REPLICAS), "replicas changed in b: {counts:?}");

    // Without an autoscaler the count of the root holds again.
    kubectl(&hub.kubeconfig(), &["delete", "hpa", "web"], "").await;
    eventually_is(&a, REPLICAS, "web:5").await;
    let counts = replicas(&in_a).await;
    assert!(counts.iter().all(|count| *count >= REPLICAS), "replicas fell in a: {counts:?}");
}
