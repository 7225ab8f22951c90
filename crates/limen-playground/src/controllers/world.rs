//! What a member holds, as its controllers have seen it.
//!
//! What they have written counts as seen at once: otherwise they would write it again before their
//! watches say that it is there.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use limen_core::federated::{Kind, ObjectId};
use limen_sync::Seen;
use serde_json::Value;

use super::fields::{text, uid};

/// Namespace and name.
pub(super) type Key = (String, String);

/// The kinds that controllers look at.
pub(super) const KINDS: [(&str, &str, &str, bool); 10] = [
    ("v1", "Node", "nodes", false),
    ("v1", "Pod", "pods", true),
    ("v1", "Service", "services", true),
    ("apps/v1", "Deployment", "deployments", true),
    ("apps/v1", "ReplicaSet", "replicasets", true),
    ("apps/v1", "StatefulSet", "statefulsets", true),
    ("apps/v1", "DaemonSet", "daemonsets", true),
    ("batch/v1", "Job", "jobs", true),
    ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true),
    ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", true),
];

/// What controllers want done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// Make an object of a kind.
    Create(&'static str, Value),
    /// Change fields of an object.
    Patch(&'static str, Key, Value),
    /// Change fields of its status.
    Status(&'static str, Key, Value),
    /// Delete the object with that uid.
    Delete(&'static str, Key, String),
}

/// What there is.
#[derive(Default)]
pub(super) struct World {
    objects: BTreeMap<String, BTreeMap<Key, Value>>,
    listed: BTreeSet<String>,
    /// The uids of what was deleted and has not been seen to go.
    gone: HashSet<String>,
}

impl World {
    /// Whether every kind has been listed.
    pub(super) fn complete(&self) -> bool {
        KINDS.iter().all(|(_, kind, ..)| self.listed.contains(*kind))
    }

    /// All objects of a kind.
    pub(super) fn all<'a>(
        &'a self,
        kind: &str,
    ) -> impl Iterator<Item = (&'a Key, &'a Value)> + use<'a> {
        self.objects.get(kind).into_iter().flatten()
    }

    /// One object.
    pub(super) fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(kind)?.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// The objects of a kind in a namespace.
    pub(super) fn within<'a>(
        &'a self,
        kind: &str,
        namespace: &str,
    ) -> impl Iterator<Item = &'a Value> + use<'a> {
        let namespace = namespace.to_owned();
        self.all(kind).filter(move |(key, _)| key.0 == namespace).map(|(_, object)| object)
    }

    /// The objects of a kind that something controls.
    pub(super) fn owned(&self, kind: &str, owner: &Value) -> Vec<&Value> {
        let uid = uid(owner);
        let is_owner = |it: &Value| it["uid"] == uid && it["controller"] == true;
        let of = |object: &&Value| {
            super::fields::list(object, "/metadata/ownerReferences").iter().any(is_owner)
        };
        self.within(kind, text(owner, "/metadata/namespace")).filter(of).collect()
    }

    /// Takes in what a watch has seen.
    pub(super) fn see(&mut self, kind: &Arc<Kind>, seen: Seen) {
        match seen {
            Seen::State(objects, _) => {
                let objects = objects.into_iter().map(|object| (key(&object), object)).collect();
                self.objects.insert(kind.kind.clone(), objects);
                self.listed.insert(kind.kind.clone());
            }
            Seen::Changed(object) => self.take(&kind.kind, object),
            Seen::Gone(object) => {
                let uid = uid(&object);
                self.gone.remove(uid);
                let key = key(&object);
                let objects = self.objects.entry(kind.kind.clone()).or_default();
                if objects.get(&key).is_some_and(|known| self::uid(known) == uid) {
                    objects.remove(&key);
                }
            }
            Seen::Bookmark(_) | Seen::Behind | Seen::UnknownKind | Seen::OtherVersions(_) => {}
            Seen::Lost(error) => tracing::debug!(%error, "{} cannot be watched", kind.plural),
        }
    }

    /// Takes in an object, unless something newer is known of it.
    pub(super) fn take(&mut self, kind: &str, object: Value) {
        if self.gone.contains(uid(&object)) {
            return;
        }
        let objects = self.objects.entry(kind.to_owned()).or_default();
        let key = key(&object);
        let newer = objects.get(&key).is_none_or(|known| version(known) < version(&object));
        if newer {
            objects.insert(key, object);
        }
    }

    /// Forgets an object that was deleted.
    pub(super) fn forget(&mut self, kind: &str, key: &Key, uid: &str) {
        let objects = self.objects.entry(kind.to_owned()).or_default();
        if objects.remove(key).is_some() {
            self.gone.insert(uid.to_owned());
        }
    }
}

fn key(object: &Value) -> Key {
    let part = |pointer: &str| text(object, pointer).to_owned();
    (part("/metadata/namespace"), part("/metadata/name"))
}

fn version(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion").parse().unwrap_or_default()
}

/// The kind of that name.
pub(super) fn kind(name: &str) -> Arc<Kind> {
    let row = KINDS.iter().find(|(_, kind, ..)| *kind == name);
    limen_api::kind(*row.expect("controllers write only kinds that they look at"))
}

/// The id of an object.
pub(super) fn id(kind_name: &str, (namespace, name): &Key) -> ObjectId {
    let kind = kind(kind_name);
    let namespace = kind.namespaced.then(|| namespace.clone());
    ObjectId { kind, namespace, name: name.clone() }
}
