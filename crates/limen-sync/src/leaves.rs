//! What one member shall hold, what it does hold, and what follows from the two.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limen_api::LeafState;
use limen_core::federated::{Kind, ObjectId, OnConflict};
use limen_core::leaf::Leaf;
use limen_core::reconcile::{Action, Held, Wanted, decide, differences};
use serde_json::Value;

use crate::fault::MemberErrorKind;

/// How many differing fields an Event names.
pub(crate) const NAMED: usize = 3;

/// What a member shall hold under one name.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredLeaf {
    /// The root that it is for.
    pub root_uid: Arc<str>,
    /// Hub revision of the root.
    pub revision: u64,
    /// What shall become of it.
    pub desired: Desired,
}

/// What shall become of a leaf.
#[derive(Clone, Debug, PartialEq)]
pub enum Desired {
    /// It shall be there and look like this.
    Leaf {
        /// How it shall look.
        leaf: Arc<Leaf>,
        /// What to do about objects that are no leaves of ours.
        on_conflict: OnConflict,
        /// Whether it is created where it is absent.
        create: bool,
    },
    /// It shall be gone.
    Nothing,
    /// It shall stay, and be ours no more.
    Orphan,
}

/// How far a member is with a leaf.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The root that the leaf says it is of, if it is there.
    pub held_for: Option<Arc<str>>,
    /// The state of the wish; nothing when nothing is wished.
    pub state: Option<LeafState>,
    /// Why, when it is not synced.
    pub message: String,
    /// The leaf's status, as the member has it.
    pub status: Option<Arc<Value>>,
    /// Whether that status is about the leaf as it shall be.
    pub current: bool,
    /// Hash of the leaf that the member holds, when it is synced.
    pub applied: Option<String>,
    /// The leaf was adopted.
    pub adopted: bool,
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
    hub: String,
    wishes: BTreeMap<Arc<ObjectId>, DesiredLeaf>,
    held: BTreeMap<Arc<ObjectId>, Entry>,
    /// Objects that are used as they are.
    shared: BTreeMap<Arc<ObjectId>, Arc<str>>,
    /// Leaves that may be there although nobody has seen them: a write ended without an answer.
    doubted: BTreeSet<Arc<ObjectId>>,
    troubles: BTreeMap<Arc<ObjectId>, (LeafState, String)>,
    /// Leaves that the member has no room for: it has an object of its own. Said once.
    refused: BTreeSet<Arc<ObjectId>>,
    /// What has been said to be wrong with leaves since they were last well.
    said: BTreeMap<Arc<ObjectId>, Vec<MemberErrorKind>>,
}

impl Leaves {
    pub(crate) fn new(hub: String) -> Self {
        Self {
            hub,
            wishes: BTreeMap::new(),
            held: BTreeMap::new(),
            shared: BTreeMap::new(),
            doubted: BTreeSet::new(),
            troubles: BTreeMap::new(),
            refused: BTreeSet::new(),
            said: BTreeMap::new(),
        }
    }

    pub(crate) fn hub(&self) -> &str {
        &self.hub
    }

    pub(crate) fn wish(&mut self, id: Arc<ObjectId>, wish: Option<DesiredLeaf>) {
        self.shared.remove(&id);
        self.troubles.remove(&id);
        self.refused.remove(&id);
        self.said.remove(&id);
        match wish {
            Some(wish) => drop(self.wishes.insert(id, wish)),
            None => {
                self.wishes.remove(&id);
                self.doubted.remove(&id);
            }
        }
    }

    pub(crate) fn wished(&self, id: &ObjectId) -> Option<&DesiredLeaf> {
        self.wishes.get(id)
    }

    /// The id of a leaf as it is known already: each is kept in memory once.
    pub(crate) fn known(&self, id: ObjectId) -> Arc<ObjectId> {
        let known = self.wishes.get_key_value(&id).map(|(known, _)| known);
        let known = known.or_else(|| self.held.get_key_value(&id).map(|(known, _)| known));
        known.cloned().unwrap_or_else(|| Arc::new(id))
    }

    /// How many leaves the member holds.
    pub(crate) fn count(&self) -> usize {
        self.held.len()
    }

    /// Every leaf of a kind that is wished for or held.
    pub(crate) fn of_kind(&self, kind: &Kind) -> BTreeSet<Arc<ObjectId>> {
        let known = self.wishes.keys().chain(self.held.keys());
        known.filter(|id| *id.kind == *kind).cloned().collect()
    }

    /// Notes what the member holds. `by_us` says that it is the answer to our own apply.
    pub(crate) fn observe(&mut self, id: &Arc<ObjectId>, object: &Value, by_us: bool) {
        if by_us && self.is_known(id, object) {
            return self.settle(id);
        }
        let held = Held::of(object);
        let before = self.held.get(id);
        if before.is_some_and(|before| newer(&before.held, &held)) {
            return;
        }
        let leaf = match self.wishes.get(id).map(|wish| &wish.desired) {
            Some(Desired::Leaf { leaf, .. }) if held.applied.as_deref() == Some(&leaf.hash) => {
                Some(leaf)
            }
            _ => None,
        };
        let drift = leaf.map_or(Vec::new(), |leaf| differences(&leaf.object, object, NAMED));
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
        self.held.insert(Arc::clone(id), Entry { held, settled, drift, status, observed });
        self.doubted.remove(id);
        self.refused.remove(id);
    }

    /// A watch has told what our own apply made, before that was answered: it need not be looked at
    /// again to know that this is how the leaf looks there.
    fn settle(&mut self, id: &Arc<ObjectId>) {
        let Some(entry) = self.held.get_mut(id) else { return };
        match self.wishes.get(id).map(|wish| &wish.desired) {
            Some(Desired::Leaf { leaf, .. })
                if entry.held.applied.as_deref() == Some(&leaf.hash) =>
            {
                entry.settled = Some(entry.held.fingerprint);
            }
            _ => entry.drift.clear(),
        }
        self.doubted.remove(id);
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
            metadata["uid"] == entry.held.uid
                && metadata["resourceVersion"] == entry.held.resource_version
        })
    }

    pub(crate) fn gone(&mut self, id: &ObjectId) {
        self.held.remove(id);
    }

    /// A list does not have it. That list may be older than what we wrote meanwhile.
    pub(crate) fn unlisted(&mut self, id: &Arc<ObjectId>) {
        if self.held.remove(id).is_some() {
            self.doubt(id);
        }
    }

    /// Nobody knows whether the member holds it.
    pub(crate) fn doubt(&mut self, id: &Arc<ObjectId>) {
        if self.wishes.contains_key(id) {
            self.doubted.insert(id.clone());
        }
    }

    /// Somebody looked, and nothing was there: neither what had this uid, nor what was doubted.
    pub(crate) fn absent(&mut self, id: &ObjectId, uid: &str) {
        self.doubted.remove(id);
        if self.uid(id) == Some(uid) {
            self.held.remove(id);
        }
    }

    /// Notes that the member has an object of its own there; true if that is news.
    pub(crate) fn refuse(&mut self, id: &Arc<ObjectId>) -> bool {
        self.refused.insert(id.clone())
    }

    /// Notes that something is wrong with a leaf; true if that has not been said since it was well.
    pub(crate) fn is_news(&mut self, id: &Arc<ObjectId>, fault: MemberErrorKind) -> bool {
        let said = self.said.entry(id.clone()).or_default();
        let news = !said.contains(&fault);
        if news {
            said.push(fault);
        }
        news
    }

    /// Whether it shall go, is not known to be there, and may be there all the same.
    pub(crate) fn to_be_looked_for(&self, id: &ObjectId) -> bool {
        self.doubted.contains(id) && !self.held.contains_key(id) && self.shall_go(id)
    }

    /// Whether it shall be gone, or ours no more.
    pub(crate) fn shall_go(&self, id: &ObjectId) -> bool {
        self.wishes.get(id).is_some_and(|wish| !matches!(wish.desired, Desired::Leaf { .. }))
    }

    pub(crate) fn share(&mut self, id: &Arc<ObjectId>, root_uid: Arc<str>) {
        self.shared.insert(id.clone(), root_uid);
    }

    /// Notes why a wish cannot be fulfilled, or that nothing stands in its way.
    pub(crate) fn trouble(&mut self, id: &Arc<ObjectId>, trouble: Option<(LeafState, String)>) {
        match trouble {
            Some(trouble) => drop(self.troubles.insert(id.clone(), trouble)),
            None => {
                self.troubles.remove(id);
                self.said.remove(id);
            }
        }
    }

    /// What is to be done about a leaf, with what differs if it has drifted.
    pub(crate) fn action(&self, id: &ObjectId) -> (Action, Vec<String>) {
        let Some(wish) = self.wishes.get(id) else { return (Action::Keep, Vec::new()) };
        if self.shared.get(id) == Some(&wish.root_uid) {
            return (Action::Keep, Vec::new());
        }
        let entry = self.held.get(id);
        let wanted = match &wish.desired {
            Desired::Leaf { leaf, on_conflict, .. } => Wanted::Leaf {
                leaf,
                root_uid: &wish.root_uid,
                on_conflict: *on_conflict,
                settled: entry.and_then(|entry| entry.settled),
                contained: false,
            },
            Desired::Nothing => Wanted::Nothing,
            Desired::Orphan => Wanted::Orphan,
        };
        let drift = entry.map(|entry| entry.drift.clone()).unwrap_or_default();
        (decide(&wanted, entry.map(|entry| &entry.held), &self.hub), drift)
    }

    /// The uid of what is held.
    pub(crate) fn uid(&self, id: &ObjectId) -> Option<&str> {
        self.held.get(id).map(|entry| entry.held.uid.as_str())
    }

    /// What the hub should know about a leaf.
    pub(crate) fn report(&self, id: &ObjectId) -> Report {
        let entry = self.held.get(id);
        let wish = self.wishes.get(id);
        let (action, _) = self.action(id);
        let trouble = self.troubles.get(id).cloned();
        let (state, message) = match wish.map(|wish| &wish.desired) {
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
        let current = state == Some(LeafState::Synced) && entry.is_some_and(|entry| entry.observed);
        Report {
            held_for: entry
                .filter(|entry| entry.held.hub.as_deref() == Some(&self.hub))
                .and_then(|entry| entry.held.root_uid.as_deref())
                .map(|uid| match wish {
                    Some(wish) if *wish.root_uid == *uid => wish.root_uid.clone(),
                    _ => Arc::from(uid),
                }),
            state,
            message,
            status: entry.and_then(|entry| entry.status.clone()),
            current,
            applied: entry
                .filter(|_| state == Some(LeafState::Synced))
                .and_then(|entry| entry.held.applied.clone()),
            adopted: false,
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
mod tests {
    use limen_core::leaf::{HASH_ANNOTATION, HUB_LABEL, ROOT_LABEL};
    use serde_json::json;

    use super::*;

    /// What the member makes of a leaf whose spec it changes by itself.
    fn completed() -> Value {
        json!({
            "metadata": {
                "uid": "u-1", "resourceVersion": "7",
                "labels": {HUB_LABEL: "hub", ROOT_LABEL: "root"},
                "annotations": {HASH_ANNOTATION: "hash"}},
            "spec": {"size": "two"}})
    }

    #[test]
    fn an_answer_settles_a_leaf_also_after_the_watch_has_told_the_same() {
        let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
        let id = Arc::new(ObjectId { kind, namespace: None, name: "settings".to_owned() });
        let leaf = |hash: &str| {
            let object = json!({"spec": {"size": "one"}});
            let leaf = Arc::new(Leaf { object, hash: hash.to_owned() });
            let want = Desired::Leaf { leaf, on_conflict: OnConflict::Abort };
            Some(DesiredLeaf { root_uid: "root".into(), revision: 0, desired: want })
        };
        for told_before in [false, true] {
            let mut leaves = Leaves::new("hub".to_owned());
            leaves.wish(id.clone(), leaf("hash"));
            if told_before {
                leaves.observe(&id, &completed(), false);
                let drift = (Action::Update, vec!["spec.size".to_owned()]);
                assert_eq!(leaves.action(&id), drift, "nobody knows yet who did that");
            }
            leaves.observe(&id, &completed(), true);
            assert_eq!(leaves.action(&id).0, Action::Keep, "told before: {told_before}");
        }
        // What is wished by now is another leaf: what was answered is no drift from that.
        let mut leaves = Leaves::new("hub".to_owned());
        leaves.wish(id.clone(), leaf("hash"));
        leaves.observe(&id, &completed(), false);
        leaves.wish(id.clone(), leaf("newer"));
        leaves.observe(&id, &completed(), true);
        assert_eq!(leaves.action(&id), (Action::Update, Vec::new()));
    }
}
