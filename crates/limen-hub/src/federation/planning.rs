//! From a changed root to the desired leaves of members.
//!
//! ```text
//! dirty roots ──► interpret ──► outlook: leaves to set, leaves to lose ──► gate ──► deliver
//! ```
//!
//! All dirty roots are looked at before anything is delivered, so that removals are judged together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limen_api::Tombstone;
use limen_core::federated::{Federated, Kind, ObjectId, OnConflict, OnDelete};
use limen_core::lifecycle::{Cause, Governed};
use limen_core::merge::{LeafStatus, available, is_terminal};
use limen_core::plan::plan;
use limen_core::rollout::{Progress, open_wave, wave_of};
use limen_sync::{Desired, DesiredLeaf};
use serde_json::Value;
use tokio::time::Instant;

use super::Federation;
use super::tombstones::{last_desire, leaf_of, tombstone};
use crate::clusters::{Leaving, Member};
use crate::outbox::Record;
use crate::roots::Root;

/// Desired leaves and removals of one root, before judgement.
pub(super) struct Outlook {
    /// Desired leaves that need no judgement.
    pub(super) set: BTreeMap<Arc<str>, DesiredLeaf>,
    /// Members that would lose their leaf.
    pub(super) losing: BTreeSet<Arc<str>>,
    /// Members that cannot be told now: away, or the kind cannot be watched there. What they would
    /// lose is judged when they are back.
    pub(super) blocked: BTreeSet<Arc<str>>,
    /// Desired state for those members once the removal passes.
    pub(super) removal: DesiredLeaf,
    /// Where the removal comes from.
    pub(super) cause: Cause,
    /// Members that keep or get a leaf.
    pub(super) keeping: usize,
}

impl Outlook {
    /// Members whose leaf is to go and is not known to be gone.
    pub(super) fn outstanding(&self) -> BTreeSet<Arc<str>> {
        let sent = self.set.iter().filter(|(_, sent)| sent.desired == Desired::Nothing);
        sent.map(|(name, _)| name).chain(&self.losing).cloned().collect()
    }
}

impl Federation {
    pub(super) fn root_changed(&mut self, id: &ObjectId, object: Arc<Value>) {
        if let Some(root) = self.roots.get_mut(id) {
            let same = root.same_intent(&object);
            if root.uid() != object["metadata"]["uid"] {
                // Another object of the same name: nothing carries over but leaves that are there.
                let mut reports = std::mem::take(&mut root.reports);
                reports.retain(|_, report| report.held_for.is_some());
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
        if id.kind == self.scaler_kind {
            self.scaling_changed(id);
        }
        self.dirty.insert(Arc::new(id.clone()));
    }

    pub(super) fn root_gone(&mut self, id: &ObjectId) {
        let Some(root) = self.roots.remove(id) else { return };
        self.scaling_gone(id);
        self.namespace_emptied(id);
        self.record_policy(id, root.policy.as_deref());
        self.forget_holds(root.uid());
        let leaf = Arc::new(self.leaf_of(id));
        self.disown(&leaf, id);
        let release = root.on_delete() == OnDelete::Orphan;
        let buried = tombstone(&leaf, root.uid(), release);
        if root.finished {
            self.recent_tombstones.add(buried.clone(), Instant::now());
        }
        for (name, member) in &mut self.members {
            let Some(syncer) = &member.syncer else { continue };
            if member.tombstones.contains(&buried) {
                // Removals for an absent member are judged on its return.
                if !member.away() && !member.returned_unjudged() {
                    syncer.desire(leaf.clone(), Some(last_desire(&buried)));
                }
                continue;
            }
            // Without our finalizer nothing was there, or somebody took it off: leaves are let be.
            if root.desired.contains_key(name) {
                syncer.desire(leaf.clone(), None);
            }
            if let Some(report) = root.reports.get(name)
                && report.held_for.is_some()
            {
                member.unowned.insert(leaf.clone(), report.clone());
            }
        }
    }

    /// Plans every dirty root, unless an input of planning cannot be read. A root that ends can make
    /// others dirty.
    pub(super) fn plan_dirty(&mut self) {
        if !self.lost_inputs.is_empty() {
            return;
        }
        while !self.dirty.is_empty() {
            let batch = self.take_dirty();
            let mut outlooks = Vec::new();
            for id in batch {
                if let Some(mut root) = self.roots.remove(&id) {
                    let outlook = self.outlook(&id, &mut root);
                    self.roots.insert(id.clone(), root);
                    outlooks.extend(outlook.map(|outlook| (id, outlook)));
                }
            }
            let going = self.gate(&outlooks);
            for ((id, outlook), going) in outlooks.into_iter().zip(going) {
                if let Some(mut root) = self.roots.remove(&id) {
                    self.deliver(&id, &mut root, outlook, &going);
                    self.roots.insert(id, root);
                }
            }
        }
    }

    /// Every dirty root, in the order in which they may claim leaves. So a hub that starts anew
    /// leaves them with the same roots.
    pub(super) fn take_dirty(&mut self) -> Vec<Arc<ObjectId>> {
        let dirty = std::mem::take(&mut self.dirty);
        // By the name under which it was read: others may have marked it without knowing all of its kind.
        let known = dirty.iter().filter_map(|id| self.roots.get_key_value(id));
        let mut ordered: Vec<_> = known.map(|(id, root)| (root.seniority(), id)).collect();
        ordered.sort_unstable();
        ordered.into_iter().map(|(_, id)| id.clone()).collect()
    }

    /// Outlook of a root, if it is understood and may have leaves.
    pub(super) fn outlook(&mut self, id: &Arc<ObjectId>, root: &mut Root) -> Option<Outlook> {
        if !self.interpret(id, root) {
            return None;
        }
        self.record_later(id);
        if root.being_deleted() {
            return self.deletion(id, root);
        }
        // A root whose leaf belongs to a rival can still be retired.
        root.finished = root.ended && root.federated.is_err();
        if root.federated.is_err() && !root.ended {
            self.freeze(id, root);
        }
        let mut federated = Federated::clone(root.federated.as_ref().ok()?);
        let released = self.kept_is_released(root.uid());
        let gaining = self.keep_placement(root, &mut federated, released);
        self.follow_kept(id, root, gaining.unwrap_or_default());
        if released {
            root.memory.governed = None;
        }
        let federated = Arc::new(federated);
        root.plan = plan(&federated, &self.clusters, &self.hub, &self.handed_over(&federated.leaf));
        root.federated = Ok(federated.clone());
        let governed = root.policy.is_some() || root.memory.governed.is_none();
        if !root.ended && !root.policy_unknown && governed {
            root.memory.on_delete = Some(federated.on_delete);
            if let Some(policy) = &root.policy {
                let placed = root.plan.leaves.keys().cloned().collect();
                root.memory.governed = Some(Governed { policy: policy.clone(), placed });
            }
        }
        if !root.has_finalizer() {
            // Leaves come after the finalizer, so that none can be forgotten.
            if !root.plan.leaves.is_empty() {
                self.records.push(Record::Finalizer(id.clone()));
            }
            return None;
        }
        Some(self.placement_outlook(root, &federated))
    }

    /// A root that is not understood changes nothing: its leaves are kept where they are, and none is
    /// created or adopted by what it said before.
    fn freeze(&self, id: &ObjectId, root: &mut Root) {
        let leaf = Arc::new(self.leaf_of(id));
        for (name, sent) in &mut root.desired {
            let frozen = kept(sent);
            if frozen == *sent {
                continue;
            }
            *sent = frozen;
            if let Some(syncer) = self.members.get(name).and_then(|member| member.syncer.as_ref()) {
                syncer.desire(leaf.clone(), Some(sent.clone()));
            }
        }
    }

    fn placement_outlook(&self, root: &mut Root, federated: &Federated) -> Outlook {
        let open = self.open_wave(root, federated);
        root.waiting.clear();
        let kind = &federated.leaf.kind;
        // A root that has ended starts nowhere anew, nor does the leaf of a member in which it has.
        if is_terminal(kind, &root.object["status"]) {
            root.memory.ended_in.extend(root.plan.leaves.keys().cloned());
        }
        let mut set: BTreeMap<Arc<str>, DesiredLeaf> = BTreeMap::new();
        let mut losing: BTreeSet<Arc<str>> = BTreeSet::new();
        let blocked = self.blocked(root, kind);
        let scaled = self.is_scaled(&federated.leaf);
        // Nothing is created for a root that goes with its Namespace, such as when its policy went first.
        let home = federated.root.namespace.as_ref();
        let going = home.is_some_and(|name| self.terminating.contains_key(name));
        for (name, member) in &self.members {
            let before = root.desired.get(name);
            let holds = may_hold(root, name, member, kind);
            match (member.leaving(), root.plan.leaves.get(&**name)) {
                (Some(Leaving::Abandon), _) => {}
                (Some(leaving), _) => {
                    let desired = match leaving {
                        Leaving::Delete => Desired::Nothing,
                        _ => Desired::Orphan,
                    };
                    if holds || before.is_some() {
                        set.insert(name.clone(), root.desire(desired));
                    }
                }
                (None, Some(_)) if wave_of(&federated.waves, name, &self.clusters) > open => {
                    root.waiting.insert(name.clone());
                    // A leaf that was sent earlier and has not arrived waits as well; a removal is off.
                    let arrived = before.filter(|sent| has_arrived(root, name, sent));
                    set.extend(arrived.map(|before| (name.clone(), before.clone())));
                }
                (None, planned)
                    if root.plan.refused.contains_key(&**name)
                        || (planned.is_some() && member.has_lost(kind))
                        || (planned.is_some() && scaled && !member.knows(&self.scaler_kind)) =>
                {
                    let leaf = before.filter(|sent| matches!(sent.desired, Desired::Leaf { .. }));
                    set.extend(leaf.map(|leaf| (name.clone(), leaf.clone())));
                }
                (None, Some(leaf)) => {
                    let create = !root.memory.ended_in.contains(name) && !going;
                    let on_conflict = federated.on_conflict;
                    let leaf = leaf.clone();
                    let desired = Desired::Leaf { leaf, on_conflict, create };
                    let replaces = self.replaces(root, name, member, &federated.leaf);
                    set.insert(name.clone(), DesiredLeaf { replaces, ..root.desire(desired) });
                }
                (None, None) if self.predecessor(root, name, member, &federated.leaf).is_some() => {
                    let last = self.last_desire_of_predecessor(root, name, member, &federated.leaf);
                    set.extend(last.map(|last| (name.clone(), last)));
                }
                (None, None) => match before.map(|before| &before.desired) {
                    // A removal that an absent member has not carried out is judged on its return.
                    Some(Desired::Nothing) if holds && member.away() => {
                        losing.insert(name.clone());
                    }
                    // Sent already; the member tells when it is done.
                    Some(Desired::Nothing | Desired::Orphan) => {
                        set.extend(before.map(|before| (name.clone(), before.clone())));
                    }
                    _ if holds && !member.is_anothers() => drop(losing.insert(name.clone())),
                    // What never was is forgotten; should it turn up, it is judged then.
                    _ => {}
                },
            }
        }
        let federate = &root.object["metadata"]["annotations"]["limen.dev/federate"];
        let cause = if *federate == "false" { Cause::Named } else { Cause::Indirect };
        let keeping = root.plan.leaves.len();
        let removal = root.desire(Desired::Nothing);
        Outlook { set, losing, blocked, removal, cause, keeping }
    }

    /// Members that cannot be told about leaves of a root now.
    pub(super) fn blocked(&self, root: &Root, kind: &Kind) -> BTreeSet<Arc<str>> {
        let blocked = |name: &Arc<str>, member: &Member| {
            member.away() || member.has_lost(kind) || is_presumed(root, name)
        };
        let blocked = self.members.iter().filter(|(name, member)| blocked(name, member));
        blocked.map(|(name, _)| name.clone()).collect()
    }

    /// The tombstone of an earlier root of the same name, whose leaf a member still holds.
    pub(super) fn predecessor<'a>(
        &'a self,
        root: &Root,
        name: &Arc<str>,
        member: &'a Member,
        leaf: &ObjectId,
    ) -> Option<&'a Tombstone> {
        let held = root.reports.get(name)?.held_for.as_ref()?;
        let stands = |stone: &&Tombstone| *stone.root_uid == **held && leaf_of(stone) == *leaf;
        let recent = self.recent_tombstones.of(held).filter(stands);
        let found = recent.or_else(|| member.tombstones.iter().find(stands));
        found.filter(|_| **held != *root.uid())
    }

    /// The last desire for the leaf of an earlier root, once that may be carried out.
    pub(super) fn last_desire_of_predecessor(
        &self,
        root: &Root,
        name: &Arc<str>,
        member: &Member,
        leaf: &ObjectId,
    ) -> Option<DesiredLeaf> {
        let stone = self.predecessor(root, name, member, leaf)?;
        let waits = member.away() || member.is_unjudged(&leaf.kind) || self.is_held(stone, name);
        (!waits).then(|| last_desire(stone))
    }

    /// The uid of an earlier root whose leaf a member still holds, if that root is known to be gone
    /// and its leaf was to go with it.
    fn replaces(
        &self,
        root: &Root,
        name: &Arc<str>,
        member: &Member,
        leaf: &ObjectId,
    ) -> Option<Arc<str>> {
        let stone = self.predecessor(root, name, member, leaf)?;
        (!stone.release).then(|| stone.root_uid.as_str().into())
    }

    /// Sends the desired leaves that differ from those of before. Members that lose their leaf get
    /// what they had until the removal passes.
    fn deliver(
        &mut self,
        id: &Arc<ObjectId>,
        root: &mut Root,
        outlook: Outlook,
        going: &BTreeSet<Arc<str>>,
    ) {
        let mut desired = outlook.set;
        for name in &outlook.losing {
            match (going.contains(name), root.desired.get(name)) {
                (true, _) => drop(desired.insert(name.clone(), outlook.removal.clone())),
                (false, Some(before)) => {
                    let member = self.members.get(name);
                    let kind = self.leaf_kind(id);
                    let there = member.is_none_or(|member| may_hold(root, name, member, kind));
                    let sent = before.desired == outlook.removal.desired;
                    // Nothing is created that would be removed, nor removed that waits.
                    if (there && !sent) || root.being_deleted() {
                        desired.insert(name.clone(), kept(before));
                    }
                }
                (false, None) => {}
            }
        }
        let leaf = Arc::new(self.leaf_of(id));
        for name in root.desired.keys().filter(|name| !desired.contains_key(*name)) {
            if let Some(syncer) = self.members.get(name).and_then(|member| member.syncer.as_ref()) {
                syncer.desire(leaf.clone(), None);
            }
        }
        for (name, wanted) in &desired {
            if root.desired.get(name).is_some_and(|before| before == wanted) {
                continue;
            }
            if let Some(syncer) = self.members.get(name).and_then(|member| member.syncer.as_ref()) {
                syncer.desire(leaf.clone(), Some(wanted.clone()));
                root.desired_at = Some(Instant::now());
            }
        }
        root.desired = desired;
        if root.being_deleted() {
            let losing: BTreeSet<_> = match root.hold {
                Some(_) => outlook.losing,
                None => outlook.losing.difference(&outlook.blocked).cloned().collect(),
            };
            self.finish_deletion(id, root, &losing, going);
        } else {
            root.finished = root.ended && self.is_nowhere(root, &leaf.kind);
        }
        if root.finished {
            self.record_now(id);
        }
    }

    fn open_wave(&self, root: &Root, federated: &Federated) -> usize {
        if federated.waves.is_empty() {
            return 0;
        }
        let nothing = Value::Null;
        let planned = root.plan.leaves.iter().map(|(name, leaf)| {
            let report = root.reports.get(name);
            let status = LeafStatus {
                cluster: name,
                status: report.and_then(|report| report.status.as_deref()).unwrap_or(&nothing),
                current: report.is_some_and(|report| report.current),
            };
            let away = self.members.get(name).is_some_and(Member::away);
            let done = root.applied(name)
                && available(&federated.leaf.kind, &leaf.object.value()["spec"], status);
            let progress = match (away, done) {
                (true, _) => Progress::Away,
                (false, true) => Progress::Done,
                (false, false) => Progress::NotDone,
            };
            (name.clone(), progress)
        });
        let refused = root.plan.refused.keys().map(|name| (name.clone(), Progress::NotDone));
        open_wave(&federated.waves, &self.clusters, &planned.chain(refused).collect())
    }

    /// Whether it is certain that members hold nothing of a root. One that is away has nothing that
    /// it did not have or was not sent before.
    fn is_nowhere(&self, root: &Root, kind: &Kind) -> bool {
        let sure = |(name, member): (&Arc<str>, &Member)| {
            member.knows(kind) && !is_unserved(root, name, member, kind)
        };
        root.desired.is_empty() && root.reports.is_empty() && self.members.iter().all(sure)
    }

    /// Leaves that members hold, or that they held when they last said so.
    pub(super) fn leaves_in_all(&self) -> usize {
        let of_root = |root: &Root| match root.memory.holders.is_empty() {
            true => root.holders().count(),
            false => {
                let presumed = root.memory.holders.iter();
                root.holders().chain(presumed).collect::<BTreeSet<_>>().len()
            }
        };
        self.roots.values().map(of_root).sum()
    }

    /// How many roots have something in a member, or may have.
    pub(super) fn roots_in(&self, name: &str) -> usize {
        let held = |root: &&Root| {
            root.desired.contains_key(name)
                || root.reports.get(name).is_some_and(|report| report.held_for.is_some())
        };
        self.roots.values().filter(held).count()
    }
}

/// A desired leaf that is kept where it is, and neither created nor adopted.
fn kept(sent: &DesiredLeaf) -> DesiredLeaf {
    let mut kept = sent.clone();
    if let Desired::Leaf { on_conflict, create, .. } = &mut kept.desired {
        (*on_conflict, *create) = (OnConflict::Abort, false);
    }
    kept
}

/// Whether a member holds a leaf of a root, or held one when it last said so, or was sent one and
/// has not answered since.
pub(super) fn may_hold(root: &Root, name: &Arc<str>, member: &Member, kind: &Kind) -> bool {
    let reported = root.reports.get(name).is_some_and(|report| report.held_for.is_some());
    let unlisted = !member.knows(kind) || member.missing.contains(kind);
    let sent =
        root.desired.get(name).is_some_and(|sent| matches!(sent.desired, Desired::Leaf { .. }));
    reported || (unlisted && root.memory.holders.contains(name)) || (sent && member.away())
}

/// Whether a member does not serve the kind of a root of which it held a leaf: that may come back.
pub(super) fn is_unserved(root: &Root, name: &Arc<str>, member: &Member, kind: &Kind) -> bool {
    member.missing.contains(kind) && root.memory.holders.contains(name)
}

/// Whether a leaf in a member is only presumed: the member has not listed its kind since this hub
/// started, or does not serve it.
fn is_presumed(root: &Root, name: &Arc<str>) -> bool {
    let reported = root.reports.get(name).is_some_and(|report| report.held_for.is_some());
    !reported && root.memory.holders.contains(name)
}

/// Whether a member holds the leaf that it was sent.
fn has_arrived(root: &Root, name: &Arc<str>, sent: &DesiredLeaf) -> bool {
    let Desired::Leaf { leaf, .. } = &sent.desired else { return false };
    let applied = root.reports.get(name).and_then(|report| report.applied.as_ref());
    applied == Some(&leaf.hash)
}
