//! Where clients find an Ingress, written into its status.
//!
//! ```text
//! watches ─► those that say something else ─► one slot, the newest only ─► writes
//! ```
//!
//! A cluster that is slow to take writes, or does not take them, delays no route. An Ingress whose
//! status cannot be written waits for itself, and the others do not wait for it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{Api, Patch, PatchParams};
use limen_api::source::Key;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Member;

/// How long one write may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one is left alone whose write has failed: at first, and at most.
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
    let mut failures = Failures::default();
    let mut news = true;
    loop {
        let keys = outdated.borrow_and_update().clone();
        for key in failures.due(keys, news, Instant::now()) {
            // It may be gone, or somebody else's by now.
            if !outdated.borrow().contains(&key) {
                continue;
            }
            let wrote = write(member, &key, &patch).await;
            // Those that have failed before come last, and may be many, and slow.
            let enough = failures.note(key, wrote, Instant::now());
            if enough && outdated.has_changed().unwrap_or(true) {
                break;
            }
        }
        let Some(next) = failures.next() else {
            if outdated.changed().await.is_err() {
                return;
            }
            news = true;
            continue;
        };
        news = tokio::select! {
            changed = outdated.changed() => match changed {
                Ok(()) => true,
                Err(_) => return,
            },
            () = tokio::time::sleep_until(next) => false,
        };
    }
}

/// The writes that have failed: when each is tried again, and how long that was waited for.
#[derive(Default)]
struct Failures(HashMap<Key, (Instant, Duration)>);

impl Failures {
    /// Which of these are written now: those that have failed when it is time, and the others
    /// first, if there is `news` of them. Those that are not named are forgotten.
    fn due(&mut self, mut keys: Vec<Key>, news: bool, now: Instant) -> Vec<Key> {
        self.0.retain(|key, _| keys.contains(key));
        let again = |key: &Key| self.0.get(key).map(|(again, _)| *again);
        keys.retain(|key| again(key).map_or(news, |again| again <= now));
        keys.sort_by_key(again);
        keys
    }

    /// Notes what became of a write. Whether it had failed before.
    fn note(&mut self, key: Key, wrote: bool, now: Instant) -> bool {
        let before = self.0.remove(&key);
        if !wrote {
            let pause = before.map_or(AGAIN, |(_, pause)| (pause * 2).min(LONGEST));
            self.0.insert(key, (now + pause, pause));
        }
        before.is_some()
    }

    /// When the next of them is tried again.
    fn next(&self) -> Option<Instant> {
        self.0.values().map(|(again, _)| *again).min()
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
