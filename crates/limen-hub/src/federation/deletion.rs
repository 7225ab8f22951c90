//! Roots that are being deleted: their leaves go, or are let go, and then the root may go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limen_api::LeafState;
use limen_core::federated::{ObjectId, OnDelete};
use limen_core::lifecycle::Cause;
use limen_sync::Desired;

use super::Federation;
use super::planning::{Outlook, is_unserved, may_hold};
use super::tombstones::tombstone;
use crate::outbox::Record;
use crate::roots::{Fate, Root};

impl Federation {
    /// Outlook of a root that is being deleted, once its fate is known.
    pub(super) fn deletion(&mut self, id: &Arc<ObjectId>, root: &mut Root) -> Option<Outlook> {
        if !root.has_finalizer() {
            return None;
        }
        if !root.orphaned && root.fate != Fate::Known {
            if root.fate == Fate::Unasked {
                root.fate = Fate::Asked;
                self.unsure.push(id.clone());
            }
            return None;
        }
        // A Namespace is emptied on the hub first: its leaf goes when nothing is left in it.
        let is_namespace = id.kind.group().is_empty() && id.kind.kind == "Namespace";
        if is_namespace && self.has_roots(&id.name) {
            return None;
        }
        let on_delete = *root.deleting.get_or_insert(root.on_delete());
        let orphan = on_delete == OnDelete::Orphan;
        let leaf = self.leaf_of(id);
        let removal = root.desire(if orphan { Desired::Orphan } else { Desired::Nothing });
        let (mut set, mut losing) = (BTreeMap::new(), BTreeSet::new());
        // Leaves of a cluster that has another name are let go of under that name.
        let ours = self.members.iter().filter(|(_, member)| !member.is_anothers());
        for (name, member) in ours {
            let deleting = root.reports.get(name).and_then(|report| report.state);
            let deleting = deleting == Some(LeafState::Deleting);
            let before = root.desired.get(name);
            if before.is_none() && !deleting && !may_hold(root, name, member, &leaf.kind) {
                continue;
            }
            if self.predecessor(root, name, member, &leaf).is_some() {
                let last = self.last_desire_of_predecessor(root, name, member, &leaf);
                set.extend(last.map(|last| (name.clone(), last)));
                continue;
            }
            // A member that does not serve the kind has nothing to let go now: its tombstone waits.
            if is_of_another(root, name) || (orphan && is_unserved(root, name, member, &leaf.kind))
            {
                continue;
            }
            let sent = before.is_some_and(|before| {
                before.root_uid == removal.root_uid && before.desired == removal.desired
            });
            match orphan || sent {
                true => drop(set.insert(name.clone(), removal.clone())),
                false => drop(losing.insert(name.clone())),
            }
        }
        let namespace = id.namespace.as_ref().unwrap_or(&id.name);
        let cause = match self.terminating.get(namespace) {
            // The contents of the Namespace have been judged and are gone.
            Some(&roots) if !is_namespace => Cause::Namespace { roots },
            _ => Cause::Named,
        };
        let blocked = self.blocked(root, &leaf.kind);
        Some(Outlook { set, losing, blocked, removal, cause, keeping: 0 })
    }

    /// Whether roots of a namespace may still have leaves.
    fn has_roots(&self, namespace: &str) -> bool {
        let inside = |(id, root): (&Arc<ObjectId>, &Root)| {
            id.namespace.as_deref() == Some(namespace) && root.has_finalizer()
        };
        self.roots.iter().any(inside)
    }

    /// A root is gone: the Namespace that waited for it may go on.
    pub(super) fn namespace_emptied(&mut self, id: &ObjectId) {
        let Some(namespace) =
            id.namespace.as_ref().filter(|name| self.terminating.contains_key(*name))
        else {
            return;
        };
        let is_home = |home: &&Arc<ObjectId>| {
            home.kind.group().is_empty() && home.kind.kind == "Namespace" && home.name == *namespace
        };
        let home = self.roots.keys().find(is_home).cloned();
        self.dirty.extend(home);
    }

    /// Notes what is left in members, with tombstones for those that are away or do not serve the
    /// kind any more.
    pub(super) fn finish_deletion(
        &mut self,
        id: &Arc<ObjectId>,
        root: &mut Root,
        losing: &BTreeSet<Arc<str>>,
        going: &BTreeSet<Arc<str>>,
    ) {
        let leaf = self.leaf_of(id);
        let release = root.deleting == Some(OnDelete::Orphan);
        let mut left = false;
        let ours = self.members.iter_mut().filter(|(_, member)| !member.is_anothers());
        for (name, member) in ours {
            let waits = losing.contains(name) && !going.contains(name);
            let state = root.reports.get(name).and_then(|report| report.state);
            let held = root.desired.contains_key(name)
                || (may_hold(root, name, member, &leaf.kind) && !is_of_another(root, name))
                || state == Some(LeafState::Deleting);
            let known = member.knows(&leaf.kind);
            let away = member.away() || is_unserved(root, name, member, &leaf.kind);
            if waits || (!away && (held || !known)) {
                left = true;
                continue;
            }
            if !away || (!held && known) {
                continue;
            }
            // Also what an earlier hub sent there, which is not known here.
            let tombstone = tombstone(&leaf, root.uid(), release);
            if !member.tombstones.contains(&tombstone) {
                member.tombstones.push(tombstone);
                self.records.push(Record::Member(name.clone()));
            }
            // It is on disk before the root may go.
            let written = member.written.as_ref();
            left |= written.is_none_or(|written| written.tombstones != member.tombstones);
        }
        root.finished = !left;
    }
}

/// Whether a member holds a leaf of a root of another uid in the place of a root's own.
fn is_of_another(root: &Root, name: &Arc<str>) -> bool {
    let held_for = root.reports.get(name).and_then(|report| report.held_for.as_deref());
    held_for.is_some_and(|uid| *uid != *root.uid())
}
