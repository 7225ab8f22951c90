//! Writes about roots, members, holds and placement policies.

use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;

use limen_api::{Cluster, Hold, MEMBER_FINALIZER, NAMESPACE};
use limen_core::compile::Key;
use limen_core::federated::ObjectId;
use serde_json::{Value, json};

use super::holds::HoldWrite;
use super::permits::{NEWER_ANNOTATION, NEWER_CLUSTER_ANNOTATION};
use super::removals::LEDGER;
use super::{FIRST_LOOK, Federation, GATHER, PATIENCE, UNDER_WAY};
use crate::clusters::{Leaving, Member};
use crate::conditions::condition;
use crate::outbox::root::{RootWrite, Written, finalizers};
use crate::outbox::{Outcome, Record, Write, absent_is_none, is_conflict};
use crate::setup::cluster_object;
use crate::traffic::{Front, RootKind};
use crate::{policies, roots::Root, status};

impl Federation {
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
    pub(crate) fn front_changed(&mut self, front: Arc<Front>) {
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
            let record = Record::PlacementPolicy((namespace.clone(), policy.to_owned()));
            self.records.push_later(record, Instant::now() + UNDER_WAY);
        }
    }

    /// The write that a record needs, if it needs one.
    pub(crate) fn write(&mut self, record: &Record) -> Option<Write> {
        match record {
            Record::Finalizer(id) => self.write_finalizer(id),
            Record::Root(id) => self.write_root(id),
            Record::Member(name) => self.write_member(name),
            Record::PlacementPolicy(key) => self.write_policy(key),
            Record::Hold(name) => self.write_hold(name),
            Record::Ledger => self.write_ledger(),
            Record::Newer => Some(self.write_newer()),
            _ => None,
        }
    }

    /// Leaves do not wait for anything else to be written.
    fn write_finalizer(&self, id: &Arc<ObjectId>) -> Option<Write> {
        let root = self.roots.get(id).filter(|root| wants_finalizer(root) && !root.has_finalizer());
        let root = root?;
        let finalizers = Some(finalizers(&root.object, true));
        Some(self.send(id, root, RootWrite { finalizers, ..RootWrite::default() }))
    }

    fn write_root(&mut self, id: &Arc<ObjectId>) -> Option<Write> {
        let root = self.roots.get(id)?;
        if root.is_under_way(PATIENCE) || (self.has_just_started() && self.is_guessing(root)) {
            self.record_later(id);
            return None;
        }
        let mut write = self.root_write(id, root, limen_sync::clock::now());
        let root = self.roots.get_mut(id)?;
        write.events = std::mem::take(&mut root.events);
        let empty = write.finalizers.is_none()
            && write.status.is_none()
            && write.report.is_none()
            && write.events.is_empty();
        let root = self.roots.get(id).filter(|_| !empty)?;
        Some(self.send(id, root, write))
    }

    fn send(&self, id: &Arc<ObjectId>, root: &Root, write: RootWrite) -> Write {
        let (api, id, object) = (self.api.clone(), id.clone(), root.object.clone());
        Box::pin(async move { Outcome::Root(write.send(&api, &id, &object).await) })
    }

    /// What an earlier hub wrote is better than what is not known yet.
    fn has_just_started(&self) -> bool {
        self.started.is_some_and(|started| started.elapsed() < FIRST_LOOK)
    }

    /// Whether a root with a record waits for members to say what they hold.
    fn is_guessing(&self, root: &Root) -> bool {
        let Ok(federated) = &root.federated else { return false };
        let unknown = |name: &Arc<str>| {
            let member = self.members.get(name);
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

    fn root_write(&self, id: &Arc<ObjectId>, root: &Root, now: jiff::Timestamp) -> RootWrite {
        let mut write = RootWrite::default();
        let concerned = root.has_finalizer()
            || !root.plan.leaves.is_empty()
            || root.memory.governed.is_some()
            || root.federated.is_err();
        let empty_error = root.federated.as_ref().is_err_and(String::is_empty);
        if !concerned || empty_error {
            return write;
        }
        match (root.has_finalizer(), wants_finalizer(root)) {
            // A write of its own.
            (false, true) => return write,
            (true, false) => write.finalizers = Some(finalizers(&root.object, false)),
            _ => {}
        }
        if root.being_deleted() && root.hold.is_none() {
            return write;
        }
        // The status of what is no root any more is whoever's it is now.
        let merged = if root.ended { None } else { status::merged(root) };
        write.status = merged.map(|status| self.front.shown(id, status)).filter(|status| {
            root.written_status.as_ref() != Some(status) && root.object["status"] != *status
        });
        write.report = status::report(id, root, &self.members, self.front.trouble(id), now);
        write
    }

    fn write_member(&mut self, name: &Arc<str>) -> Option<Write> {
        let member = self.members.get(name)?;
        if let Some(finalizers) = self.member_finalizers(name, member) {
            let version = member.cluster.metadata.resource_version.clone();
            let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
            let api = self.api.clone();
            let id = cluster_object("limen.dev/v1alpha1", "Cluster", "clusters", name);
            return Some(Box::pin(async move {
                Outcome::Object(absent_is_none(api.merge(&id, "", &patch).await))
            }));
        }
        // An absence that is not judged yet stays on record.
        if member.returned_unjudged() {
            self.record_member(name);
            return None;
        }
        if self.has_just_started() && member.written.is_some() && !member.is_looked_at() {
            self.record_member(name);
            return None;
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
            return None;
        }
        let api = self.api.clone();
        let id = cluster_object("limen.dev/v1alpha1", "Cluster", "clusters", name);
        let version = member.cluster.metadata.resource_version.clone();
        Some(Box::pin(async move {
            let mut value = serde_json::to_value(&status).unwrap_or_default();
            // A merge patch leaves alone what it does not name.
            for field in ["tombstones", "missingKinds"] {
                if value.get(field).is_none() {
                    value[field] = json!([]);
                }
            }
            let patch = json!({"metadata": {"resourceVersion": version}, "status": value});
            let written = absent_is_none(api.merge(&id, "/status", &patch).await);
            Outcome::Member(Box::new(status), written)
        }))
    }

    fn write_policy(&self, key: &Key) -> Option<Write> {
        let policy = self.policies.get(key)?;
        let (namespace, name) = key;
        let by = |(id, root): &(&Arc<ObjectId>, &Root)| {
            id.namespace.as_ref() == Some(namespace) && root.policy.as_ref() == Some(name)
        };
        let roots = self.roots.iter().filter(by).count();
        let status = policies::status(policy, roots, limen_sync::clock::now());
        if policy.status.as_ref() == Some(&status) {
            return None;
        }
        let api = self.api.clone();
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
        Some(Box::pin(async move {
            let written = api.merge(&id, "/status", &json!({"status": status})).await;
            Outcome::PlacementPolicy(status, absent_is_none(written))
        }))
    }

    fn write_hold(&mut self, name: &Arc<str>) -> Option<Write> {
        let write = self.holds.write(name)?;
        let api = self.api.clone();
        let id = cluster_object("limen.dev/v1alpha1", "Hold", "holds", name);
        Some(Box::pin(async move {
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
            Outcome::Object(written)
        }))
    }

    /// Tells people, on the namespace limen-system, which newer state members carry.
    fn write_newer(&self) -> Write {
        let mark = self.newer.as_ref().map(|newer| newer.mark.to_string());
        let cluster = self.newer.as_ref().map(|newer| newer.cluster.to_string());
        let patch = json!({"metadata": {"annotations": {
            NEWER_ANNOTATION: mark, NEWER_CLUSTER_ANNOTATION: cluster}}});
        let id = cluster_object("v1", "Namespace", "namespaces", NAMESPACE);
        let api = self.api.clone();
        Box::pin(async move { Outcome::Object(api.merge(&id, "", &patch).await.map(Some)) })
    }

    fn write_ledger(&self) -> Option<Write> {
        let version = self.ledger.version;
        if version <= self.ledger.written {
            return None;
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
        let api = self.api.clone();
        Some(Box::pin(
            async move { Outcome::Ledger(version, api.apply(&id, &object).await.map(Some)) },
        ))
    }

    /// Takes the result of a write. Returns whether it failed.
    pub(crate) fn written(&mut self, record: &Record, outcome: Outcome) -> bool {
        match (record, outcome) {
            (Record::Root(id) | Record::Finalizer(id), Outcome::Root(written)) => {
                let failed = self.root_written(id, written);
                if !failed {
                    self.record_later(id);
                }
                return failed;
            }
            (Record::Member(name), Outcome::Object(Ok(object))) => {
                self.member_written(name, object);
                self.record_member(name);
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
            }
            (Record::PlacementPolicy(key), Outcome::PlacementPolicy(status, Ok(_))) => {
                if let Some(policy) = self.policies.get_mut(key) {
                    policy.status = Some(status);
                }
            }
            (Record::Hold(name), Outcome::Object(Ok(object))) => {
                match object.map(serde_json::from_value::<Hold>) {
                    Some(Ok(hold)) => self.hold_written(hold),
                    Some(Err(error)) => tracing::warn!(%error, "cannot read back Hold {name}"),
                    None => self.hold_gone(name),
                }
                self.write_holds();
            }
            (Record::Ledger, Outcome::Ledger(version, Ok(_))) => self.ledger_written(version),
            (
                record,
                Outcome::Object(Err(error))
                | Outcome::Member(_, Err(error))
                | Outcome::Ledger(_, Err(error))
                | Outcome::PlacementPolicy(_, Err(error)),
            ) => {
                if !is_conflict(&error) {
                    tracing::warn!(?record, %error, "cannot write to the hub; retrying");
                }
                return true;
            }
            _ => {}
        }
        false
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
            member.cluster = Arc::new(cluster);
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
            self.root_changed(id, Arc::new(object));
        }
        match written.error {
            Some(error) => {
                if !is_conflict(&error) {
                    tracing::warn!(root = %id, %error, "cannot write to the hub; retrying");
                }
                true
            }
            None => false,
        }
    }
}

/// Whether a root is to have our finalizer: while members may have leaves of it, or are to get some.
fn wants_finalizer(root: &Root) -> bool {
    let comes = !root.being_deleted() && !root.plan.leaves.is_empty();
    !root.finished && (root.has_finalizer() || comes)
}
