//! What one member shall hold, what it does hold, and what follows from the two.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use limen_api::LeafState;
use limen_core::corrections::{Correction, Corrections};
use limen_core::federated::{Kind, ObjectId};
use limen_core::mark::Mark;
use limen_core::merge::{is_finite, is_terminal};
use limen_core::reconcile::{Action, Held, decide, differences, fenced};
use serde_json::Value;

use crate::desired::{Desired, DesiredLeaf, Report};
use crate::member_error::MemberErrorKind;
use crate::object_api::Precondition;

/// How many differing fields an Event names.
pub(crate) const NAMED: usize = 3;

/// Where an object was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A list, which is the truth whatever its versions.
    List,
    /// An event of a watch.
    Watch,
    /// The answer to a read.
    Read,
    /// The answer to our own apply.
    Apply,
}

struct Entry {
    held: Held,
    /// The fingerprint of the object when it was as it shall be, completed by the member.
    settled: Option<u64>,
    /// Where it differed from its leaf when it was seen last.
    drift: Vec<String>,
    status: Option<Arc<Value>>,
    observed: bool,
}

/// Everything about the leaves of one member.
pub(crate) struct Leaves {
    hub: Arc<str>,
    /// The epoch of the hub's permit.
    epoch: Option<u64>,
    desired: BTreeMap<Arc<ObjectId>, DesiredLeaf>,
    held: BTreeMap<Arc<ObjectId>, Entry>,
    /// The version up to which the watch of a kind has told everything.
    positions: BTreeMap<Arc<Kind>, u64>,
    /// Objects that are used as they are.
    shared: BTreeMap<Arc<ObjectId>, Arc<str>>,
    /// Leaves that may be there although nobody has seen them: a write ended without an answer.
    unconfirmed: BTreeSet<Arc<ObjectId>>,
    troubles: BTreeMap<Arc<ObjectId>, (LeafState, String)>,
    /// Leaves that the member has no room for: it has an object of its own. Told once.
    refused: BTreeSet<Arc<ObjectId>>,
    /// Failures of leaves that were told since they were last synced.
    told: BTreeMap<Arc<ObjectId>, Vec<MemberErrorKind>>,
    /// Leaves that others have changed.
    corrections: BTreeMap<Arc<ObjectId>, Corrections>,
    /// Leaves that are left to another manager, with the message.
    yielded: BTreeMap<Arc<ObjectId>, String>,
    /// Leaves that have reached a terminal state, with the uid of their root: not created again.
    ended: BTreeMap<Arc<ObjectId>, Arc<str>>,
}

impl Leaves {
    pub(crate) fn new(hub: &str) -> Self {
        Self {
            hub: hub.into(),
            epoch: None,
            desired: BTreeMap::new(),
            held: BTreeMap::new(),
            positions: BTreeMap::new(),
            shared: BTreeMap::new(),
            unconfirmed: BTreeSet::new(),
            troubles: BTreeMap::new(),
            refused: BTreeSet::new(),
            told: BTreeMap::new(),
            corrections: BTreeMap::new(),
            yielded: BTreeMap::new(),
            ended: BTreeMap::new(),
        }
    }

    pub(crate) fn hub(&self) -> &str {
        &self.hub
    }

    pub(crate) fn set_epoch(&mut self, epoch: Option<u64>) {
        self.epoch = epoch;
    }

    pub(crate) fn desire(&mut self, id: Arc<ObjectId>, mut desired: Option<DesiredLeaf>) {
        if let Some(desired) = &mut desired
            && self.ended.get(&id) == Some(&desired.root_uid)
        {
            desired.keep_only();
        }
        let before = self.desired.get(&id);
        if before.is_some() && before == desired.as_ref() {
            self.desired.extend(desired.map(|desired| (id, desired)));
            return;
        }
        let hash = |desired: Option<&DesiredLeaf>| {
            desired.and_then(DesiredLeaf::leaf).map(|leaf| leaf.hash.clone())
        };
        if hash(before) != hash(desired.as_ref()) {
            self.yielded.remove(&id);
            if let Some(corrections) = self.corrections.get_mut(&id) {
                corrections.desired_changed();
            }
            if let Some(entry) = self.held.get_mut(&id) {
                entry.settled = None;
                entry.drift.clear();
            }
        }
        self.shared.remove(&id);
        self.troubles.remove(&id);
        self.refused.remove(&id);
        self.told.remove(&id);
        match desired {
            Some(desired) => drop(self.desired.insert(id, desired)),
            None => {
                self.desired.remove(&id);
                self.unconfirmed.remove(&id);
                self.corrections.remove(&id);
                if !self.held.contains_key(&id) {
                    self.ended.remove(&id);
                }
            }
        }
    }

    pub(crate) fn desired(&self, id: &ObjectId) -> Option<&DesiredLeaf> {
        self.desired.get(id)
    }

    /// Every leaf that something is desired of.
    pub(crate) fn all_desired(&self) -> Vec<Arc<ObjectId>> {
        self.desired.keys().cloned().collect()
    }

    /// The id of a leaf as it is known already: each is kept in memory once.
    pub(crate) fn known(&self, id: ObjectId) -> Arc<ObjectId> {
        let known = self.desired.get_key_value(&id).map(|(known, _)| known);
        let known = known.or_else(|| self.held.get_key_value(&id).map(|(known, _)| known));
        known.cloned().unwrap_or_else(|| Arc::new(id))
    }

    /// How many leaves the member holds.
    pub(crate) fn count(&self) -> usize {
        self.held.len()
    }

    /// Every leaf of a kind that is desired or held.
    pub(crate) fn of_kind(&self, kind: &Kind) -> BTreeSet<Arc<ObjectId>> {
        let known = self.desired.keys().chain(self.held.keys());
        known.filter(|id| *id.kind == *kind).cloned().collect()
    }

    /// A list has been read at this version, which may be lower than one before.
    pub(crate) fn listed(&mut self, kind: &Arc<Kind>, version: &str) {
        match version.parse() {
            Ok(version) => drop(self.positions.insert(kind.clone(), version)),
            Err(_) => drop(self.positions.remove(kind)),
        }
    }

    /// A watch has told everything up to this version.
    pub(crate) fn watched(&mut self, kind: &Arc<Kind>, version: &str) {
        if let Ok(version) = version.parse::<u64>() {
            let position = self.positions.entry(kind.clone()).or_default();
            *position = version.max(*position);
        }
    }

    /// Whether the watch has overtaken this version of an object: it has told that version, or
    /// what became of the object since.
    fn is_overtaken(&self, kind: &Kind, held: &Held) -> bool {
        let version = held.resource_version.parse::<u64>().ok();
        version.zip(self.positions.get(kind)).is_some_and(|(version, at)| version < *at)
    }

    /// Notes what the member holds.
    pub(crate) fn observe(&mut self, id: &Arc<ObjectId>, object: &Value, source: Source) {
        let by_us = source == Source::Apply;
        if by_us && self.is_known(id, object) {
            return self.settle(id);
        }
        let mut held = Held::of(object);
        let desired = self.desired.get(id);
        let leaf = desired.and_then(DesiredLeaf::leaf);
        held.share(
            &self.hub,
            desired.map(|desired| &desired.root_uid),
            leaf.map(|leaf| &leaf.hash),
        );
        let before = self.held.get(id);
        let answer = matches!(source, Source::Read | Source::Apply);
        if source != Source::List && before.is_some_and(|before| newer(&before.held, &held))
            || answer && self.is_overtaken(&id.kind, &held) && !self.is_known(id, object)
        {
            return;
        }
        let leaf = leaf.filter(|leaf| held.applied.as_ref() == Some(&leaf.hash));
        let drift =
            leaf.map_or(Vec::new(), |leaf| differences(&leaf.object.value(), object, NAMED));
        // What the member itself makes of a leaf is how that leaf looks there.
        let settled = match leaf {
            Some(_) if drift.is_empty() || by_us => Some(held.fingerprint),
            _ => before.and_then(|before| before.settled),
        };
        let status = match &object["status"] {
            Value::Object(status) if !status.values().all(is_blank) => match before {
                Some(Entry { status: Some(same), .. }) if **same == object["status"] => {
                    Some(Arc::clone(same))
                }
                _ => Some(Arc::new(object["status"].clone())),
            },
            _ => None,
        };
        let generation = object["metadata"]["generation"].as_i64();
        let seen = object["status"]["observedGeneration"].as_i64();
        let observed = match (generation, seen) {
            (Some(generation), Some(seen)) => seen >= generation,
            _ => true,
        };
        if let Some(root_uid) = held.root_uid.as_deref()
            && status.as_ref().is_some_and(|status| is_terminal(&id.kind, status))
        {
            self.end(id, root_uid);
        }
        self.held.insert(Arc::clone(id), Entry { held, settled, drift, status, observed });
        self.unconfirmed.remove(id);
        self.refused.remove(id);
    }

    /// A watch has told what our own apply made, before that was answered: it need not be looked at
    /// again to know that this is how the leaf looks there.
    fn settle(&mut self, id: &Arc<ObjectId>) {
        let Some(entry) = self.held.get_mut(id) else { return };
        match self.desired.get(id).and_then(DesiredLeaf::leaf) {
            Some(leaf) if entry.held.applied.as_ref() == Some(&leaf.hash) => {
                entry.settled = Some(entry.held.fingerprint);
            }
            _ => entry.drift.clear(),
        }
        self.unconfirmed.remove(id);
        self.refused.remove(id);
    }

    /// The member was asked to delete it, and said yes. It may take its time.
    pub(crate) fn going(&mut self, id: &ObjectId) {
        if let Some(entry) = self.held.get_mut(id) {
            entry.held.deleting = true;
        }
    }

    /// Whether this very version of an object has been noted.
    pub(crate) fn is_known(&self, id: &ObjectId, object: &Value) -> bool {
        let metadata = &object["metadata"];
        self.held.get(id).is_some_and(|entry| {
            metadata["uid"] == *entry.held.uid
                && metadata["resourceVersion"] == *entry.held.resource_version
        })
    }

    /// The leaf is gone, or ours no more.
    pub(crate) fn gone(&mut self, id: &ObjectId) {
        self.held.remove(id);
    }

    /// A watch says that this version of a leaf is gone. An answer may already have told of a newer
    /// one.
    pub(crate) fn deleted(&mut self, id: &ObjectId, object: &Value) {
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok());
        let gone = number(object["metadata"]["resourceVersion"].as_str());
        let known = self.held.get(id).map(|entry| &*entry.held.resource_version);
        if number(known).zip(gone).is_none_or(|(known, gone)| known <= gone) {
            self.held.remove(id);
        }
    }

    /// A list does not have it. That list may be older than what we wrote meanwhile. A Job that went
    /// unwatched may have finished, and is not created again.
    pub(crate) fn missing_from_list(&mut self, id: &Arc<ObjectId>) {
        let Some(entry) = self.held.remove(id) else { return };
        self.mark_unconfirmed(id);
        if let Some(root_uid) = entry.held.root_uid.filter(|_| is_finite(&id.kind)) {
            self.end(id, &root_uid);
        }
    }

    /// The leaf of a root has ended: it is kept where it is, and not created again.
    fn end(&mut self, id: &Arc<ObjectId>, root_uid: &str) {
        self.ended.insert(id.clone(), root_uid.into());
        let desired = self.desired.get_mut(id).filter(|desired| *desired.root_uid == *root_uid);
        desired.into_iter().for_each(DesiredLeaf::keep_only);
    }

    /// It is not known whether the member holds it.
    pub(crate) fn mark_unconfirmed(&mut self, id: &Arc<ObjectId>) {
        if self.desired.contains_key(id) {
            self.unconfirmed.insert(id.clone());
        }
    }

    /// A read found nothing of ours: neither what had this uid, nor what was unconfirmed.
    pub(crate) fn absent(&mut self, id: &ObjectId, uid: &str) {
        self.unconfirmed.remove(id);
        if self.uid(id) == Some(uid) {
            self.held.remove(id);
        }
    }

    /// Notes that the member has an object of its own there; true if that has not been told.
    pub(crate) fn refuse(&mut self, id: &Arc<ObjectId>) -> bool {
        self.refused.insert(id.clone())
    }

    /// Notes a failure of a leaf; true if it has not been told since the leaf was last synced.
    pub(crate) fn is_news(&mut self, id: &Arc<ObjectId>, error: MemberErrorKind) -> bool {
        let told = self.told.entry(id.clone()).or_default();
        let news = !told.contains(&error);
        if news {
            told.push(error);
        }
        news
    }

    /// Whether it shall go, is not known to be there, and may be there all the same.
    pub(crate) fn to_be_looked_for(&self, id: &ObjectId) -> bool {
        self.unconfirmed.contains(id) && !self.held.contains_key(id) && self.shall_go(id)
    }

    /// Whether it shall be gone, or ours no more.
    pub(crate) fn shall_go(&self, id: &ObjectId) -> bool {
        self.desired.get(id).is_some_and(|desired| desired.leaf().is_none())
    }

    pub(crate) fn share(&mut self, id: &Arc<ObjectId>, root_uid: Arc<str>) {
        self.shared.insert(id.clone(), root_uid);
    }

    /// Notes why a desired leaf is not there, or that nothing stands in its way.
    pub(crate) fn trouble(&mut self, id: &Arc<ObjectId>, trouble: Option<(LeafState, String)>) {
        match trouble {
            Some(trouble) => drop(self.troubles.insert(id.clone(), trouble)),
            None => {
                self.troubles.remove(id);
                self.told.remove(id);
            }
        }
    }

    /// What is to be done about a leaf, with what differs if it has drifted.
    pub(crate) fn action(&self, id: &ObjectId) -> (Action, Vec<String>) {
        let Some(desired) = self.desired.get(id) else { return (Action::Keep, Vec::new()) };
        if self.shared.get(id) == Some(&desired.root_uid) {
            return (Action::Keep, Vec::new());
        }
        let entry = self.held.get(id);
        let held = entry.map(|entry| &entry.held);
        let wanted = desired.wanted(entry.and_then(|entry| entry.settled), false);
        let action = decide(&wanted, held, &self.hub);
        let action = fenced(action, held, self.epoch.unwrap_or(u64::MAX));
        (action, entry.map(|entry| entry.drift.clone()).unwrap_or_default())
    }

    /// Whether a leaf that was as desired has been changed by others.
    pub(crate) fn has_drifted(&self, id: &ObjectId) -> bool {
        let (action, drift) = self.action(id);
        let settled = self.held.get(id).is_some_and(|entry| entry.settled.is_some());
        action == Action::Update && (settled || !drift.is_empty())
    }

    /// When to correct the drift of a leaf that is seen at `now`.
    pub(crate) fn drifted(&mut self, id: &Arc<ObjectId>, now: Duration) -> Correction {
        self.corrections.entry(id.clone()).or_default().drifted(now)
    }

    /// A correction is sent.
    pub(crate) fn correcting(&mut self, id: &Arc<ObjectId>, now: Duration) {
        self.corrections.entry(id.clone()).or_default().sent(now);
    }

    /// A leaf is as desired.
    pub(crate) fn settled(&mut self, id: &ObjectId, now: Duration) {
        if let Some(corrections) = self.corrections.get_mut(id) {
            corrections.settled(now);
        }
    }

    /// Leaves a leaf to another manager; true if that has not been told.
    pub(crate) fn yield_to(&mut self, id: &Arc<ObjectId>, message: String) -> bool {
        self.yielded.insert(id.clone(), message).is_none()
    }

    /// Why a leaf is left to another manager.
    pub(crate) fn yielded(&self, id: &ObjectId) -> Option<&String> {
        self.yielded.get(id)
    }

    /// The uid of what is held.
    pub(crate) fn uid(&self, id: &ObjectId) -> Option<&str> {
        self.held.get(id).map(|entry| &*entry.held.uid)
    }

    /// The version of what is held, for a write that is decided on it.
    pub(crate) fn version(&self, id: &ObjectId) -> Option<Precondition> {
        let Held { uid, resource_version, .. } = &self.held.get(id)?.held;
        Some(Precondition { uid: (**uid).into(), resource_version: (**resource_version).into() })
    }

    /// Whether what is held was adopted.
    pub(crate) fn is_adopted(&self, id: &ObjectId) -> bool {
        self.held.get(id).is_some_and(|entry| entry.held.adopted)
    }

    /// The mark of what is held.
    pub(crate) fn mark(&self, id: &ObjectId) -> Option<Mark> {
        self.held.get(id)?.held.mark
    }

    /// What the hub should know about a leaf.
    pub(crate) fn report(&self, id: &ObjectId) -> Report {
        let entry = self.held.get(id);
        let desired = self.desired.get(id);
        let (action, _) = self.action(id);
        let trouble = self.troubles.get(id).cloned();
        let (state, message) = match desired.map(|desired| &desired.desired) {
            None => (None, String::new()),
            Some(_) if trouble.is_some() => {
                let (state, message) = trouble.unwrap_or_default();
                (Some(state), message)
            }
            Some(Desired::Leaf { .. }) if action == Action::Keep => {
                let shared = self.shared.contains_key(id);
                let message =
                    if shared { "the cluster has its own, which is used as it is" } else { "" };
                (Some(LeafState::Synced), message.to_owned())
            }
            Some(Desired::Leaf { .. }) => (Some(LeafState::Pending), String::new()),
            Some(Desired::Nothing | Desired::Orphan) => (Some(LeafState::Deleting), String::new()),
        };
        let synced = state == Some(LeafState::Synced);
        let ours = entry.and_then(|entry| entry.held.leaf_of(&self.hub));
        let hash = desired.and_then(DesiredLeaf::leaf).map(|leaf| &leaf.hash);
        let applied = entry.and_then(|entry| entry.held.applied.as_ref());
        Report {
            held_for: ours.map(|uid| match desired {
                Some(desired) if *desired.root_uid == *uid => desired.root_uid.clone(),
                _ => Arc::from(uid),
            }),
            state,
            message,
            status: entry.and_then(|entry| entry.status.clone()),
            current: synced && entry.is_some_and(|entry| entry.observed),
            applied: applied.filter(|applied| synced && Some(*applied) == hash).cloned(),
            adopted: entry.is_some_and(|entry| entry.held.adopted),
        }
    }
}

/// Whether a part of a status says nothing: an API server fills in empty maps.
fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Whether what is known is newer than what was seen: versions are numbers that grow.
fn newer(known: &Held, seen: &Held) -> bool {
    let number = |held: &Held| held.resource_version.parse::<u64>().ok();
    known.uid == seen.uid && matches!((number(known), number(seen)), (Some(a), Some(b)) if a > b)
}

#[cfg(test)]
mod tests;
