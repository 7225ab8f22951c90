//! What the federation writes to the hub: each record when it has changed, and only then.

use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;

use limen_api::{Cluster, ClusterStatus, Hold, MEMBER_FINALIZER, NAMESPACE, PlacementPolicyStatus};
use limen_core::federated::ObjectId;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::holds::HoldWrite;
use super::permits::{NEWER_ANNOTATION, NEWER_CLUSTER_ANNOTATION};
use super::removals::LEDGER;
use super::{FIRST_LOOK, GATHER, PATIENCE, Record, UNDER_WAY, World};
use crate::clusters::{Leaving, Member, condition};
use crate::outbox::{Letter, Written, finalizers};
use crate::setup::cluster_object;
use crate::traffic::{Front, RootKind};
use crate::{policies, roots::Root, status};

/// A finished write.
pub(super) struct Done {
    record: Record,
    outcome: Outcome,
}

enum Outcome {
    Root(Written),
    Hold(kube::Result<Option<Value>>),
    Ledger(u64, kube::Result<()>),
    Newer(kube::Result<()>),
    Member(Box<ClusterStatus>, kube::Result<Option<Value>>),
    /// The finalizers of a Cluster.
    MemberHeld(kube::Result<Option<Value>>),
    Policy(PlacementPolicyStatus, kube::Result<()>),
}

impl World {
    /// A record is to be written as soon as may be.
    pub(super) fn record_now(&mut self, id: &Arc<ObjectId>) {
        self.records.push(Record::Root(id.clone()));
    }

    /// A record is to be written, and more like this may come.
    pub(super) fn record_soon(&mut self, id: &Arc<ObjectId>) {
        self.records.push_later(Record::Root(id.clone()), Instant::now() + GATHER);
    }

    /// A record is to be written, unless better news come first.
    pub(super) fn record_later(&mut self, id: &Arc<ObjectId>) {
        self.records.push_later(Record::Root(id.clone()), Instant::now() + UNDER_WAY);
    }

    /// Clients reach roots somewhere else, or edges think otherwise of members.
    pub(super) fn front_changed(&mut self, front: Arc<Front>) {
        let before = std::mem::replace(&mut self.front, front);
        let roots: Vec<_> = self
            .roots
            .keys()
            .filter(|id| RootKind::of(&id.kind) == Some(RootKind::Ingress))
            .filter(|id| !self.front.same_for(&before, id))
            .cloned()
            .collect();
        for id in roots {
            self.record_soon(&id);
        }
        let members: Vec<_> = self.members.keys().cloned().collect();
        for name in members {
            self.record_member(&name);
        }
    }

    /// The record of the policy that a root goes by, or went by, is to be written.
    pub(super) fn record_policy(&mut self, root: &ObjectId, policy: Option<&str>) {
        if let (Some(namespace), Some(policy)) = (&root.namespace, policy) {
            let record = Record::Policy((namespace.clone(), policy.to_owned()));
            self.records.push_later(record, Instant::now() + UNDER_WAY);
        }
    }

    /// Starts writes that are due.
    pub(super) fn write(&mut self, writes: &mut JoinSet<Done>) {
        if self.started.is_none() {
            return;
        }
        while writes.len() < self.options.concurrency
            && let Some(record) = self.records.pop(Instant::now())
        {
            let started = match &record {
                Record::Root(id) => self.write_root(id, writes),
                Record::Member(name) => self.write_member(name, writes),
                Record::Policy(key) => self.write_policy(key, writes),
                Record::Hold(name) => self.write_hold(name, writes),
                Record::Ledger => self.write_ledger(writes),
                Record::Newer => self.write_newer(writes),
            };
            if !started {
                self.records.done(record, false, Instant::now());
            }
        }
    }

    fn write_root(&mut self, id: &Arc<ObjectId>, writes: &mut JoinSet<Done>) -> bool {
        let now = limen_sync::clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let Some(root) = self.roots.get(id) else { return false };
        if root.is_under_way(PATIENCE) || (self.has_just_started() && self.is_guessing(root)) {
            self.record_later(id);
            return false;
        }
        let mut letter = self.letter(id, root, &now);
        let Some(root) = self.roots.get_mut(id) else { return false };
        letter.events = std::mem::take(&mut root.events);
        let empty = letter.finalizers.is_none()
            && letter.status.is_none()
            && letter.report.is_none()
            && letter.events.is_empty();
        if empty {
            return false;
        }
        let (api, id, object) = (self.options.api.clone(), id.clone(), root.object.clone());
        writes.spawn(async move {
            let written = letter.send(&api, &id, &object).await;
            Done { record: Record::Root(id), outcome: Outcome::Root(written) }
        });
        true
    }

    /// What an earlier hub wrote is better than what is not known yet.
    fn has_just_started(&self) -> bool {
        self.started.is_some_and(|started| started.elapsed() < FIRST_LOOK)
    }

    /// Whether a root with a record waits for members to say what they hold.
    fn is_guessing(&self, root: &Root) -> bool {
        let Ok(federated) = &root.federated else { return false };
        let unknown = |name: &String| {
            let member = self.members.get(name.as_str());
            member.is_some_and(|member| !member.away() && !member.knows(&federated.leaf.kind))
        };
        root.written_report.is_some() && root.plan.leaves.keys().any(unknown)
    }

    /// Tells roots what an earlier hub wrote about them.
    pub(super) fn remember_records(&mut self) {
        let Some(mut records) = self.records_before.replace(BTreeMap::new()) else { return };
        for (id, root) in &mut self.roots {
            let record = records.remove(&status::report_id(id));
            root.written_report = record.filter(|record| status::is_about(record, root.uid()));
            match &root.written_report {
                Some(record) => root.memory = status::memory(record),
                // Records go with their Namespace. What is held was to be deleted.
                None => {
                    let namespace = id.namespace.as_ref();
                    root.record_lost = root.has_finalizer()
                        && root.being_deleted()
                        && namespace.is_some_and(|name| self.terminating.contains_key(name))
                        && self.holds.clusters(root.uid()).is_empty();
                }
            }
        }
    }

    fn letter(&self, id: &Arc<ObjectId>, root: &Root, now: &str) -> Letter {
        let mut letter = Letter::default();
        let concerned = root.has_finalizer()
            || !root.plan.leaves.is_empty()
            || root.memory.governed.is_some()
            || root.federated.is_err();
        let empty_error = root.federated.as_ref().is_err_and(String::is_empty);
        if !concerned || empty_error {
            return letter;
        }
        let comes = !root.being_deleted() && !root.plan.leaves.is_empty();
        let wanted = !root.finished && (root.has_finalizer() || comes);
        if wanted != root.has_finalizer() {
            letter.finalizers = Some(finalizers(&root.object, wanted));
            // Leaves do not wait for anything else to be written.
            if wanted {
                return letter;
            }
        }
        if root.being_deleted() && root.hold.is_none() {
            return letter;
        }
        // The status of what is no root any more is whoever's it is now.
        let merged = if root.ended { None } else { status::merged(root) };
        letter.status = merged.map(|status| self.front.shown(id, status)).filter(|status| {
            root.written_status.as_ref() != Some(status) && root.object["status"] != *status
        });
        letter.report = status::report(id, root, &self.members, self.front.trouble(id), now);
        letter.known = root.written_report.is_some();
        letter
    }

    fn write_member(&mut self, name: &Arc<str>, writes: &mut JoinSet<Done>) -> bool {
        let Some(member) = self.members.get(name) else { return false };
        if let Some(finalizers) = self.member_finalizers(name, member) {
            let version = member.cluster.metadata.resource_version.clone();
            let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
            let (api, record) = (self.options.api.clone(), Record::Member(name.clone()));
            let id = cluster_object("limen.dev/v1alpha1", "Cluster", "clusters", name);
            writes.spawn(async move {
                let written = api.merge(&id, "", &patch).await;
                Done { record, outcome: Outcome::MemberHeld(absent_is_none(written)) }
            });
            return true;
        }
        // An absence that is not judged yet stays on record.
        if member.returned_unjudged() {
            self.record_member(name);
            return false;
        }
        if self.has_just_started() && member.written.is_some() && !member.is_looked_at() {
            self.record_member(name);
            return false;
        }
        let mut status = member.status(limen_sync::clock::now());
        if let Some(newer) = &self.newer {
            let before = member.written.as_ref().map_or(&[][..], |written| &written.conditions);
            let message = format!(
                "cluster {} carries state {} of a newer hub: this hub was restored or copied; limen resume if it is the right one",
                newer.cluster, newer.mark
            );
            let now = limen_sync::clock::now();
            let stopped = condition(before, "Writable", "False", "HubSuperseded", &message, now);
            status.conditions.retain(|known| known.type_ != stopped.type_);
            status.conditions.push(stopped);
        }
        self.front.judge(name, &mut status);
        if member.leaving().is_some() {
            let known = self.leaf_kinds().iter().all(|kind| member.knows(kind));
            let (roots, known) = match member.is_not_ours() {
                true => (0, true),
                false => (self.roots_in(name), known),
            };
            if let (0, true, Some(syncer)) = (roots, known, &member.syncer) {
                syncer.release_claim();
            }
            status.conditions.push(member.let_go(roots, known, limen_sync::clock::now()));
        }
        if member.written.as_ref() == Some(&status) {
            return false;
        }
        let api = self.options.api.clone();
        let id = cluster_object("limen.dev/v1alpha1", "Cluster", "clusters", name);
        let record = Record::Member(name.clone());
        let version = member.cluster.metadata.resource_version.clone();
        writes.spawn(async move {
            let mut value = serde_json::to_value(&status).unwrap_or_default();
            // A merge patch leaves alone what it does not name.
            for field in ["tombstones", "missingKinds"] {
                if value.get(field).is_none() {
                    value[field] = json!([]);
                }
            }
            let patch = json!({"metadata": {"resourceVersion": version}, "status": value});
            let written = absent_is_none(api.merge(&id, "/status", &patch).await);
            Done { record, outcome: Outcome::Member(Box::new(status), written) }
        });
        true
    }

    fn write_policy(&mut self, key: &(String, String), writes: &mut JoinSet<Done>) -> bool {
        let Some(policy) = self.policies.get(key) else { return false };
        let (namespace, name) = key;
        let by = |(id, root): &(&Arc<ObjectId>, &Root)| {
            id.namespace.as_ref() == Some(namespace) && root.policy.as_ref() == Some(name)
        };
        let roots = self.roots.iter().filter(by).count();
        let status = policies::status(policy, roots, limen_sync::clock::now());
        if policy.status.as_ref() == Some(&status) {
            return false;
        }
        let (api, record) = (self.options.api.clone(), Record::Policy(key.clone()));
        let id = ObjectId {
            kind: limen_api::kind((
                "limen.dev/v1alpha1",
                "PlacementPolicy",
                "placementpolicies",
                true,
            )),
            namespace: Some(namespace.clone()),
            name: name.clone(),
        };
        writes.spawn(async move {
            let written = api.merge(&id, "/status", &json!({"status": status})).await;
            let written = absent_is_fine(written);
            Done { record, outcome: Outcome::Policy(status, written) }
        });
        true
    }

    fn write_hold(&mut self, name: &Arc<str>, writes: &mut JoinSet<Done>) -> bool {
        let Some(write) = self.holds.write(name) else { return false };
        let api = self.options.api.clone();
        let id = cluster_object("limen.dev/v1alpha1", "Hold", "holds", name);
        let record = Record::Hold(name.clone());
        writes.spawn(async move {
            let written = match write {
                HoldWrite::Create(hold) => {
                    let object = serde_json::to_value(&hold).unwrap_or_default();
                    api.create(&id.kind, &object).await.map(Some)
                }
                HoldWrite::Update { spec, version } => {
                    let mut spec = serde_json::to_value(&spec).unwrap_or_default();
                    if let Some(spec) = spec.as_object_mut() {
                        spec.remove("release");
                    }
                    let patch = json!({"metadata": {"resourceVersion": version}, "spec": spec});
                    api.merge(&id, "", &patch).await.map(Some)
                }
                HoldWrite::Delete { uid } => api.delete(&id, &uid).await.map(|()| None),
            };
            Done { record, outcome: Outcome::Hold(written) }
        });
        true
    }

    /// Tells people, on the namespace limen-system, which newer state members carry.
    fn write_newer(&mut self, writes: &mut JoinSet<Done>) -> bool {
        let mark = self.newer.as_ref().map(|newer| newer.mark.to_string());
        let cluster = self.newer.as_ref().map(|newer| newer.cluster.to_string());
        let patch = json!({"metadata": {"annotations": {
            NEWER_ANNOTATION: mark, NEWER_CLUSTER_ANNOTATION: cluster}}});
        let id = cluster_object("v1", "Namespace", "namespaces", NAMESPACE);
        let api = self.options.api.clone();
        writes.spawn(async move {
            let written = api.merge(&id, "", &patch).await.map(drop);
            Done { record: Record::Newer, outcome: Outcome::Newer(written) }
        });
        true
    }

    fn write_ledger(&mut self, writes: &mut JoinSet<Done>) -> bool {
        let version = self.ledger.version;
        if version <= self.ledger.written {
            return false;
        }
        let ledger = serde_json::to_string(&self.ledger.ledger).unwrap_or_default();
        let id = ObjectId {
            kind: limen_api::kind(("v1", "ConfigMap", "configmaps", true)),
            namespace: Some(NAMESPACE.to_owned()),
            name: LEDGER.to_owned(),
        };
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": LEDGER, "namespace": NAMESPACE}, "data": {"ledger": ledger}});
        let api = self.options.api.clone();
        writes.spawn(async move {
            let written = api.apply(&id, &object).await.map(drop);
            Done { record: Record::Ledger, outcome: Outcome::Ledger(version, written) }
        });
        true
    }

    pub(super) fn written(&mut self, done: Done) {
        let failed = match (&done.record, done.outcome) {
            (Record::Root(id), Outcome::Root(written)) => self.root_written(id, written),
            (Record::Member(name), Outcome::MemberHeld(Ok(object))) => {
                self.member_written(name, object);
                self.record_member(name);
                false
            }
            (Record::Member(name), Outcome::Member(status, Ok(object))) => {
                if let Some(member) = self.members.get_mut(name) {
                    member.written = Some(*status);
                }
                self.member_written(name, object);
                // A root may wait for a tombstone to be written.
                let deleting = self.roots.iter().filter(|(_, root)| root.being_deleted());
                let deleting: Vec<_> = deleting.map(|(id, _)| id.clone()).collect();
                self.dirty.extend(deleting);
                false
            }
            (
                Record::Member(_),
                Outcome::Member(_, Err(error)) | Outcome::MemberHeld(Err(error)),
            ) if is_conflict(&error) => true,
            (
                Record::Member(name),
                Outcome::Member(_, Err(error)) | Outcome::MemberHeld(Err(error)),
            ) => {
                tracing::warn!(cluster = %name, %error, "cannot write a Cluster; retrying");
                true
            }
            (Record::Policy(key), Outcome::Policy(status, Ok(()))) => {
                if let Some(policy) = self.policies.get_mut(key) {
                    policy.status = Some(status);
                }
                false
            }
            (Record::Hold(name), Outcome::Hold(Ok(object))) => {
                match object.map(serde_json::from_value::<Hold>) {
                    Some(Ok(hold)) => self.hold_written(hold),
                    Some(Err(error)) => tracing::warn!(%error, "cannot read back Hold {name}"),
                    None => self.hold_gone(name),
                }
                self.write_holds();
                false
            }
            (Record::Hold(name), Outcome::Hold(Err(error))) => {
                tracing::warn!(hold = %name, %error, "cannot write a Hold; retrying");
                true
            }
            (Record::Ledger, Outcome::Ledger(version, Ok(()))) => {
                self.ledger_written(version);
                false
            }
            (Record::Ledger, Outcome::Ledger(_, Err(error))) => {
                tracing::warn!(%error, "cannot write the ledger of removals; retrying");
                true
            }
            (Record::Newer, Outcome::Newer(Err(error))) => {
                tracing::warn!(%error, "cannot annotate the namespace {NAMESPACE}; retrying");
                true
            }
            (Record::Policy((namespace, name)), Outcome::Policy(_, Err(error))) => {
                tracing::warn!(namespace, name, %error, "the status of a policy cannot be written");
                true
            }
            _ => false,
        };
        self.records.done(done.record.clone(), failed, Instant::now());
        if let Record::Root(id) = &done.record
            && !failed
        {
            self.record_later(id);
        }
    }

    /// The Cluster as a write left it, unless the watch has told more already.
    fn member_written(&mut self, name: &Arc<str>, object: Option<Value>) {
        let Some(Ok(cluster)) = object.map(serde_json::from_value::<Cluster>) else { return };
        let Some(member) = self.members.get_mut(name) else { return };
        let version = |cluster: &Cluster| {
            let version = cluster.metadata.resource_version.as_ref();
            version.and_then(|version| version.parse::<u64>().ok())
        };
        if version(&cluster) > version(&member.cluster) {
            member.cluster = cluster;
        }
    }

    /// The finalizers that a Cluster should have, if it has others: a member is let go of before its
    /// Cluster may go.
    fn member_finalizers(&self, name: &Arc<str>, member: &Member) -> Option<Value> {
        let metadata = &member.cluster.metadata;
        let deleting = metadata.deletion_timestamp.is_some();
        let present = metadata.finalizers.as_deref().unwrap_or_default();
        let has = present.iter().any(|finalizer| finalizer == MEMBER_FINALIZER);
        let wanted = match (member.leaving(), deleting) {
            (None, _) => true,
            (Some(Leaving::Abandon), _) => false,
            (Some(_), false) => has,
            (Some(_), true) => {
                let known = self.leaf_kinds().iter().all(|kind| member.knows(kind));
                has && !member.is_not_ours() && (self.roots_in(name) > 0 || !known)
            }
        };
        if wanted == has {
            return None;
        }
        let others = present.iter().filter(|finalizer| *finalizer != MEMBER_FINALIZER);
        let ours = wanted.then_some(MEMBER_FINALIZER);
        Some(others.map(String::as_str).chain(ours).map(Value::from).collect())
    }

    fn root_written(&mut self, id: &Arc<ObjectId>, written: Written) -> bool {
        let Some(root) = self.roots.get_mut(id) else { return false };
        if let Some(status) = written.status {
            root.written_status = Some(status);
        }
        if let Some(report) = written.report {
            root.written_report = Some(status::recorded(&report));
        }
        // No need to wait until the watch tells, unless that has told more already.
        if let Some(object) = written.object.filter(|object| !root.is_newer_than(object)) {
            self.root_changed(id, object);
        }
        match written.error {
            Some(kube::Error::Api(status)) if status.code == 409 => true,
            Some(error) => {
                tracing::warn!(root = %id, %error, "a record cannot be written; trying again");
                true
            }
            None => false,
        }
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn absent_is_none(written: kube::Result<Value>) -> kube::Result<Option<Value>> {
    match written {
        Err(error) if limen_sync::is_absent(&error) => Ok(None),
        other => other.map(Some),
    }
}

/// What is gone needs no record.
fn absent_is_fine(written: kube::Result<serde_json::Value>) -> kube::Result<()> {
    match written {
        Err(error) if limen_sync::is_absent(&error) => Ok(()),
        other => other.map(drop),
    }
}
