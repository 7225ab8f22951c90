//! EndpointSlices: which pods are behind a Service.

use serde_json::{Value, json};

use super::fields::{hash, is_leaving, list, matches, owned_by, says, text, uid};
use super::replicas::{delete, is_active, is_ready, ports};
use super::world::{Change, World};

const SERVICE: &str = "kubernetes.io/service-name";
const MANAGER: &str = "endpointslice.kubernetes.io/managed-by";
const OURS: &str = "endpointslice-controller.limen.dev";

/// Keeps one slice for every Service that selects pods.
pub(super) fn reconcile(world: &World, zone: &str, changes: &mut Vec<Change>) {
    for ((namespace, name), service) in world.all("Service") {
        let selector = &service["spec"]["selector"];
        if is_leaving(service) || selector.as_object().is_none_or(serde_json::Map::is_empty) {
            continue;
        }
        let selector = json!({"matchLabels": selector});
        let pods = world.within("Pod", namespace).filter(|it| is_active(it));
        let pods = pods.filter(|it| !text(it, "/status/podIP").is_empty());
        let mut pods: Vec<&Value> =
            pods.filter(|it| matches(&selector, &it["metadata"]["labels"])).collect();
        pods.sort_by_key(|it| text(it, "/status/podIP"));
        let anyway = service["spec"]["publishNotReadyAddresses"] == true;
        let endpoints: Vec<Value> = pods.iter().map(|it| endpoint(it, zone, anyway)).collect();
        let ports: Vec<Value> = list(service, "/spec/ports")
            .iter()
            .filter_map(|port| slice_port(port, &pods))
            .collect();
        let slice = format!("{name}-{}", &hash(&json!(uid(service)))[..5]);
        match world.get("EndpointSlice", namespace, &slice) {
            None => {
                let made = json!({
                    "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                    "metadata": {"name": slice, "namespace": namespace,
                        "labels": {SERVICE: name, MANAGER: OURS},
                        "ownerReferences": owned_by("v1", "Service", service)},
                    "addressType": "IPv4", "endpoints": endpoints, "ports": ports,
                });
                changes.push(Change::Create("EndpointSlice", made));
            }
            Some(found)
                if !says(&found["endpoints"], &json!(endpoints))
                    || !says(&found["ports"], &json!(ports)) =>
            {
                let key = (namespace.clone(), slice);
                let patch = json!({"endpoints": endpoints, "ports": ports});
                changes.push(Change::Patch("EndpointSlice", key, patch));
            }
            Some(_) => {}
        }
    }
    // A Service that was made anew has a new slice; the old one may lead anywhere.
    for (key, slice) in world.all("EndpointSlice") {
        let labels = &slice["metadata"]["labels"];
        let service = labels[SERVICE].as_str().unwrap_or_default();
        let owner = text(slice, "/metadata/ownerReferences/0/uid");
        let service = world.get("Service", &key.0, service);
        if labels[MANAGER] == OURS && service.is_some_and(|it| uid(it) != owner) {
            changes.push(delete("EndpointSlice", slice));
        }
    }
}

fn endpoint(pod: &Value, zone: &str, anyway: bool) -> Value {
    let ready = is_ready(pod) || anyway;
    json!({
        "addresses": [text(pod, "/status/podIP")],
        "conditions": {"ready": ready, "serving": ready, "terminating": false},
        "nodeName": text(pod, "/spec/nodeName"),
        "targetRef": {"kind": "Pod", "namespace": text(pod, "/metadata/namespace"),
            "name": text(pod, "/metadata/name"), "uid": uid(pod)},
        "zone": zone,
    })
}

/// A port of a Service as it is at the pods.
fn slice_port(port: &Value, pods: &[&Value]) -> Option<Value> {
    let number = match &port["targetPort"] {
        Value::String(name) => {
            let named = pods.iter().flat_map(|it| ports(it)).find(|it| it["name"] == name.as_str());
            named?["containerPort"].as_i64()?
        }
        Value::Number(number) if number.as_i64() != Some(0) => number.as_i64()?,
        _ => port["port"].as_i64()?,
    };
    let protocol = port["protocol"].as_str().unwrap_or("TCP");
    let mut found = json!({
        "name": port["name"].as_str().unwrap_or_default(), "port": number, "protocol": protocol});
    if let Some(protocol) = port["appProtocol"].as_str() {
        found["appProtocol"] = json!(protocol);
    }
    Some(found)
}
