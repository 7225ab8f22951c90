//! One root: what is wanted of it, what members say about it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use limen_api::{FINALIZER, LeafState};
use limen_core::federated::{Federated, ObjectId, OnDelete};
use limen_core::json_text::JsonText;
use limen_core::lifecycle::{Governed, fate};
use limen_core::plan::Plan;
use limen_core::reconcile::fingerprint;
use limen_sync::{Desired, DesiredLeaf, LeafChange, Report};
use serde_json::Value;

/// One root.
pub(crate) struct Root {
    /// The object on the hub, as last observed.
    pub(crate) object: Arc<Value>,
    /// Its uid, which all its leaves share.
    uid: Arc<str>,
    /// Its meaning, or the error that keeps every leaf as it is.
    pub(crate) federated: Result<Arc<Federated>, String>,
    /// The leaves that members shall hold.
    pub(crate) plan: Plan,
    /// The desired leaf that each member was sent.
    pub(crate) desired: BTreeMap<Arc<str>, DesiredLeaf>,
    /// When a desired leaf was last sent.
    pub(crate) desired_at: Option<Instant>,
    /// The last report of each member.
    pub(crate) reports: BTreeMap<Arc<str>, Report>,
    /// Members that wait for an earlier wave.
    pub(crate) waiting: BTreeSet<Arc<str>>,
    /// Members that would lose their leaf.
    pub(crate) losing: BTreeSet<Arc<str>>,
    /// Removals that passed: carried out once the ledger has them on disk.
    pub(crate) cleared: Option<Clearance>,
    /// The hold that its removals wait in, and what it says.
    pub(crate) hold: Option<(Arc<str>, String)>,
    /// Its policy is gone; it keeps its placement until this hold is released.
    pub(crate) kept: Option<(Arc<str>, String)>,
    /// The deletion asked for orphans; the API says so only at first.
    pub(crate) orphaned: bool,
    /// Whether the record was searched for a request for orphans that nobody saw.
    pub(crate) fate: Fate,
    /// The policy that governs it.
    pub(crate) policy: Option<String>,
    /// A policy may keep its leaves that cannot be applied to it, or could not when its namespace
    /// began to go.
    pub(crate) policy_unknown: bool,
    /// Its record was missing when this hub started, although it may have leaves and is being
    /// deleted: how it was governed is unknown.
    pub(crate) record_lost: bool,
    /// Facts that must survive a restart, as they are to be recorded.
    pub(crate) memory: Memory,
    /// Its deletion has begun, with this fate of its leaves.
    pub(crate) deleting: Option<OnDelete>,
    /// It was a root and is none any more; its finalizer stays until its leaves are gone.
    pub(crate) ended: bool,
    /// All leaves are gone or accounted for.
    pub(crate) finished: bool,
    /// Events to be written.
    pub(crate) events: Vec<Draft>,
    /// The status as it was written last.
    pub(crate) written_status: Option<JsonText>,
    /// The record as it was written last, as JSON: as a value it would take ten times the memory.
    pub(crate) written_report: Option<Box<str>>,
}

/// Removals that passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clearance {
    /// Members whose leaves may go.
    pub(crate) clusters: BTreeSet<Arc<str>>,
    /// The version of the ledger that has them.
    pub(crate) ledger: u64,
}

/// Facts about a root that must survive a restart. The record of the root has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// How it was governed when its leaves were last applied, if it was.
    pub(crate) governed: Option<Governed>,
    /// The fate that was in force then.
    pub(crate) on_delete: Option<OnDelete>,
    /// Members in which it has reached a terminal state: not created there again.
    pub(crate) ended_in: BTreeSet<Arc<str>>,
    /// Members that held it, until they have listed what they hold.
    pub(crate) holders: BTreeSet<Arc<str>>,
}

/// How much is known of what a person who deleted a root wanted to become of its leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nobody has looked.
    Unasked,
    /// Somebody is looking.
    Asked,
    /// What was found is in `orphaned`.
    Known,
}

/// An Event to be written, joined with others like it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Draft {
    pub(crate) warning: bool,
    pub(crate) reason: &'static str,
    /// What happened, without the clusters.
    pub(crate) message: String,
    /// Where.
    pub(crate) clusters: BTreeSet<Arc<str>>,
}

impl Root {
    pub(crate) fn new(object: Arc<Value>, federated: Result<Arc<Federated>, String>) -> Self {
        Self {
            uid: uid(&object),
            object,
            federated,
            plan: Plan::default(),
            desired: BTreeMap::new(),
            desired_at: None,
            reports: BTreeMap::new(),
            waiting: BTreeSet::new(),
            losing: BTreeSet::new(),
            cleared: None,
            hold: None,
            kept: None,
            orphaned: false,
            fate: Fate::Unasked,
            policy: None,
            policy_unknown: false,
            record_lost: false,
            memory: Memory::default(),
            deleting: None,
            ended: false,
            finished: false,
            events: Vec::new(),
            written_status: None,
            written_report: None,
        }
    }

    pub(crate) fn uid(&self) -> &str {
        &self.uid
    }

    pub(crate) fn has_finalizer(&self) -> bool {
        finalizers(&self.object).any(|finalizer| finalizer == FINALIZER)
    }

    pub(crate) fn being_deleted(&self) -> bool {
        self.object["metadata"]["deletionTimestamp"].is_string()
    }

    /// Whether it waits for its leaves to be gone.
    pub(crate) fn is_going(&self) -> bool {
        self.ended || self.being_deleted()
    }

    /// Of two that claim the same leaf, the one with the lesser has it: whoever may have leaves
    /// already, then the older one.
    pub(crate) fn seniority(&self) -> (bool, &str, &str) {
        let created = self.object["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
        (!self.has_finalizer(), created, self.uid())
    }

    /// Takes a newer version of the object.
    pub(crate) fn renew(&mut self, object: Arc<Value>) {
        self.orphaned |= finalizers(&object).any(|finalizer| finalizer == "orphan");
        if object["metadata"]["uid"] != *self.uid {
            self.uid = uid(&object);
        }
        self.object = object;
    }

    /// Fate of its leaves when it is deleted. A root whose policy is gone is not understood.
    pub(crate) fn on_delete(&self) -> OnDelete {
        let understood = self.federated.as_ref().ok();
        let understood =
            understood.filter(|_| self.kept.is_none() && !self.ended && !self.record_lost);
        let understood = understood.filter(|_| !self.policy_unknown);
        let understood =
            understood.filter(|_| self.policy.is_some() || self.memory.governed.is_none());
        let understood = understood.map(|federated| federated.on_delete);
        let stamped = self.memory.on_delete.filter(|_| !self.policy_unknown);
        self.deleting.unwrap_or_else(|| fate(self.orphaned, understood, stamped))
    }

    /// The revision of the hub that this version of the object has.
    pub(crate) fn revision(&self) -> u64 {
        let version = self.object["metadata"]["resourceVersion"].as_str();
        version.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// A desired leaf of this root.
    pub(crate) fn desire(&self, desired: Desired) -> DesiredLeaf {
        DesiredLeaf {
            root_uid: self.uid.clone(),
            replaces: None,
            revision: self.revision(),
            desired,
        }
    }

    /// Whether another version of the object means the same.
    pub(crate) fn same_intent(&self, object: &Value) -> bool {
        let deleting = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
        self.uid() == object["metadata"]["uid"]
            && deleting(&self.object) == deleting(object)
            && fingerprint(&self.object) == fingerprint(object)
    }

    /// Whether what is known is newer than a version of the same object: versions are numbers that
    /// grow.
    pub(crate) fn is_newer_than(&self, object: &Value) -> bool {
        let version = |object: &Value| {
            object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok())
        };
        let (known, other) = (version(&self.object), version(object));
        self.uid() == object["metadata"]["uid"]
            && known.zip(other).is_some_and(|(known, other)| known > other)
    }

    /// Members that hold a leaf of it.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &Arc<str>> {
        self.reports.iter().filter(|(_, report)| report.held_for.is_some()).map(|(name, _)| name)
    }

    /// Notes what a member did, for an Event.
    pub(crate) fn did(&mut self, cluster: &Arc<str>, leaf: &ObjectId, did: &LeafChange) {
        let kind = leaf.kind.kind.to_lowercase();
        let (reason, message) = match did {
            LeafChange::Found => return,
            LeafChange::Created => ("CreateInCluster", format!("Created {kind} in")),
            LeafChange::Updated => ("UpdateInCluster", format!("Updated {kind} in")),
            LeafChange::Adopted => ("UpdateInCluster", format!("Adopted the existing {kind} in")),
            LeafChange::Corrected(fields) => (
                "UpdateInCluster",
                format!("Corrected {} of {kind}, which differed in", fields.join(", ")),
            ),
            LeafChange::Yielded { fields, manager } => (
                "UpdateInCluster",
                format!(
                    "Left {} of {kind} to {manager}, which keeps changing it in",
                    fields.join(", ")
                ),
            ),
            LeafChange::Deleted => ("DeleteInCluster", format!("Deleted {kind} in")),
            LeafChange::Released => {
                ("DeleteInCluster", format!("Let go of {kind}, which stays in"))
            }
        };
        let warning = matches!(did, LeafChange::Yielded { .. });
        self.draft(warning, reason, message, Some(cluster));
    }

    /// Notes an Event; events of the same words are one, with all their clusters.
    pub(crate) fn draft(
        &mut self,
        warning: bool,
        reason: &'static str,
        message: String,
        cluster: Option<&Arc<str>>,
    ) {
        let same = |draft: &&mut Draft| draft.reason == reason && draft.message == message;
        let draft = match self.events.iter_mut().find(same) {
            Some(draft) => draft,
            None => {
                self.events.push(Draft { warning, reason, message, clusters: BTreeSet::new() });
                let Some(draft) = self.events.last_mut() else { return };
                draft
            }
        };
        draft.clusters.extend(cluster.cloned());
    }

    /// Whether every member that shall hold a leaf holds it as it shall be.
    pub(crate) fn is_synced(&self) -> bool {
        self.plan.leaves.keys().all(|name| self.applied(name))
    }

    /// Whether members are about to do what was wished, so that a record of it can wait until they
    /// have: nothing went wrong, and little time has passed.
    pub(crate) fn is_under_way(&self, patience: Duration) -> bool {
        let wrong =
            |report: &Report| matches!(report.state, Some(LeafState::Failed | LeafState::Conflict));
        self.desired_at.is_some_and(|since| since.elapsed() < patience)
            && !self.is_synced()
            && !self.being_deleted()
            && self.hold.is_none()
            && self.kept.is_none()
            && self.waiting.is_empty()
            && !self.reports.values().any(wrong)
            && !self.events.iter().any(|event| event.warning)
    }

    /// Whether a member holds the leaf that the plan has for it.
    pub(crate) fn applied(&self, cluster: &str) -> bool {
        let (Some(report), Some(planned)) =
            (self.reports.get(cluster), self.plan.leaves.get(cluster))
        else {
            return false;
        };
        report.state == Some(LeafState::Synced)
            && (report.applied.as_ref() == Some(&planned.hash) || report.held_for.is_none())
    }
}

fn uid(object: &Value) -> Arc<str> {
    object["metadata"]["uid"].as_str().unwrap_or_default().into()
}

fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(uid: &str, version: &str) -> Value {
        json!({"metadata": {"uid": uid, "resourceVersion": version}})
    }

    #[test]
    fn an_answer_that_a_watch_has_overtaken_is_known_to_be_old() {
        let root = Root::new(Arc::new(object("u-1", "10")), Err(String::new()));
        for (uid, version, older) in
            [("u-1", "9", true), ("u-1", "10", false), ("u-1", "11", false), ("u-2", "9", false)]
        {
            assert_eq!(root.is_newer_than(&object(uid, version)), older, "{uid} {version}");
        }
    }

    #[test]
    fn whoever_may_have_leaves_comes_before_the_older_and_that_before_the_younger() {
        let root = |created: &str, finalizers: Value| {
            let metadata = json!({"creationTimestamp": created, "finalizers": finalizers});
            Root::new(Arc::new(json!({"metadata": metadata})), Err(String::new()))
        };
        let held = root("2026-01-03T00:00:00Z", json!([FINALIZER]));
        let older = root("2026-01-01T00:00:00Z", json!([]));
        let younger = root("2026-01-02T00:00:00Z", Value::Null);
        assert!(held.seniority() < older.seniority());
        assert!(older.seniority() < younger.seniority());
    }
}
