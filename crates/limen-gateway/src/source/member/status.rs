//! Where clients find an Ingress, written into its status.
//!
//! ```text
//! watches ─► those that say something else ─► one slot, the newest only ─► writes
//! ```
//!
//! A cluster that is slow to take writes, or does not take them, delays no route.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{Api, Patch, PatchParams};
use limen_api::source::Key;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Member;

/// How long one write may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it is left alone when writes have failed: at first, and at most.
const AGAIN: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// The Ingresses whose status says something else than it should.
pub(super) fn outdated<'a>(
    member: &Member,
    ingresses: impl Iterator<Item = &'a Ingress>,
) -> Vec<Key> {
    if member.addresses.is_empty() {
        return Vec::new();
    }
    let wanted = wanted(&member.addresses);
    let differs = |ingress: &&Ingress| {
        let status = ingress.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let said = status.and_then(|balancer| balancer.ingress.as_ref());
        let said = said.and_then(|said| serde_json::to_value(said).ok()).unwrap_or(json!([]));
        said != wanted
    };
    let key = |ingress: &Ingress| {
        Some((ingress.metadata.namespace.clone()?, ingress.metadata.name.clone()?))
    };
    ingresses.filter(differs).filter_map(key).collect()
}

/// Writes the status of those that are `outdated`, for as long as somebody says which.
pub(super) async fn keep_writing(member: &Member, mut outdated: watch::Receiver<Vec<Key>>) {
    let status = json!({ "loadBalancer": { "ingress": wanted(&member.addresses) } });
    let patch = Patch::Merge(json!({ "status": status }));
    let mut again = AGAIN;
    loop {
        let keys = outdated.borrow_and_update().clone();
        let mut failed = false;
        for key in keys {
            // It may be gone, or somebody else's by now.
            let still = outdated.borrow().contains(&key);
            if still && !write(member, &key, &patch).await {
                failed = true;
            }
        }
        if failed {
            tokio::time::sleep(again).await;
            again = (again * 2).min(LONGEST);
            continue;
        }
        again = AGAIN;
        if outdated.changed().await.is_err() {
            return;
        }
    }
}

/// Whether a status could be written.
async fn write(member: &Member, (namespace, name): &Key, patch: &Patch<Value>) -> bool {
    let api: Api<Ingress> = Api::namespaced(member.client.clone(), namespace);
    let how = PatchParams::default();
    let error = match tokio::time::timeout(PATIENCE, api.patch_status(name, &how, patch)).await {
        Ok(Ok(_)) => return true,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {PATIENCE:?}"),
    };
    tracing::warn!(error, "the status of Ingress {namespace}/{name} cannot be written");
    false
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
