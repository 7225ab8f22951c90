//! From a changed root to wishes for members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::Instant;

use kube::ResourceExt;
use limen_api::dialect;
use limen_api::{LeafState, PlacementPolicy, Tombstone};
use limen_core::federated::{Federated, Kind, ObjectId, OnConflict, OnDelete, Placement};
use limen_core::hold::{Removal, judge, too_much};
use limen_core::merge::{LeafStatus, healthy};
use limen_core::plan::{Plan, plan};
use limen_core::rollout::{Progress, open_wave, wave_of};
use limen_core::selector::Labels;
use limen_sync::{Desired, DesiredLeaf};
use serde_json::Value;

use super::{MOMENT, World};
use crate::clusters::{Leaving, Member};
use crate::kinds::Source;
use crate::roots::{Fate, Root};

impl World {
    pub(super) fn root_changed(&mut self, id: &ObjectId, object: Value) {
        let object = Arc::new(object);
        if let Some(root) = self.roots.get_mut(id) {
            let same = root.same_intent(&object);
            if root.uid() != object["metadata"]["uid"] {
                // Another object of the same name: what was known of the old one is not true of it.
                let reports = std::mem::take(&mut root.reports);
                *root = Root::new(object.clone(), Err(String::new()));
                root.reports = reports;
            }
            root.renew(object);
            if same {
                return;
            }
        } else {
            let mut root = Root::new(object.clone(), Err(String::new()));
            root.renew(object);
            self.roots.insert(Arc::new(id.clone()), root);
        }
        if id.kind.kind == "HorizontalPodAutoscaler" {
            self.note_scaling(id);
        }
        self.dirty.insert(Arc::new(id.clone()));
    }

    pub(super) fn root_gone(&mut self, id: &ObjectId) {
        let Some(root) = self.roots.remove(id) else { return };
        self.scaled.retain(|_, by| **by != *id);
        self.record_policy(id, root.policy.as_deref());
        let leaf = Arc::new(self.leaf_of(id));
        self.disown(&leaf, id);
        let root_uid: Arc<str> = root.uid().into();
        let release = root.on_delete() == OnDelete::Orphan;
        let buried = tombstone(&leaf, &root_uid, release);
        if root.finished {
            self.graves.bury(buried.clone(), Instant::now());
        }
        for (name, member) in &mut self.members {
            let Some(syncer) = &member.syncer else { continue };
            if member.tombstones.contains(&buried) {
                syncer.desire(leaf.clone(), Some(last_wish(&buried)));
                continue;
            }
            // Without our finalizer nothing was there, or somebody took it off: leaves are let be.
            if root.wishes.contains_key(name) {
                syncer.desire(leaf.clone(), None);
            }
            if let Some(report) = root.reports.get(name)
                && report.held_for.is_some()
            {
                member.unowned.insert(leaf.clone(), report.clone());
            }
        }
    }

    /// A workload under an autoscaler keeps each member's count.
    fn note_scaling(&mut self, id: &ObjectId) {
        let Some(root) = self.roots.get(id) else { return };
        let target = &root.object["spec"]["scaleTargetRef"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let namespace = id.namespace.clone().unwrap_or_default();
        let key = (namespace, text(&target["kind"]), text(&target["name"]));
        let inside = |other: &&Arc<ObjectId>| {
            other.namespace == id.namespace && other.kind.kind == key.1 && other.name == key.2
        };
        self.dirty.extend(self.roots.keys().filter(inside).cloned());
        self.scaled.insert(key, Arc::new(id.clone()));
    }

    /// Plans every dirty root. That one is no root any more can make others dirty.
    pub(super) fn plan_dirty(&mut self) {
        while !self.dirty.is_empty() {
            for id in self.take_dirty() {
                if let Some(mut root) = self.roots.remove(&id) {
                    self.plan_root(&id, &mut root);
                    self.roots.insert(id, root);
                }
            }
        }
    }

    /// Every dirty root, in the order in which they may claim leaves. So a hub that starts anew
    /// leaves them with whom they were.
    fn take_dirty(&mut self) -> Vec<Arc<ObjectId>> {
        let dirty = std::mem::take(&mut self.dirty);
        let known = dirty.iter().filter_map(|id| Some((self.roots.get(id)?.seniority(), id)));
        let mut ordered: Vec<_> = known.collect();
        ordered.sort_unstable();
        ordered.into_iter().map(|(_, id)| id.clone()).collect()
    }

    fn plan_root(&mut self, id: &Arc<ObjectId>, root: &mut Root) {
        self.note_policy(id, root);
        let understood = self.understand(id, root);
        root.ended = matches!(understood, Ok(None));
        match understood {
            Ok(Some(federated)) => root.federated = self.claim(id, federated),
            Ok(None) if root.wishes.is_empty() && !root.has_finalizer() => {
                return self.leave_alone(id, root);
            }
            Ok(None) => root.federated = self.claim(id, nowhere(id, root)),
            Err(error) => {
                let error = error.to_string();
                if root.federated.as_ref().err() != Some(&error) {
                    root.draft(true, "NotUnderstood", error.clone(), None);
                }
                root.federated = Err(error);
                // What members hold of it stays its own.
                if root.has_finalizer() {
                    let leaf = self.leaf_of(id);
                    self.owners.entry(leaf).or_insert_with(|| id.clone());
                }
            }
        }
        self.record_later(id);
        if root.being_deleted() {
            return self.plan_deletion(id, root);
        }
        // What another root has keeps nobody from being no root any more.
        root.finished = root.ended && root.federated.is_err();
        let Ok(federated) = root.federated.clone() else { return };
        root.plan = plan(&federated, &self.clusters, &self.hub, &self.handed_over(&federated));
        if !root.has_finalizer() {
            // Leaves come after the finalizer, so that none can be forgotten.
            if !root.plan.leaves.is_empty() {
                self.record_now(id);
            }
            return;
        }
        self.send_wishes(id, root, &federated);
        root.finished = root.ended && self.is_nowhere(root, &federated.leaf.kind);
        if root.finished {
            self.record_now(id);
        }
    }

    /// What a root means, if its leaf belongs to no other; else it waits until that one is no root
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
    fn disown(&mut self, leaf: &ObjectId, id: &ObjectId) {
        if self.owners.get(leaf).is_some_and(|owner| **owner == *id) {
            self.owners.remove(leaf);
            self.dirty.extend(self.rivals.remove(leaf).into_iter().flatten());
        }
    }

    /// Not a root, and never was one; or members hold nothing of it any more.
    fn leave_alone(&mut self, id: &Arc<ObjectId>, root: &mut Root) {
        self.disown(id, id);
        root.ended = false;
        root.federated = Err(String::new());
        root.plan = Plan::default();
    }

    /// Whether it is certain that members hold nothing of a root. One that is away has nothing that
    /// it did not have or was not asked for before.
    fn is_nowhere(&self, root: &Root, kind: &Kind) -> bool {
        let sure = |member: &Member| member.knows(kind);
        root.wishes.is_empty() && root.reports.is_empty() && self.members.values().all(sure)
    }

    /// What an object means; nothing when it is no root.
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
                    self.parts.get(&ObjectId { kind: kind.0.clone(), ..id.clone() })
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

    /// The fields that another controller in each member is to own.
    fn handed_over(&self, federated: &Federated) -> BTreeMap<String, Vec<String>> {
        let leaf = &federated.leaf;
        let key =
            (leaf.namespace.clone().unwrap_or_default(), leaf.kind.kind.clone(), leaf.name.clone());
        match self.scaled.contains_key(&key) {
            true => self
                .clusters
                .keys()
                .map(|name| (name.clone(), vec!["/spec/replicas".to_owned()]))
                .collect(),
            false => BTreeMap::new(),
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

    /// Tells members what has changed for them.
    fn send_wishes(&mut self, id: &Arc<ObjectId>, root: &mut Root, federated: &Arc<Federated>) {
        let root_uid: Arc<str> = root.uid().into();
        let open = self.open_wave(root, federated);
        root.waiting.clear();
        let mut wishes: BTreeMap<Arc<str>, DesiredLeaf> = BTreeMap::new();
        let mut losing: BTreeSet<Arc<str>> = BTreeSet::new();
        for (name, member) in &self.members {
            let before = root.wishes.get(name);
            let held = root.reports.get(name).is_some_and(|report| report.held_for.is_some());
            match (member.leaving(), root.plan.leaves.get(&**name)) {
                (Some(leaving), _) => {
                    let desired = match leaving {
                        Leaving::Keep => Desired::Orphan,
                        Leaving::Delete => Desired::Nothing,
                    };
                    if held || before.is_some() {
                        wishes.insert(name.clone(), desired_leaf(&root_uid, desired));
                    }
                }
                (None, _) if root.plan.refused.contains_key(&**name) => {
                    wishes.extend(before.map(|before| (name.clone(), before.clone())));
                }
                (None, Some(_)) if wave_of(&federated.waves, name, &self.clusters) > open => {
                    root.waiting.insert(name.clone());
                    wishes.extend(before.map(|before| (name.clone(), before.clone())));
                }
                (None, Some(leaf)) => {
                    let (leaf, on_conflict) = (leaf.clone(), federated.on_conflict);
                    let desired = Desired::Leaf { leaf, on_conflict, create: true };
                    let other = |uid: &Arc<str>| *uid != root_uid;
                    let replaces =
                        root.reports.get(name).and_then(|report| report.held_for.clone());
                    let replaces = replaces.filter(other);
                    let desired = DesiredLeaf { replaces, ..desired_leaf(&root_uid, desired) };
                    wishes.insert(name.clone(), desired);
                }
                (None, None) if held => drop(losing.insert(name.clone())),
                (None, None) => match before {
                    Some(DesiredLeaf { desired: Desired::Leaf { .. }, .. }) => {
                        losing.insert(name.clone());
                    }
                    // Asked for already; the member tells when it is done.
                    Some(before) => drop(wishes.insert(name.clone(), before.clone())),
                    None => {}
                },
            }
        }
        self.hold_or_let_go(id, root, &losing);
        for name in losing {
            let wish = match (root.held.is_some(), root.wishes.get(&name)) {
                (true, Some(before)) => before.clone(),
                (true, None) => continue,
                (false, _) => desired_leaf(&root_uid, Desired::Nothing),
            };
            wishes.insert(name, wish);
        }
        self.deliver(root, &federated.leaf, wishes);
    }

    /// Sends the wishes that differ from those of before.
    fn deliver(&self, root: &mut Root, leaf: &ObjectId, wishes: BTreeMap<Arc<str>, DesiredLeaf>) {
        let leaf = Arc::new(leaf.clone());
        for (name, wish) in &wishes {
            if root.wishes.get(name) == Some(wish) {
                continue;
            }
            if let Some(syncer) = self.members.get(name).and_then(|member| member.syncer.as_ref()) {
                syncer.desire(leaf.clone(), Some(wish.clone()));
                root.wished_at = Some(Instant::now());
            }
        }
        root.wishes = wishes;
    }

    fn open_wave(&self, root: &Root, federated: &Federated) -> usize {
        if federated.waves.is_empty() {
            return 0;
        }
        let nothing = Value::Null;
        let progress = root.plan.leaves.iter().map(|(name, leaf)| {
            let report = root.reports.get(name.as_str());
            let status = LeafStatus {
                cluster: name,
                status: report.and_then(|report| report.status.as_deref()).unwrap_or(&nothing),
                current: report.is_some_and(|report| report.current),
            };
            let progress = Progress {
                applied: root.applied(name),
                healthy: healthy(&federated.leaf.kind, &leaf.object["spec"], status),
            };
            (name.clone(), progress)
        });
        open_wave(&federated.waves, &self.clusters, &progress.collect())
    }

    /// Decides whether deletions must wait for a person.
    fn hold_or_let_go(&mut self, id: &Arc<ObjectId>, root: &mut Root, losing: &BTreeSet<Arc<str>>) {
        let before = root.held.take();
        // Members do it one after the other, so that what was let go gets less and less.
        let going_on =
            before.is_none() && root.released().is_some() && losing.is_subset(&root.losing);
        root.losing.clone_from(losing);
        if losing.is_empty() || going_on {
            return;
        }
        let removal = Removal {
            losing: losing.iter().map(ToString::to_string).collect(),
            keeping: root.plan.leaves.len(),
            long_away: self.long_away(),
        };
        let (recently, all) = (self.recently_removed(), self.leaves_in_all());
        let Some(reason) = judge(&removal, recently, all, self.options.limits) else {
            if before.is_none() {
                self.removals.push_back((Instant::now(), losing.len()));
            }
            return;
        };
        let mark = mark(losing.iter().map(|name| &**name));
        if root.released() == Some(mark.as_str()) {
            self.removals.push_back((Instant::now(), losing.len()));
            return;
        }
        if before.is_none() {
            root.draft(
                true,
                "Held",
                format!("{reason}; limen release {} lets it go on", short(id)),
                None,
            );
        }
        root.held = Some((reason, mark));
    }

    /// A root that is being deleted: its leaves go, or stay, and then it may go.
    fn plan_deletion(&mut self, id: &Arc<ObjectId>, root: &mut Root) {
        if !root.has_finalizer() {
            return;
        }
        if !root.orphaned && root.fate != Fate::Known {
            if root.fate == Fate::Unasked {
                root.fate = Fate::Asked;
                self.unsure.push(id.clone());
            }
            return;
        }
        let orphan = root.on_delete() == OnDelete::Orphan;
        if root.deleting.is_none() {
            let recently = self.recently_removed();
            let losing = root.wishes.len().max(root.holders().count());
            let held = match orphan {
                true => None,
                false => too_much(losing + recently, self.leaves_in_all(), self.options.limits),
            };
            let mark = mark(["deleted"].into_iter());
            match held {
                // One root is never too much: a person meant it.
                Some(reason) if recently > 0 && root.released() != Some(mark.as_str()) => {
                    if root.held.is_none() {
                        let how = format!("{reason}; limen release {} lets it go on", short(id));
                        root.draft(true, "Held", how, None);
                    }
                    root.losing = root.holders().cloned().collect();
                    root.held = Some((reason, mark));
                    return;
                }
                _ => {}
            }
            root.held = None;
            root.losing.clear();
            self.removals.push_back((Instant::now(), losing));
            root.deleting = Some(if orphan { OnDelete::Orphan } else { OnDelete::Cascade });
        }
        let desired = if orphan { Desired::Orphan } else { Desired::Nothing };
        let root_uid: Arc<str> = root.uid().into();
        let leaf = self.leaf_of(id);
        let mut left = false;
        let mut wishes = BTreeMap::new();
        for (name, member) in &mut self.members {
            let report = root.reports.get(name);
            // What was asked of it may be done at any moment, until it says that nothing is there.
            let held = root.wishes.contains_key(name)
                || report.is_some_and(|report| {
                    report.held_for.is_some() || report.state == Some(LeafState::Deleting)
                });
            let known = member.knows(&leaf.kind);
            if !held && known && !member.away() {
                continue;
            }
            if held {
                wishes.insert(name.clone(), desired_leaf(&root_uid, desired.clone()));
            }
            if member.away() {
                // Also what an earlier hub asked of it, of which nothing is known here.
                if held || !known {
                    let tombstone = tombstone(&leaf, &root_uid, orphan);
                    if !member.tombstones.contains(&tombstone) {
                        member.tombstones.push(tombstone);
                        self.records.push(super::Record::Member(name.clone()));
                    }
                }
                // It is written down before the root may go.
                left |= member
                    .written
                    .as_ref()
                    .is_none_or(|written| written.tombstones != member.tombstones);
                continue;
            }
            left = true;
        }
        self.deliver(root, &leaf, wishes);
        root.finished = !left;
        if root.finished {
            self.record_now(id);
        }
    }

    /// What members hold of a root, whether or not it is understood: leaves have its name.
    pub(super) fn leaf_of(&self, id: &ObjectId) -> ObjectId {
        let Some(Source::OneObject(leaf) | Source::Template(leaf)) = self.sources.get(&id.kind)
        else {
            return id.clone();
        };
        let namespace = id.namespace.clone().filter(|_| leaf.namespaced);
        ObjectId { kind: leaf.clone(), namespace, name: id.name.clone() }
    }

    fn recently_removed(&mut self) -> usize {
        let now = Instant::now();
        while self.removals.front().is_some_and(|(when, _)| now - *when > MOMENT) {
            self.removals.pop_front();
        }
        self.removals.iter().map(|(_, count)| count).sum()
    }

    fn leaves_in_all(&self) -> usize {
        self.roots.values().map(|root| root.holders().count()).sum()
    }

    /// How many roots have something in a member, or may have.
    pub(super) fn roots_in(&self, name: &str) -> usize {
        let held = |root: &&Root| {
            root.wishes.contains_key(name)
                || root.reports.get(name).is_some_and(|report| report.held_for.is_some())
        };
        self.roots.values().filter(held).count()
    }

    fn long_away(&self) -> BTreeSet<String> {
        let name = |(name, member): (&Arc<str>, &Member)| {
            { member.returned_after > Some(super::LONG_AWAY) }.then(|| name.to_string())
        };
        self.members.iter().filter_map(name).collect()
    }
}

/// What becomes of an object that was a root and is none any more: its leaves go. Only native
/// objects can be no roots, and those are like their leaves.
fn nowhere(id: &ObjectId, root: &Root) -> Federated {
    let known = root.federated.as_ref().map(|known| Federated::clone(known));
    let known = known.unwrap_or_else(|_| Federated {
        root: id.clone(),
        root_uid: root.uid().to_owned(),
        leaf: id.clone(),
        template: Value::clone(&root.object),
        placement: Placement::Nowhere,
        overrides: Vec::new(),
        on_conflict: OnConflict::Abort,
        on_delete: OnDelete::Cascade,
        waves: Vec::new(),
    });
    Federated { placement: Placement::Nowhere, ..known }
}

/// A mark that stands for some names, for a person to repeat.
fn mark<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut hash: u32 = 0x811c_9dc5;
    for byte in names.flat_map(|name| name.bytes().chain([0])) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    format!("{hash:08x}")
}

fn short(id: &ObjectId) -> String {
    format!("{}/{}", id.kind.kind.to_lowercase(), id.name)
}

/// What is wished of a member that a tombstone waits for.
pub(super) fn last_wish(tombstone: &Tombstone) -> DesiredLeaf {
    let desired = if tombstone.release { Desired::Orphan } else { Desired::Nothing };
    desired_leaf(&tombstone.root_uid.as_str().into(), desired)
}

fn desired_leaf(root_uid: &Arc<str>, desired: Desired) -> DesiredLeaf {
    DesiredLeaf { root_uid: root_uid.clone(), replaces: None, revision: 0, desired }
}

fn tombstone(leaf: &ObjectId, root_uid: &str, release: bool) -> Tombstone {
    Tombstone {
        api_version: leaf.kind.api_version.clone(),
        kind: leaf.kind.kind.clone(),
        plural: leaf.kind.plural.clone(),
        namespace: leaf.namespace.clone(),
        name: leaf.name.clone(),
        root_uid: root_uid.to_owned(),
        release,
    }
}
