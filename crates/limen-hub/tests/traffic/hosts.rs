//! Two namespaces, and one of them wants what the other has.

use std::time::Duration;

use limen_core::federated::ObjectId;
use serde_json::{Value, json};

use crate::bed::{Bed, ingress, own, targets};
use crate::rig::id_of;

/// The namespace that wants more than it has; gateways ask it before the other.
const THIEF: &str = "aaa";

pub(crate) fn in_namespace(id: ObjectId, namespace: &str) -> ObjectId {
    ObjectId { namespace: Some(namespace.to_owned()), ..id }
}

/// A FederatedIngress of the other namespace that leads to an Ingress of c1.
pub(crate) async fn submit_elsewhere(bed: &Bed, mut spec: Value) -> ObjectId {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": THIEF}});
    bed.hub().create(&namespace).await;
    // The hub brings it to its members.
    bed.rig.eventually(&id_of(&namespace), &["c1"], |found| found.is_some()).await;
    let member = bed.rig.member("c1");
    let mut behind = ingress("behind", None);
    behind["metadata"]["namespace"] = json!(THIEF);
    member.create(&behind).await;
    let port = bed.upstreams["c1"].address.port();
    let status = json!({"status": {"loadBalancer": {"ingress": [
        {"ip": "127.0.0.1", "ports": [{"port": port, "protocol": "TCP"}]}]}}});
    member.api().merge(&id_of(&behind), "/status", &status).await.unwrap();
    spec["backends"] =
        json!([{"name": "b", "targets": [{"cluster": "c1", "ingress": {"name": "behind"}}]}]);
    let id = own(("FederatedIngress", "federatedingresses"), "greedy");
    let id = in_namespace(id, THIEF);
    let manifest = json!({"apiVersion": "limen.dev/v1alpha1", "kind": "FederatedIngress",
        "metadata": {"name": id.name, "namespace": THIEF}, "spec": spec});
    bed.hub().api().create(&id.kind, &manifest).await.unwrap();
    id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_gets_neither_the_host_nor_the_name_of_another() {
    let bed = Bed::start(&["c1"]).await;
    let mut root = ingress("shop", Some("shop.test"));
    root["spec"]["tls"] = json!([{"hosts": ["shop.test"], "secretName": "shop"}]);
    bed.hub().create(&crate::bed::service("shop")).await;
    bed.hub().create(&root).await;
    bed.serve("c1", "shop", 1).await;
    bed.compiled("shop", |global| targets(global).len() == 1).await;
    // Times are whole seconds; the second comes in a later one.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let greedy = submit_elsewhere(
        &bed,
        json!({"hosts": ["OWN.test", "SHOP.test.", "shop.test:80"],
            "tls": [{"hosts": ["shop.test", "other.test"], "secretName": "own"}]}),
    )
    .await;
    let expected = "shop.test belongs to the Ingress default/shop, which is older; \
        tls names other.test, which no rule here serves: its certificate is not shown for it";
    let told = |object: Option<&Value>| {
        object.is_some_and(|object| object["status"]["conditions"][0]["message"] == expected)
    };
    bed.rig.eventually_on_hub(&greedy, told).await;
    let global =
        in_namespace(own(("GlobalIngress", "globalingresses"), "federatedingress.greedy"), THIEF);
    let compiled = bed.rig.eventually_on_hub(&global, |global| global.is_some()).await.unwrap();
    let spec = &compiled["spec"];
    let hosts: Vec<_> =
        spec["rules"].as_array().unwrap().iter().map(|rule| &rule["host"]).collect();
    assert_eq!(hosts, ["own.test"], "{spec}");
    assert!(spec["tls"].is_null(), "{spec}");
    let owner = bed.compiled("shop", |_| true).await;
    assert_eq!(owner["spec"]["tls"], json!([{"hosts": ["shop.test"], "secretName": "shop"}]));
}
