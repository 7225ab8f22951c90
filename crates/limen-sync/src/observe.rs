//! What a member has to serve with: its Services, EndpointSlices, Ingresses and Nodes.
//!
//! Objects are read once and forgotten; what is worth remembering of them is passed on.

use std::sync::Arc;

use limen_core::compile::{Digest, Key, ObservedKind};
use limen_core::federated::Kind;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::object_api::ObjectApi;
use crate::watch::{Seen, follow};

/// News of one member.
#[derive(Debug)]
pub struct Observation {
    /// The member.
    pub cluster: Arc<str>,
    /// Which connection to it saw this: a new one starts again from the beginning.
    pub connection: u64,
    /// What was seen.
    pub what: Observed,
}

/// What was seen.
#[derive(Debug)]
pub enum Observed {
    /// All objects of a kind.
    State(ObservedKind, Vec<(Key, Digest)>),
    /// An object is new or changed.
    Changed(Key, Digest),
    /// An object is gone, or of no use any more.
    Gone(ObservedKind, Key),
    /// The watch of a kind fails: its objects are as they were last seen.
    Lost(ObservedKind),
}

/// A kind as [`limen_api::kind`] takes it.
type Row = (&'static str, &'static str, &'static str, bool);

const KINDS: [(ObservedKind, Row); 4] = [
    (ObservedKind::Service, ("v1", "Service", "services", true)),
    (ObservedKind::Slice, ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", true)),
    (ObservedKind::Ingress, ("networking.k8s.io/v1", "Ingress", "ingresses", true)),
    (ObservedKind::Node, ("v1", "Node", "nodes", false)),
];

/// Tells everything about a member, for as long as somebody listens.
pub async fn observe(
    api: ObjectApi,
    cluster: Arc<str>,
    connection: u64,
    tell: mpsc::Sender<Observation>,
) {
    let (seen, mut news) = mpsc::channel(256);
    let mut watches = JoinSet::new();
    let kinds: Vec<(ObservedKind, Arc<Kind>)> =
        KINDS.map(|(seen, row)| (seen, limen_api::kind(row))).into();
    for (_, kind) in &kinds {
        watches.spawn(follow(api.clone(), kind.clone(), String::new(), seen.clone()));
    }
    while let Some((kind, seen)) = news.recv().await {
        let Some((of, _)) = kinds.iter().find(|(_, known)| *known == kind) else { continue };
        let Some(what) = digested(*of, seen) else { continue };
        let observation = Observation { cluster: cluster.clone(), connection, what };
        if tell.send(observation).await.is_err() {
            return;
        }
    }
}

/// The observation worth passing on. Every cluster has these kinds, so an endpoint that does not know them
/// is no member: the kind is lost, and not empty.
fn digested(kind: ObservedKind, seen: Seen) -> Option<Observed> {
    Some(match seen {
        Seen::State(objects, _) => {
            let digest = |object: &Value| Some((key(object), Digest::of(kind, object)?));
            Observed::State(kind, objects.iter().filter_map(digest).collect())
        }
        Seen::Changed(object) => match Digest::of(kind, &object) {
            Some(digest) => Observed::Changed(key(&object), digest),
            None => Observed::Gone(kind, key(&object)),
        },
        Seen::Gone(object) => Observed::Gone(kind, key(&object)),
        // Nodes may be kept from us, and then there are no node ports.
        Seen::Lost(kube::Error::Api(status))
            if status.code == 403 && kind == ObservedKind::Node =>
        {
            Observed::State(kind, Vec::new())
        }
        Seen::Bookmark(_) | Seen::Behind => return None,
        Seen::UnknownKind | Seen::OtherVersions(_) | Seen::Lost(_) => Observed::Lost(kind),
    })
}

fn key(object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied() -> Seen {
        let status = kube::core::Status { code: 403, ..Default::default() };
        Seen::Lost(kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn a_watch_that_fails_is_reported_with_its_kind() {
        let lost =
            |kind, seen| matches!(digested(kind, seen), Some(Observed::Lost(of)) if of == kind);
        assert!(lost(ObservedKind::Slice, denied()));
        assert!(lost(ObservedKind::Service, Seen::UnknownKind));
        // Without permission to read Nodes there are no node ports.
        let nodes = digested(ObservedKind::Node, denied());
        assert!(matches!(nodes, Some(Observed::State(ObservedKind::Node, all)) if all.is_empty()));
    }
}
