//! What a cluster has before anybody asks for anything: nodes, and a class of ingresses.

use limen_core::federated::ObjectId;
use limen_sync::ObjectApi;
use serde_json::{Value, json};

use crate::topology::Place;

/// Nodes in a member.
const NODES: usize = 2;

/// The names of a member's nodes.
pub(crate) fn node_names(place: &Place) -> Vec<String> {
    (1..=NODES).map(|number| format!("{}-node-{number}", place.name)).collect()
}

/// Makes nodes and the class, or brings them up to date.
pub(crate) async fn furnish(api: &ObjectApi, place: &Place) -> kube::Result<()> {
    let class = object(("networking.k8s.io/v1", "IngressClass", "ingressclasses"), "limen");
    let manifest = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": {"name": "limen",
            "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
        "spec": {"controller": "limen.dev/gateway"},
    });
    api.apply(&class, &manifest).await?;
    for name in node_names(place) {
        let id = object(("v1", "Node", "nodes"), &name);
        let manifest = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/region": place.region,
                "topology.kubernetes.io/zone": place.zone,
            }},
        });
        api.apply(&id, &manifest).await?;
        api.merge(&id, "/status", &json!({"status": status(&name)})).await?;
    }
    Ok(())
}

fn object((api_version, kind, plural): (&str, &str, &str), name: &str) -> ObjectId {
    let kind = limen_api::kind((api_version, kind, plural, false));
    ObjectId { kind, namespace: None, name: name.to_owned() }
}

fn status(name: &str) -> Value {
    let room = json!({"cpu": "4", "memory": "8Gi", "pods": "1000"});
    let moment = super::fields::time(jiff::Timestamp::now());
    json!({
        "capacity": room, "allocatable": room,
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"},
            {"type": "Hostname", "address": name}],
        "conditions": [{"type": "Ready", "status": "True", "reason": "PlaygroundReady",
            "message": "the playground runs pods here",
            "lastHeartbeatTime": moment, "lastTransitionTime": moment}],
        "nodeInfo": {
            "architecture": std::env::consts::ARCH, "bootID": "", "machineID": "",
            "systemUUID": "", "containerRuntimeVersion": "limen-playground://1",
            "kernelVersion": "", "operatingSystem": "linux", "osImage": "Limen playground",
            "kubeletVersion": concat!("v", env!("CARGO_PKG_VERSION"), "-limen"),
            "kubeProxyVersion": "",
        },
    })
}
