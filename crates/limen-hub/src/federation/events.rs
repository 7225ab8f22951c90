//! Events of the hub's watches, as far as they concern federation.

use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use limen_api::{Cluster, FederatedType, HeldRoot, Hold, NAMESPACE, PlacementPolicy};
use limen_core::federated::{Kind, ObjectId};
use serde::Deserialize;
use serde_json::Value;

use super::removals::LEDGER;
use super::{Federation, GATHER};
use crate::clusters::{Member, facts};
use crate::connect::SecretData;
use crate::hub_kind::HubKind;
use crate::kinds::{Source, Sources, leaf_kind};
use crate::outbox::Record;
use crate::roots::Root;

impl Federation {
    /// Every object of a kind that is remembered, by namespace and name.
    pub(crate) fn known(&self, kind: HubKind, of: &Kind) -> Vec<(String, String)> {
        let bare = |name: &str| (String::new(), name.to_owned());
        let full = |id: &ObjectId| (id.namespace.clone().unwrap_or_default(), id.name.clone());
        match kind {
            HubKind::Cluster => self.members.keys().map(|name| bare(name)).collect(),
            HubKind::Hold => self.holds.names().map(|name| bare(name)).collect(),
            HubKind::PlacementPolicy => {
                self.policies.keys().chain(self.unreadable_policies.keys()).cloned().collect()
            }
            _ => {
                let roots = self.roots.keys().map(|id| &**id).chain(self.parts.keys());
                let roots = roots.filter(|id| *id.kind == *of).map(full);
                let secrets = self.secrets.keys().filter(|_| kind == HubKind::Secret);
                roots.chain(secrets.map(|name| (NAMESPACE.to_owned(), name.clone()))).collect()
            }
        }
    }

    pub(crate) fn changed(&mut self, kind: HubKind, id: &ObjectId, object: &Arc<Value>) {
        match kind {
            HubKind::FederatedType => self.type_changed(object),
            HubKind::Hold => self.hold_changed(object),
            HubKind::PlacementPolicy => self.policy_changed(object),
            HubKind::Namespace => {
                self.namespace_changed(&id.name, object);
                self.source_changed(id, object);
            }
            HubKind::ConfigMap if is_in_system(id) && id.name == LEDGER => {
                if self.started.is_none() {
                    self.ledger.read(object);
                }
            }
            HubKind::Secret if is_in_system(id) => {
                self.secrets.insert(id.name.clone(), secret_data(object));
                self.reconnect = true;
            }
            _ => self.source_changed(id, object),
        }
    }

    pub(crate) fn gone(&mut self, kind: HubKind, id: &ObjectId) {
        match kind {
            HubKind::Hold => self.hold_gone(&id.name),
            // Its objects stay federated until the hub starts anew: nothing is deleted by accident.
            HubKind::FederatedType => {}
            HubKind::PlacementPolicy => {
                let namespace = id.namespace.clone().unwrap_or_default();
                let key = (namespace.clone(), id.name.clone());
                self.policies.remove(&key);
                self.unreadable_policies.remove(&key);
                self.namespace_dirty(&namespace);
            }
            HubKind::Secret if is_in_system(id) => {
                self.secrets.remove(&id.name);
                self.reconnect = true;
            }
            HubKind::Namespace => {
                self.namespaces.remove(&id.name);
                self.terminating.remove(&id.name);
                self.source_gone(id);
            }
            _ => self.source_gone(id),
        }
    }

    pub(crate) fn cluster_gone(&mut self, name: &str) {
        self.members.remove(name);
        self.clusters.remove(name);
        for root in self.roots.values_mut() {
            root.reports.remove(name);
            root.desired.remove(name);
            root.memory.holders.remove(name);
        }
        self.all_permits_due();
        self.all_dirty();
    }

    pub(crate) fn cluster_changed(&mut self, name: &Arc<str>, cluster: Arc<Cluster>) {
        let facts = facts(&cluster);
        let leaving = |member: &Member| member.leaving();
        match self.members.get_mut(name) {
            None => {
                self.members.insert(name.clone(), Member::new(cluster));
                self.clusters.insert(name.clone(), facts);
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
                        root.reports.remove(name);
                        root.desired.remove(name);
                        root.memory.holders.remove(name);
                    }
                    self.dirty.extend(self.roots.keys().cloned());
                }
                let relabelled = member.facts != facts || leaving(member) != before;
                member.facts = facts.clone();
                if relabelled {
                    self.clusters.insert(name.clone(), facts);
                    self.all_dirty();
                }
            }
        }
        self.reconnect = true;
        self.permits_due.insert(name.clone());
        self.record_member(name);
    }

    fn type_changed(&mut self, object: &Value) {
        let Ok(federated) = FederatedType::deserialize(object) else { return };
        let leaf = leaf_kind(&federated.spec);
        if self.sources.contains_key(&leaf) {
            return;
        }
        self.federate_kind(&leaf);
        let api = self.options.api.clone();
        self.effects.spawn(async move {
            if let Err(error) = crate::setup::enable(&api, &federated).await {
                tracing::warn!(%error, "a type cannot be federated");
            }
        });
    }

    fn policy_changed(&mut self, object: &Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = (text("namespace"), text("name"));
        let namespace = key.0.clone();
        let policy = match PlacementPolicy::deserialize(object) {
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
        self.records.push_later(Record::PlacementPolicy(key), Instant::now() + GATHER);
        if old.is_none_or(|old| old.spec != policy.spec) {
            self.namespace_dirty(&namespace);
        }
    }

    fn namespace_changed(&mut self, name: &str, object: &Value) {
        let labels = serde_json::from_value(object["metadata"]["labels"].clone());
        let labels = labels.unwrap_or_default();
        if self.namespaces.get(name) != Some(&labels) {
            self.namespaces.insert(name.to_owned(), labels);
            self.namespace_dirty(name);
        }
        self.namespace_phase(name, object);
        if name == NAMESPACE {
            self.resume_changed(object);
        }
    }

    /// A root, or a part of one, is new or changed.
    fn source_changed(&mut self, id: &ObjectId, object: &Arc<Value>) {
        match self.sources.get(&id.kind) {
            Some(Source::Placement(template) | Source::Override(template)) => {
                let root = ObjectId { kind: template.clone(), ..id.clone() };
                self.parts.insert(id.clone(), object.clone());
                self.dirty.insert(Arc::new(root));
            }
            Some(_) => self.root_changed(id, object.clone()),
            None => {}
        }
    }

    fn source_gone(&mut self, id: &ObjectId) {
        match self.sources.get(&id.kind) {
            Some(Source::Placement(template) | Source::Override(template)) => {
                let root = ObjectId { kind: template.clone(), ..id.clone() };
                self.parts.remove(id);
                self.dirty.insert(Arc::new(root));
            }
            _ => self.root_gone(id),
        }
    }

    fn hold_changed(&mut self, object: &Value) {
        match Hold::deserialize(object) {
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

    /// A kind cannot be watched, or can be again. Nothing is planned while an input is lost.
    pub(crate) fn input_lost(&mut self, kind: &Arc<Kind>, lost: bool) {
        let part =
            matches!(self.sources.get(kind), Some(Source::Placement(_) | Source::Override(_)));
        match lost && (part || HubKind::of(kind).is_for_planning()) {
            true => drop(self.lost_inputs.insert(kind.clone())),
            false => drop(self.lost_inputs.remove(kind)),
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

fn is_in_system(id: &ObjectId) -> bool {
    id.namespace.as_deref() == Some(NAMESPACE)
}

/// What a Secret holds, decoded.
fn secret_data(object: &Value) -> SecretData {
    let entries = object["data"].as_object().into_iter().flatten();
    entries
        .filter_map(|(key, value)| {
            Some((key.clone(), BASE64_STANDARD.decode(value.as_str()?).ok()?))
        })
        .collect::<BTreeMap<_, _>>()
}
