//! The plan of one root over state that was read once: the passes of the hub, and nothing carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limen_api::dialect::{Home, identity};
use limen_api::{Cluster, FINALIZER, LeafState};
use limen_core::federated::{Federated, Kind, ObjectId, OnConflict};
use limen_core::leaf::Leaf;
use limen_core::lifecycle::judge;
use limen_core::reconcile::Held;
use limen_sync::{Desired, ObjectApi, Report};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Federation;
use crate::clusters::Leaving;
use crate::hub::HubOptions;
use crate::hub_kind::HubKind;
use crate::roots::Fate;
use crate::status;

/// The part of one member in the plan of a root.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// It is to hold this leaf.
    Leaf { leaf: Arc<Leaf>, on_conflict: OnConflict, create: bool, replaces: Option<Arc<str>> },
    /// Its leaf goes; a hold or the reason for one keeps it.
    Removal { orphan: bool, held: Option<String> },
    /// Its leaf stays as it is: the template cannot be made to fit.
    Refused(String),
    /// It waits for an earlier wave.
    Waits,
    /// It leaves the federation.
    Leaves(Leaving),
    /// Nothing is planned for it.
    Nothing,
}

/// The plan of a root.
pub(crate) struct Preview {
    pub(crate) policy: Option<String>,
    /// Its meaning, or the error that keeps every leaf as it is.
    pub(crate) federated: Result<Arc<Federated>, String>,
    /// It is no root.
    pub(crate) is_no_root: bool,
    /// The hold under which it keeps its placement, in words.
    pub(crate) kept: Option<String>,
    pub(crate) steps: BTreeMap<Arc<str>, Step>,
}

impl Federation {
    /// A federation that knows what it is told and talks to nobody.
    pub(crate) fn of_listed(api: ObjectApi, home: Home, hub: String) -> Self {
        let (notices, observations) = (mpsc::unbounded_channel().0, mpsc::channel(1).0);
        Self::new(Arc::new(HubOptions::new(api, home)), hub, notices, observations)
    }

    /// Takes a listed type, by the kind of its leaves.
    pub(crate) fn list_type(&mut self, leaf: &Arc<Kind>) {
        self.federate_kind(leaf);
    }

    /// The kind of autoscalers.
    pub(crate) fn scaler_kind(&self) -> Arc<Kind> {
        self.scaler_kind.clone()
    }

    /// Takes a listed object.
    pub(crate) fn list(&mut self, kind: &Arc<Kind>, object: Value) {
        let meaning = HubKind::of(kind);
        self.changed(meaning, &identity(&object, kind), &Arc::new(object));
    }

    /// Takes a listed Cluster, with the error that keeps it from being asked, if any.
    pub(crate) fn list_cluster(&mut self, cluster: Cluster, error: Option<String>) {
        let name: Arc<str> = cluster.metadata.name.clone().unwrap_or_default().into();
        self.cluster_changed(&name, Arc::new(cluster));
        let kinds = self.leaf_kinds();
        let Some(member) = self.members.get_mut(&name) else { return };
        if error.is_none() {
            member.listed.extend(kinds.iter().cloned());
            member.relisted.extend(kinds);
        }
        member.connect_error = error;
    }

    /// Takes the record of a root that was listed before. Members that it names hold its leaf unless
    /// they are asked themselves.
    pub(crate) fn list_record(&mut self, id: &ObjectId, record: &Value) {
        let Some(root) = self.roots.get_mut(id) else { return };
        let recorded = status::recorded(record);
        if !status::is_about(&recorded, root.uid()) {
            return;
        }
        root.memory = status::memory(&recorded);
        let uid: Arc<str> = root.uid().into();
        for name in root.memory.holders.clone() {
            let report = report(uid.clone(), None, None, true);
            root.reports.insert(name, report);
        }
    }

    /// Takes the object that a member has in the place of a root's leaf.
    pub(crate) fn list_leaf(&mut self, id: &ObjectId, cluster: &str, object: Option<&Value>) {
        let hub = self.hub.clone();
        let Some(root) = self.roots.get_mut(id) else { return };
        root.reports.remove(cluster);
        root.memory.holders.remove(cluster);
        let Some((object, held)) = object.map(|object| (object, Held::of(object))) else { return };
        let (Some(root_uid), true) = (held.root_uid, held.hub.as_deref() == Some(&*hub)) else {
            return;
        };
        let observed = object["status"]["observedGeneration"].as_i64();
        let current =
            observed.is_none_or(|seen| Some(seen) >= object["metadata"]["generation"].as_i64());
        let status = Some(Arc::new(object["status"].clone()));
        root.reports.insert(cluster.into(), report(root_uid, held.applied, status, current));
    }

    /// Plans a root that was listed.
    pub(crate) fn preview(mut self, id: &ObjectId) -> Option<Preview> {
        self.started = Some(Instant::now());
        self.count_terminating();
        let id = Arc::new(id.clone());
        self.claim_before(&id);
        let mut root = self.roots.remove(&id)?;
        root.fate = Fate::Known;
        if !root.has_finalizer() && !root.being_deleted() {
            // It gets one before its leaves are planned.
            let mut object = Value::clone(&root.object);
            object["metadata"]["finalizers"] = json!([FINALIZER]);
            root.object = Arc::new(object);
        }
        let outlook = self.outlook(&id, &mut root);
        self.roots.insert(id.clone(), root);
        let mut removals = BTreeMap::new();
        let mut steps: BTreeMap<Arc<str>, Step> = BTreeMap::new();
        if let Some(outlook) = outlook {
            let (going, rest) = self.stand(&id, &outlook);
            let held = self.roots.get(&id).and_then(|root| root.hold.clone());
            let held = held
                .map(|(name, text)| format!("held: {text}; limen release {name} carries it out"));
            let verdict = self.verdict(&id, &outlook, &rest);
            for name in &outlook.losing {
                let held = match (going.contains(name), rest.contains(name)) {
                    (true, _) => None,
                    (false, true) => verdict.clone(),
                    (false, false) => held.clone(),
                };
                let orphan = outlook.removal.desired == Desired::Orphan;
                removals.insert(name.clone(), Step::Removal { orphan, held });
            }
            for (name, desired) in outlook.set {
                steps.insert(name, step(desired.desired, desired.replaces));
            }
        }
        let root = self.roots.get(&id)?;
        for (name, member) in &self.members {
            let planned = steps.remove(name).or_else(|| removals.remove(name));
            let refused = root.plan.refused.get(&**name);
            let step = match (member.leaving(), refused, planned) {
                (Some(leaving), _, _) => Step::Leaves(leaving),
                (None, Some(error), _) => Step::Refused(error.to_string()),
                (None, None, _) if root.waiting.contains(name) => Step::Waits,
                (None, None, planned) => planned.unwrap_or(Step::Nothing),
            };
            steps.insert(name.clone(), step);
        }
        Some(Preview {
            policy: root.policy.clone(),
            federated: root.federated.clone(),
            is_no_root: root.ended || root.federated.as_ref().is_err_and(String::is_empty),
            kept: root
                .kept
                .as_ref()
                .map(|(name, text)| format!("held: {text}; limen release {name} lets it")),
            steps,
        })
    }

    /// Lets those roots claim their leaves that come before another one.
    fn claim_before(&mut self, id: &ObjectId) {
        let leaf = self.leaf_of(id);
        for other in self.take_dirty() {
            if *other == *id {
                return;
            }
            if self.leaf_of(&other) == leaf
                && let Some(mut root) = self.roots.remove(&other)
            {
                self.interpret(&other, &mut root);
                self.roots.insert(other, root);
            }
        }
    }

    /// The reason for which removals of a root would be held.
    fn verdict(
        &self,
        id: &ObjectId,
        outlook: &super::planning::Outlook,
        rest: &BTreeSet<Arc<str>>,
    ) -> Option<String> {
        if rest.is_empty() {
            return None;
        }
        let removal = self.removal(id, outlook, rest);
        let told =
            |member: &crate::clusters::Member| member.written.as_ref().map(|told| told.leaves);
        let all = self.members.values().filter_map(told).sum::<usize>().max(rest.len());
        let (ledger, limits) = (&self.ledger.ledger, self.options.limits);
        let now = self.ledger.now();
        let verdict = judge(&[removal], ledger, all, limits, now).pop().flatten();
        verdict.map(|reason| format!("would be held: {reason}"))
    }
}

fn step(desired: Desired, replaces: Option<Arc<str>>) -> Step {
    match desired {
        Desired::Leaf { leaf, on_conflict, create } => {
            Step::Leaf { leaf, on_conflict, create, replaces }
        }
        Desired::Nothing => Step::Removal { orphan: false, held: None },
        Desired::Orphan => Step::Removal { orphan: true, held: None },
    }
}

fn report(
    root_uid: Arc<str>,
    applied: Option<Arc<str>>,
    status: Option<Arc<Value>>,
    current: bool,
) -> Report {
    Report {
        held_for: Some(root_uid),
        state: Some(LeafState::Synced),
        message: String::new(),
        status,
        current,
        applied,
        adopted: false,
    }
}
