//! The meaning of a changed root: which members, which leaf, under which policy.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::ResourceExt;
use limen_api::dialect::{self, DialectError};
use limen_api::{OnDeleteSpec, PlacementPolicy};
use limen_core::federated::{Federated, Kind, ObjectId, OnConflict, OnDelete, Placement};
use limen_core::lifecycle::{Governance, governance};
use limen_core::selector::Labels;
use serde_json::Value;

use super::Federation;
use crate::kinds::Source;
use crate::roots::Root;

impl Federation {
    /// Reads a root anew. Returns false when nothing is left to plan for it.
    pub(super) fn interpret(&mut self, id: &Arc<ObjectId>, root: &mut Root) -> bool {
        self.note_policy(id, root);
        let understood = self.understand(id, root);
        let unknown = understood.is_err() && self.is_policy_unknown(id, &root.object);
        // With its namespace a policy may go before the root does.
        let going = id.namespace.as_ref().is_some_and(|name| self.terminating.contains_key(name));
        root.policy_unknown = unknown || (root.policy_unknown && going);
        if root.policy_unknown {
            root.memory.on_delete = None;
        }
        root.ended = matches!(understood, Ok(None));
        match understood {
            Ok(Some(federated)) => root.federated = self.claim(id, federated),
            Ok(None) if root.desired.is_empty() && !root.has_finalizer() => {
                self.disown(id, id);
                root.ended = false;
                root.federated = Err(String::new());
                root.plan = limen_core::plan::Plan::default();
                return false;
            }
            Ok(None) => root.federated = self.claim(id, nowhere(id, root)),
            Err(error) => {
                let error = error.to_string();
                if root.federated.as_ref().err() != Some(&error) {
                    root.draft(true, "NotUnderstood", error.clone(), None);
                }
                root.federated = Err(error);
                // Leaves stay with the root that has them.
                if root.has_finalizer() {
                    let leaf = self.leaf_of(id);
                    self.owners.entry(leaf).or_insert_with(|| id.clone());
                }
            }
        }
        self.take_reports(id, root);
        true
    }

    /// Takes what members reported of a root's leaves before the root was read.
    fn take_reports(&mut self, id: &Arc<ObjectId>, root: &mut Root) {
        if self.members.values().all(|member| member.unowned.is_empty()) {
            return;
        }
        let leaf = self.leaf_of(id);
        if self.owners.get(&leaf) != Some(id) {
            return;
        }
        for (name, member) in &mut self.members {
            if let Some(report) = member.unowned.remove(&leaf) {
                root.reports.entry(name.clone()).or_insert(report);
            }
        }
    }

    /// Meaning of a root, if its leaf belongs to no other; else it waits until that one is no root
    /// any more.
    fn claim(
        &mut self,
        id: &Arc<ObjectId>,
        federated: Federated,
    ) -> Result<Arc<Federated>, String> {
        self.use_kind(&federated.leaf.kind);
        let owner = self.owners.entry(federated.leaf.clone()).or_insert_with(|| id.clone());
        if owner == id {
            return Ok(Arc::new(federated));
        }
        let error = format!("its leaves already belong to {owner}");
        self.rivals.entry(federated.leaf).or_default().insert(id.clone());
        Err(error)
    }

    /// A leaf belongs to this root no longer: whoever else claims it may have it.
    pub(super) fn disown(&mut self, leaf: &ObjectId, id: &ObjectId) {
        if self.owners.get(leaf).is_some_and(|owner| **owner == *id) {
            self.owners.remove(leaf);
            self.dirty.extend(self.rivals.remove(leaf).into_iter().flatten());
        }
    }

    /// The meaning of an object; nothing when it is no root.
    fn understand(
        &self,
        id: &ObjectId,
        root: &Root,
    ) -> Result<Option<Federated>, dialect::DialectError> {
        let object = &root.object;
        let federated = match self.sources.get(&id.kind) {
            Some(Source::OneObject(leaf)) => dialect::one_object(object, &id.kind, leaf)?,
            Some(Source::Template(leaf)) => {
                let part = |wanted: fn(&Source) -> Option<&Arc<Kind>>| {
                    let kind =
                        self.sources.iter().find(|(_, source)| wanted(source) == Some(&id.kind))?;
                    self.parts
                        .get(&ObjectId { kind: kind.0.clone(), ..id.clone() })
                        .map(Arc::as_ref)
                };
                let placing = part(|source| match source {
                    Source::Placement(template) => Some(template),
                    _ => None,
                });
                let overriding = part(|source| match source {
                    Source::Override(template) => Some(template),
                    _ => None,
                });
                dialect::three_objects(object, placing, overriding, &id.kind, leaf)?
            }
            Some(Source::Native) => {
                if let Some(error) = self.unreadable_policy(id) {
                    return Err(error);
                }
                let policy = self.policy_of(id, object)?;
                let namespace = id.namespace.as_ref().unwrap_or(&id.name);
                let labels = self.namespaces.get(namespace).cloned().unwrap_or_default();
                let home = self.options.home;
                if !dialect::is_root(object, &id.kind, home, policy.is_some(), &labels) {
                    return Ok(None);
                }
                dialect::native(object, &id.kind, policy)?
            }
            _ => return Ok(None),
        };
        Ok(Some(federated))
    }

    /// Whether a native root is not understood and its policy may keep the leaves: because that is
    /// unreadable too, or because it says so.
    fn is_policy_unknown(&self, id: &ObjectId, object: &Value) -> bool {
        matches!(self.sources.get(&id.kind), Some(Source::Native))
            && (self.unreadable_policy(id).is_some()
                || match self.policy_of(id, object) {
                    Ok(policy) => policy.is_some_and(|one| {
                        one.spec.on_delete == Some(OnDeleteSpec::Orphan)
                            || dialect::check_policy(one).is_err()
                    }),
                    Err(_) => true,
                })
    }

    /// A policy of the namespace that cannot be read may be about any of its roots.
    fn unreadable_policy(&self, id: &ObjectId) -> Option<DialectError> {
        let namespace = id.namespace.clone()?;
        let first = (namespace.clone(), String::new());
        let ((of, name), reason) = self.unreadable_policies.range(first..).next()?;
        (*of == namespace).then(|| DialectError::Field {
            field: format!("PlacementPolicy {name}"),
            reason: reason.clone(),
        })
    }

    /// A root whose policy is gone keeps its placement. Returns the members that it would gain.
    pub(super) fn keep_placement(
        &self,
        root: &Root,
        federated: &mut Federated,
        released: bool,
    ) -> Option<BTreeSet<Arc<str>>> {
        let selects = |(name, facts): (&Arc<str>, &limen_core::placement::ClusterFacts)| {
            federated.placement.selects(name, facts).then(|| name.clone())
        };
        let selected: BTreeSet<Arc<str>> = self.clusters.iter().filter_map(selects).collect();
        let before = root.memory.governed.as_ref();
        match governance(before, root.policy.is_some(), &selected, released) {
            Governance::Current => None,
            Governance::Kept { gaining } => {
                let placed =
                    before.map(|before| before.placed.iter().map(ToString::to_string).collect());
                federated.placement = Placement::Clusters(placed.unwrap_or_default());
                if let Some(on_delete) = root.memory.on_delete {
                    federated.on_delete = on_delete;
                }
                Some(gaining)
            }
        }
    }

    /// Notes which policy a root goes by, for the record of that policy.
    fn note_policy(&mut self, id: &ObjectId, root: &mut Root) {
        let native = matches!(self.sources.get(&id.kind), Some(Source::Native));
        let name = match native && !self.policies.is_empty() && self.is_root(id, &root.object) {
            true => self.policy_of(id, &root.object).ok().flatten().map(ResourceExt::name_any),
            false => None,
        };
        if root.policy != name {
            let before = std::mem::replace(&mut root.policy, name);
            self.record_policy(id, before.as_deref());
            self.record_policy(id, root.policy.as_deref());
        }
    }

    /// Whether a native object is a root.
    fn is_root(&self, id: &ObjectId, object: &Value) -> bool {
        let governed = self.policy_of(id, object).is_ok_and(|policy| policy.is_some());
        let labels = self.namespaces.get(id.namespace.as_ref().unwrap_or(&id.name));
        let nothing = Labels::default();
        let labels = labels.unwrap_or(&nothing);
        dialect::is_root(object, &id.kind, self.options.home, governed, labels)
    }

    /// The first policy, by name, that is about an object.
    fn policy_of(
        &self,
        id: &ObjectId,
        object: &Value,
    ) -> Result<Option<&PlacementPolicy>, dialect::DialectError> {
        let Some(namespace) = &id.namespace else { return Ok(None) };
        let first = (namespace.clone(), String::new());
        for ((of, _), policy) in self.policies.range(first..) {
            if of != namespace {
                break;
            }
            if dialect::governs(policy, object, &id.kind)? {
                return Ok(Some(policy));
            }
        }
        Ok(None)
    }

    /// The kind of a root's leaves.
    pub(super) fn leaf_kind<'a>(&'a self, id: &'a ObjectId) -> &'a Arc<Kind> {
        match self.sources.get(&id.kind) {
            Some(Source::OneObject(leaf) | Source::Template(leaf)) => leaf,
            _ => &id.kind,
        }
    }

    /// The leaf of a root, whether or not the root is understood: leaves have its name.
    pub(super) fn leaf_of(&self, id: &ObjectId) -> ObjectId {
        let Some(Source::OneObject(leaf) | Source::Template(leaf)) = self.sources.get(&id.kind)
        else {
            return id.clone();
        };
        let namespace = id.namespace.clone().filter(|_| leaf.namespaced);
        ObjectId { kind: leaf.clone(), namespace, name: id.name.clone() }
    }
}

/// Meaning of an object that was a root and is none any more: its leaves go. Only native
/// objects can be no roots, and those are like their leaves.
fn nowhere(id: &ObjectId, root: &Root) -> Federated {
    let known = root.federated.as_ref().map(|known| Federated::clone(known));
    let known = known.unwrap_or_else(|_| Federated {
        root: id.clone(),
        root_uid: root.uid().to_owned(),
        leaf: id.clone(),
        template: (&*root.object).into(),
        placement: Placement::Nowhere,
        overrides: Vec::new(),
        on_conflict: OnConflict::Abort,
        on_delete: OnDelete::Cascade,
        waves: Vec::new(),
    });
    Federated { placement: Placement::Nowhere, ..known }
}
