//! What the hub's own watches tell.

use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use limen_api::dialect::identity;
use limen_api::{Cluster, FederatedType, HeldRoot, Hold, NAMESPACE, PlacementPolicy};
use limen_core::federated::{Kind, ObjectId};
use limen_sync::Seen;
use serde_json::Value;

use super::removals::LEDGER;
use super::{GATHER, Record, World};
use crate::clusters::{Member, facts};
use crate::connect::SecretData;
use crate::kinds::{Source, Sources, leaf_kind};
use crate::roots::Root;

const GROUP: &str = "limen.dev/v1alpha1";

/// The kinds of Limen's own that the hub watches.
pub(super) fn own_kinds() -> [Arc<Kind>; 4] {
    [
        limen_api::kind((GROUP, "Cluster", "clusters", false)),
        limen_api::kind((GROUP, "FederatedType", "federatedtypes", false)),
        limen_api::kind((GROUP, "Hold", "holds", false)),
        limen_api::kind((GROUP, "PlacementPolicy", "placementpolicies", true)),
    ]
}

impl World {
    pub(super) fn see(&mut self, kind: &Arc<Kind>, seen: Seen) {
        match seen {
            Seen::State(objects, version) => {
                self.note_revision(&version);
                let mut before = self.known(kind);
                for object in objects {
                    let id = identity(&object, kind);
                    before.retain(|known| *known != id);
                    self.changed(kind, object);
                }
                for id in before {
                    self.gone(&id);
                }
                self.listed.insert(kind.clone());
                self.lost_inputs.remove(kind);
            }
            Seen::Changed(object) => {
                let version = object["metadata"]["resourceVersion"].as_str();
                self.note_revision(version.unwrap_or_default());
                self.changed(kind, object);
            }
            Seen::Gone(object) => self.gone(&identity(&object, kind)),
            Seen::UnknownKind => {
                self.lost_inputs.remove(kind);
                self.listed.insert(kind.clone());
            }
            Seen::Bookmark(version) => self.note_revision(&version),
            // The hub is asked for versions that it serves.
            Seen::OtherVersions(versions) => {
                let versions = versions.join(", ");
                tracing::warn!(kind = kind.kind, versions, "the hub serves other versions only");
                self.lost_inputs.remove(kind);
                self.listed.insert(kind.clone());
            }
            Seen::Lost(error) => {
                tracing::warn!(kind = kind.kind, %error, "cannot watch the hub; retrying");
                if is_input(kind, &self.sources) {
                    self.lost_inputs.insert(kind.clone());
                }
            }
        }
    }

    /// Every object of a kind that is remembered.
    fn known(&self, kind: &Arc<Kind>) -> Vec<ObjectId> {
        let cluster_wide =
            |name: &str| ObjectId { kind: kind.clone(), namespace: None, name: name.to_owned() };
        match kind.kind.as_str() {
            "Cluster" if kind.api_version == GROUP => {
                self.members.keys().map(|name| cluster_wide(name)).collect()
            }
            "Hold" if kind.api_version == GROUP => {
                self.holds.names().map(|name| cluster_wide(name)).collect()
            }
            "PlacementPolicy" if kind.api_version == GROUP => {
                let id = |(namespace, name): &(String, String)| ObjectId {
                    kind: kind.clone(),
                    namespace: Some(namespace.clone()),
                    name: name.clone(),
                };
                self.policies.keys().chain(self.unreadable_policies.keys()).map(id).collect()
            }
            _ => {
                let roots = self.roots.keys().map(|id| &**id);
                roots.chain(self.parts.keys()).filter(|id| id.kind == *kind).cloned().collect()
            }
        }
    }

    fn changed(&mut self, kind: &Arc<Kind>, object: Value) {
        match (kind.api_version.as_str(), kind.kind.as_str()) {
            (GROUP, "Cluster") => self.cluster_changed(object),
            (GROUP, "FederatedType") => self.type_changed(object),
            (GROUP, "Hold") => self.hold_changed(object),
            (GROUP, "PlacementPolicy") => self.policy_changed(object),
            _ => self.source_changed(kind, object),
        }
    }

    fn gone(&mut self, id: &ObjectId) {
        match (id.kind.api_version.as_str(), id.kind.kind.as_str()) {
            (GROUP, "Cluster") => {
                self.members.remove(id.name.as_str());
                self.clusters.remove(&id.name);
                for root in self.roots.values_mut() {
                    root.reports.remove(id.name.as_str());
                    root.desired.remove(id.name.as_str());
                    root.memory.holders.remove(id.name.as_str());
                }
                self.all_permits_due();
                self.all_dirty();
            }
            (GROUP, "Hold") => self.hold_gone(&id.name),
            // Its objects stay federated until the hub starts anew: nothing is deleted by accident.
            (GROUP, "FederatedType") => {}
            (GROUP, "PlacementPolicy") => {
                let namespace = id.namespace.clone().unwrap_or_default();
                let key = (namespace.clone(), id.name.clone());
                self.policies.remove(&key);
                self.unreadable_policies.remove(&key);
                self.namespace_dirty(&namespace);
            }
            _ => self.source_gone(id),
        }
    }

    fn cluster_changed(&mut self, object: Value) {
        let Ok(cluster) = serde_json::from_value::<Cluster>(object) else { return };
        let name: Arc<str> = cluster.metadata.name.clone().unwrap_or_default().into();
        let facts = facts(&cluster);
        let leaving = |member: &Member| member.leaving();
        match self.members.get_mut(&name) {
            None => {
                self.members.insert(name.clone(), Member::new(cluster));
                self.clusters.insert(name.to_string(), facts);
                self.all_dirty();
            }
            Some(member) => {
                let before = leaving(member);
                let moved = cluster.spec.uid.is_some()
                    && member
                        .recorded_uid()
                        .is_some_and(|known| Some(known) != cluster.spec.uid.as_deref());
                member.cluster = cluster;
                if moved {
                    // Another cluster: nothing that was known of the old one is true of it.
                    member.tombstones.clear();
                    (member.connected_with, member.uid) = (None, None);
                    for root in self.roots.values_mut() {
                        root.reports.remove(&name);
                        root.desired.remove(&name);
                        root.memory.holders.remove(&name);
                    }
                    self.dirty.extend(self.roots.keys().cloned());
                }
                let relabelled = member.facts != facts || leaving(member) != before;
                member.facts = facts.clone();
                if relabelled {
                    self.clusters.insert(name.to_string(), facts);
                    self.all_dirty();
                }
            }
        }
        self.reconnect = true;
        self.permits_due.insert(name.clone());
        self.record_member(&name);
    }

    fn type_changed(&mut self, object: Value) {
        let Ok(federated) = serde_json::from_value::<FederatedType>(object) else { return };
        let leaf = leaf_kind(&federated.spec);
        if self.sources.contains_key(&leaf) {
            return;
        }
        self.federate_kind(&leaf);
        let api = self.options.api.clone();
        self.watchers.spawn(async move {
            if let Err(error) = crate::setup::enable(&api, &federated).await {
                tracing::warn!(%error, "a type cannot be federated");
            }
        });
    }

    fn policy_changed(&mut self, object: Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = (text("namespace"), text("name"));
        let namespace = key.0.clone();
        let policy = match serde_json::from_value::<PlacementPolicy>(object) {
            Ok(policy) => policy,
            Err(error) => {
                self.unreadable_policies.insert(key, format!("cannot be read: {error}"));
                return self.namespace_dirty(&namespace);
            }
        };
        if self.unreadable_policies.remove(&key).is_some() {
            self.namespace_dirty(&namespace);
        }
        let old = self.policies.insert(key.clone(), policy.clone());
        self.records.push_later(Record::Policy(key), Instant::now() + GATHER);
        if old.is_none_or(|old| old.spec != policy.spec) {
            self.namespace_dirty(&namespace);
        }
    }

    fn source_changed(&mut self, kind: &Arc<Kind>, object: Value) {
        let id = identity(&object, kind);
        match (kind.group(), kind.kind.as_str()) {
            ("", "Namespace") => {
                let labels = serde_json::from_value(object["metadata"]["labels"].clone());
                let labels = labels.unwrap_or_default();
                if self.namespaces.insert(id.name.clone(), labels)
                    != self.namespaces.get(&id.name).cloned()
                {
                    self.namespace_dirty(&id.name.clone());
                }
                self.namespace_phase(&id.name, &object);
                if id.name == NAMESPACE {
                    self.resume_changed(&object);
                }
            }
            ("", "ConfigMap")
                if id.namespace.as_deref() == Some(NAMESPACE) && id.name == LEDGER =>
            {
                if self.started.is_none() {
                    self.ledger.read(&object);
                }
                return;
            }
            ("", "Secret") if id.namespace.as_deref() == Some(NAMESPACE) => {
                self.secrets.insert(id.name.clone(), secret_data(&object));
                self.reconnect = true;
                return;
            }
            _ => {}
        }
        match self.sources.get(kind) {
            Some(Source::Placement(template) | Source::Override(template)) => {
                let root = ObjectId { kind: template.clone(), ..id.clone() };
                self.parts.insert(id, object);
                self.dirty.insert(Arc::new(root));
            }
            Some(_) => self.root_changed(&id, object),
            None => {}
        }
    }

    fn source_gone(&mut self, id: &ObjectId) {
        let core = id.kind.group().is_empty();
        if core && id.kind.kind == "Secret" && id.namespace.as_deref() == Some(NAMESPACE) {
            self.secrets.remove(&id.name);
            self.reconnect = true;
            return;
        }
        if core && id.kind.kind == "Namespace" {
            self.namespaces.remove(&id.name);
            self.terminating.remove(&id.name);
        }
        match self.sources.get(&id.kind) {
            Some(Source::Placement(template) | Source::Override(template)) => {
                let root = ObjectId { kind: template.clone(), ..id.clone() };
                self.parts.remove(id);
                self.dirty.insert(Arc::new(root));
            }
            _ => self.root_gone(id),
        }
    }

    fn hold_changed(&mut self, object: Value) {
        match serde_json::from_value::<Hold>(object) {
            Ok(hold) => self.hold_written(hold),
            Err(error) => tracing::warn!(%error, "cannot read a Hold; leaving it alone"),
        }
    }

    /// The object of a hold is gone.
    pub(super) fn hold_gone(&mut self, name: &str) {
        for held in self.holds.object_gone(name) {
            self.dirty.insert(Arc::new(held_root(&held, &self.sources)));
        }
        self.write_holds();
    }

    pub(super) fn hold_written(&mut self, hold: Hold) {
        let sources = &self.sources;
        let root_of = |held: &HeldRoot| held_root(held, sources);
        let concerned = self.holds.seen(hold, root_of, limen_sync::clock::now_seconds());
        self.dirty.extend(concerned.into_iter().map(Arc::new));
        self.obey_released_tombstones();
        self.write_holds();
    }

    /// Counts the roots of Namespaces that were being deleted before this hub started.
    pub(super) fn count_terminating(&mut self) {
        for (name, roots) in &mut self.terminating {
            let inside = |(id, root): &(&Arc<ObjectId>, &Root)| {
                id.namespace.as_ref() == Some(name) && root.has_finalizer()
            };
            *roots = self.roots.iter().filter(inside).count();
        }
    }

    /// Notes that a Namespace is being deleted, and how many roots were in it then.
    fn namespace_phase(&mut self, name: &str, object: &Value) {
        let deleting = object["metadata"]["deletionTimestamp"].is_string();
        if !deleting {
            self.terminating.remove(name);
        } else if !self.terminating.contains_key(name) {
            let inside = |(id, root): &(&Arc<ObjectId>, &Root)| {
                id.namespace.as_deref() == Some(name) && root.has_finalizer()
            };
            let roots = self.roots.iter().filter(inside).count();
            self.terminating.insert(name.to_owned(), roots);
            self.namespace_dirty(name);
        }
    }

    pub(super) fn all_dirty(&mut self) {
        self.dirty.extend(self.roots.keys().cloned());
    }

    fn namespace_dirty(&mut self, namespace: &str) {
        let inside = |id: &&Arc<ObjectId>| id.namespace.as_deref() == Some(namespace);
        self.dirty.extend(self.roots.keys().filter(inside).cloned());
    }
}

/// The root that a hold names.
fn held_root(held: &HeldRoot, sources: &Sources) -> ObjectId {
    let group = held.api_version.split_once('/').map_or("", |(group, _)| group);
    let fits = |kind: &&Arc<Kind>| kind.group() == group && kind.kind == held.kind;
    let kind = sources.keys().find(fits).cloned().unwrap_or_else(|| {
        limen_api::kind((&held.api_version, &held.kind, "", held.namespace.is_some()))
    });
    ObjectId { kind, namespace: held.namespace.clone(), name: held.name.clone() }
}

/// Whether planning of other roots depends on a kind.
fn is_input(kind: &Arc<Kind>, sources: &Sources) -> bool {
    let part = matches!(sources.get(kind), Some(Source::Placement(_) | Source::Override(_)));
    let namespaces = kind.group().is_empty() && kind.kind == "Namespace";
    part || namespaces || own_kinds().contains(kind)
}

/// What a Secret holds, decoded.
pub(crate) fn secret_data(object: &Value) -> SecretData {
    let entries = object["data"].as_object().into_iter().flatten();
    entries
        .filter_map(|(key, value)| {
            Some((key.clone(), BASE64_STANDARD.decode(value.as_str()?).ok()?))
        })
        .collect::<BTreeMap<_, _>>()
}
