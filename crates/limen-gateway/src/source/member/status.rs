//! Where clients find an Ingress, written into its status.

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::Member;

/// Writes the status of every Ingress of ours that says something else.
pub(super) async fn write_all(
    member: &Member,
    ingresses: impl Iterator<Item = &Ingress>,
    is_ours: impl Fn(&Ingress) -> bool,
) {
    if member.addresses.is_empty() {
        return;
    }
    let wanted = wanted(&member.addresses);
    for ingress in ingresses.filter(|ingress| is_ours(ingress)) {
        let status = ingress.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let said = status.and_then(|balancer| balancer.ingress.as_ref());
        let said = said.and_then(|said| serde_json::to_value(said).ok()).unwrap_or(json!([]));
        if said == wanted {
            continue;
        }
        let meta = &ingress.metadata;
        let (Some(namespace), Some(name)) = (&meta.namespace, &meta.name) else { continue };
        let api: Api<Ingress> = Api::namespaced(member.client.clone(), namespace);
        let patch = json!({ "status": { "loadBalancer": { "ingress": wanted } } });
        let written = api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        if let Err(error) = written {
            tracing::warn!(%error, "the status of Ingress {namespace}/{name} cannot be written");
        }
    }
}

/// An address with a port says that clients go there and not to 80 and 443.
fn wanted(addresses: &[String]) -> Value {
    let entry = |address: &String| {
        if let Ok(socket) = address.parse::<SocketAddr>() {
            let port = json!({ "port": socket.port(), "protocol": "TCP" });
            return json!({ "ip": socket.ip(), "ports": [port] });
        }
        match address.parse::<IpAddr>() {
            Ok(_) => json!({ "ip": address }),
            Err(_) => json!({ "hostname": address }),
        }
    };
    addresses.iter().map(entry).collect()
}
