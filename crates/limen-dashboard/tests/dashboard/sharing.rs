//! How traffic is shared, changed from the page.

use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::bed::{Bed, limen};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_are_previewed_and_changed_with_ones_own_rights() {
    let mut bed = Bed::start().await;
    for name in ["europe", "mars"] {
        let cluster = json!({"kind": "Cluster", "metadata": {"name": name}, "spec": {}});
        bed.apply("limen.dev/v1alpha1", "clusters", &cluster).await;
    }
    let globals: Api<limen_api::GlobalIngress> = Api::default_namespaced(bed.client.clone());
    let target =
        |name: &str| json!({"cluster": name, "addresses": [{"host": "192.0.2.1", "port": 80}]});
    let global = serde_json::from_value(json!({
        "apiVersion": "limen.dev/v1alpha1", "kind": "GlobalIngress", "metadata": {"name": "web"},
        "spec": {
            "root": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "web"},
            "rules": [{"host": "shop.example", "paths": [{"path": "/", "backend": "web"}]}],
            "backends": [{"name": "web", "targets": [target("asia"), target("europe")]}]}}));
    globals.create(&PostParams::default(), &global.unwrap()).await.unwrap();
    let reader = bed.token("reader", limen(&["get", "list", "watch"])).await;
    let writer = bed.token("writer", limen(&["get", "list", "watch", "create", "patch"])).await;
    let (reader, writer) = (bed.log_in(&reader).await.1, bed.log_in(&writer).await.1);
    let policies: Api<limen_api::TrafficPolicy> = Api::default_namespaced(bed.client.clone());
    let wish = |how: Value, preview: bool| json!({"namespace": "default", "global": "web", "how": how, "preview": preview});
    let weights = json!({"weights": {"asia": 3, "europe": 1}});

    let looked = bed.post("/api/share", &reader, &wish(weights.clone(), true)).await;
    assert_eq!(looked.status, 200, "who may look may preview: {}", looked.text);
    let share = |answer: &Answer, name: &str| {
        let after = answer.body()["after"].as_array().unwrap().clone();
        after
            .iter()
            .find(|odds| odds["cluster"] == name)
            .map(|odds| odds["share"].as_f64().unwrap())
    };
    assert_eq!((share(&looked, "asia"), share(&looked, "europe")), (Some(0.75), Some(0.25)));
    assert_eq!(
        (&looked.body()["policy"], &looked.body()["creates"]),
        (&json!("web"), &json!(true))
    );
    let refused = bed.post("/api/share", &reader, &wish(weights.clone(), false)).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    assert!(policies.get_opt("web").await.unwrap().is_none());

    let done = bed.post("/api/share", &writer, &wish(weights, false)).await;
    assert_eq!(done.status, 200, "{}", done.text);
    assert_eq!(policies.get("web").await.unwrap().spec.policy.weights.unwrap().clusters["asia"], 3);
    let canary = json!({"canary": {
        "clusters": ["europe"], "steps": [10, 50], "stepSeconds": 60, "minSuccessPercent": 99.0}});
    let done = bed.post("/api/share", &writer, &wish(canary, false)).await;
    assert_eq!(done.status, 200, "{}", done.text);
    assert_eq!(done.body()["creates"], false);
    let policy = policies.get("web").await.unwrap().spec.policy;
    assert!(policy.weights.is_none(), "one takes the place of the other");
    assert_eq!(policy.canary.unwrap().steps, [10, 50]);
    let done = bed.post("/api/share", &writer, &wish(json!("nearest"), false)).await;
    assert_eq!(done.status, 200, "{}", done.text);
    let policy = policies.get("web").await.unwrap().spec.policy;
    assert!(policy.canary.is_none() && policy.groups.is_empty());

    let nowhere = wish(json!({"weights": {"atlantis": 1}}), true);
    let wrong = bed.post("/api/share", &writer, &nowhere).await;
    assert_eq!(wrong.status, 422, "{}", wrong.text);
    bed.hub.stop().await;
}
