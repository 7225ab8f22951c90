//! The task that owns everything that the hub knows.
//!
//! ```text
//! hub's watches ──┐
//! syncers ────────┤           ┌─ federation: dirty roots are planned, desired leaves sent
//! observers ──────┼─► events ─┤
//! finished writes ┤           └─ traffic: dirty roots are compiled
//! effects ────────┘                  both mark records ──► outbox ──► hub's API
//! ```
//!
//! Each kind of the hub is watched once, each member has one client. Nothing here waits for the
//! network.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use limen_api::dialect::identity;
use limen_api::{Cluster, NAMESPACE};
use limen_core::federated::{Kind, ObjectId};
use limen_sync::{MemberEvent, Observation, Seen};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::effects::host_verification::{HostVerification, Looked};
use crate::effects::records::records;
use crate::federation::{Answer, Connected, Federation};
use crate::hub::HubOptions;
use crate::hub_kind::{HubKind, own_kinds};
use crate::outbox::{Done, Outbox, Outcome, Record, is_conflict};
use crate::traffic::Traffic;

/// How often time itself is an event: drains and canaries move on.
const TICK: Duration = Duration::from_secs(1);

/// Events from outside.
struct Inbox {
    seen: mpsc::Receiver<(Arc<Kind>, Seen)>,
    members: mpsc::UnboundedReceiver<MemberEvent>,
    observations: mpsc::Receiver<Observation>,
    proofs: mpsc::Receiver<Looked>,
    connections: JoinSet<Connected>,
    answers: JoinSet<Answer>,
}

/// Everything that the hub knows.
pub(crate) struct Task {
    federation: Federation,
    traffic: Traffic,
    outbox: Outbox,
    watches: JoinSet<()>,
    tell: mpsc::Sender<(Arc<Kind>, Seen)>,
    /// Kinds that have been listed, or that the hub need not have and has not.
    listed: BTreeSet<Arc<Kind>>,
}

impl Task {
    /// Runs a hub until it is told to stop.
    pub(crate) async fn run(options: HubOptions, hub: String, stopping: CancellationToken) {
        let (mut task, mut inbox) = Self::new(options, hub);
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            task.settle(&mut inbox);
            let due = task.next_wake();
            tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                Some((kind, seen)) = inbox.seen.recv() => task.see(&kind, seen),
                Some(event) = inbox.members.recv() => task.federation.notice(event),
                Some(observation) = inbox.observations.recv() => task.observe(observation),
                done = task.outbox.finished() => task.written(done),
                Some(Ok(made)) = inbox.connections.join_next() => task.federation.connected(made),
                Some(Ok(answer)) = inbox.answers.join_next() => task.federation.answered(answer),
                Some(looked) = inbox.proofs.recv() => task.traffic.looked(looked),
                _ = tick.tick() => task.traffic.tick(),
                () = tokio::time::sleep_until(due) => {}
            }
            // Events that have already come are taken together: one plan for many of them.
            while let Ok((kind, seen)) = inbox.seen.try_recv() {
                task.see(&kind, seen);
            }
            while let Ok(event) = inbox.members.try_recv() {
                task.federation.notice(event);
            }
            while let Ok(observation) = inbox.observations.try_recv() {
                task.observe(observation);
            }
        }
        task.federation.let_go();
        drop((task.watches, inbox));
        task.outbox.close().await;
    }

    fn new(options: HubOptions, hub: String) -> (Self, Inbox) {
        let (tell, seen) = mpsc::channel(4096);
        let (notices, members) = mpsc::unbounded_channel();
        let (observed, observations) = mpsc::channel(1024);
        let (looked, proofs) = mpsc::channel(64);
        let domain = options.domain.clone();
        let verification = options
            .verify_hosts
            .map(|resolver| HostVerification::new(hub.clone(), resolver, domain.clone(), looked));
        let outbox = Outbox::new(options.concurrency);
        let federation = Federation::new(Arc::new(options), hub, notices, observed);
        let mut answers = JoinSet::new();
        let api = federation.api.clone();
        answers.spawn(async move { Answer::Records(records(api).await) });
        let mut task = Self {
            federation,
            traffic: Traffic::new(domain, verification),
            outbox,
            watches: JoinSet::new(),
            tell,
            listed: BTreeSet::new(),
        };
        own_kinds().into_iter().for_each(|kind| task.watch(kind));
        let connections = JoinSet::new();
        (task, Inbox { seen, members, observations, proofs, connections, answers })
    }

    /// Does everything that is due after events.
    fn settle(&mut self, inbox: &mut Inbox) {
        for kind in std::mem::take(&mut self.federation.to_watch) {
            self.watch(kind);
        }
        let complete = !self.federation.is_started() && self.is_complete();
        self.federation.settle(complete, &mut inbox.connections);
        if let Some(front) = self.traffic.settle() {
            self.federation.front_changed(front);
        }
        self.federation.ask(&mut inbox.answers);
        self.write();
    }

    /// Starts writes that are due, of the parts that have read everything.
    fn write(&mut self) {
        loop {
            if self.federation.is_started() {
                self.outbox.take(&mut self.federation.records);
            }
            if self.traffic.is_complete() {
                self.outbox.take(&mut self.traffic.records);
            }
            let Some(record) = self.outbox.next() else { return };
            let write = match is_of_traffic(&record) {
                true => self.traffic.write(&record, &self.federation.api),
                false => self.federation.write(&record),
            };
            self.outbox.start(record, write);
        }
    }

    fn written(&mut self, Done { record, outcome }: Done) {
        let failed = match outcome {
            Outcome::Object(Ok(_)) if is_of_traffic(&record) => false,
            // It is gone: nothing is left to write about.
            Outcome::Object(Err(error)) if is_of_traffic(&record) => {
                let absent = limen_sync::is_absent(&error);
                if !absent && !is_conflict(&error) {
                    tracing::warn!(?record, %error, "cannot write to the hub; retrying");
                }
                !absent
            }
            outcome => self.federation.written(&record, outcome),
        };
        self.outbox.done(record, failed);
    }

    /// When something can begin by the clock. Events wake the task by themselves.
    fn next_wake(&self) -> Instant {
        let now = Instant::now();
        if self.traffic.is_busy() {
            return now;
        }
        let due = self.outbox.next_due().unwrap_or(now + TICK);
        self.federation.next_renewal().map_or(due, |renewal| due.min(renewal))
    }

    fn watch(&mut self, kind: Arc<Kind>) {
        let api = self.federation.api.clone();
        self.watches.spawn(limen_sync::follow(api, kind, String::new(), self.tell.clone()));
    }

    /// Whether everything that the hub holds has been read once.
    fn is_complete(&self) -> bool {
        let own = own_kinds();
        let mut kinds = own.iter().chain(self.federation.source_kinds());
        kinds.all(|kind| self.listed.contains(kind))
    }

    /// Whether everything that compiling needs has been read once.
    fn is_complete_for_traffic(&self) -> bool {
        let own = own_kinds();
        let mut kinds = own.iter().chain(self.federation.source_kinds());
        kinds.all(|kind| !HubKind::of(kind).is_for_traffic() || self.listed.contains(kind))
    }

    fn see(&mut self, kind: &Arc<Kind>, seen: Seen) {
        match seen {
            Seen::State(objects, version) => {
                self.federation.note_revision(&version);
                self.replaced(kind, objects);
            }
            Seen::Changed(object) => {
                let version = object["metadata"]["resourceVersion"].as_str();
                self.federation.note_revision(version.unwrap_or_default());
                self.changed(kind, object);
            }
            Seen::Gone(object) => self.gone(kind, &identity(&object, kind)),
            Seen::Bookmark(version) => self.federation.note_revision(&version),
            // Without a kind that was not read, what belongs to its objects would be taken for left
            // behind, and dropped.
            Seen::UnknownKind if HubKind::of(kind).is_required() => {
                tracing::warn!(
                    kind = kind.kind,
                    "the hub does not know a kind of every hub; retrying"
                );
            }
            Seen::UnknownKind => {
                self.federation.input_lost(kind, false);
                self.listed.insert(kind.clone());
            }
            // The hub is asked for versions that it serves.
            Seen::OtherVersions(versions) => {
                let versions = versions.join(", ");
                tracing::warn!(kind = kind.kind, versions, "the hub serves other versions only");
                self.federation.input_lost(kind, false);
                self.listed.insert(kind.clone());
            }
            Seen::Behind => self.federation.input_lost(kind, true),
            Seen::Lost(error) => {
                tracing::warn!(kind = kind.kind, %error, "cannot watch the hub; retrying");
                self.federation.input_lost(kind, true);
            }
        }
    }

    /// All objects of a kind: others that are remembered are gone.
    fn replaced(&mut self, kind: &Arc<Kind>, objects: Vec<Value>) {
        let meaning = HubKind::of(kind);
        let known = self.federation.known(meaning, kind).into_iter();
        let mut gone: BTreeSet<_> = known.chain(self.traffic.known(meaning)).collect();
        for object in objects {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            gone.remove(&(text("namespace").to_owned(), text("name").to_owned()));
            self.changed(kind, object);
        }
        for (namespace, name) in gone {
            let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
            self.gone(kind, &ObjectId { kind: kind.clone(), namespace, name });
        }
        self.listed.insert(kind.clone());
        self.federation.input_lost(kind, false);
        if meaning.is_for_traffic() && self.is_complete_for_traffic() {
            self.traffic.listed();
        }
    }

    fn changed(&mut self, kind: &Arc<Kind>, object: Value) {
        let meaning = HubKind::of(kind);
        let (id, object) = (identity(&object, kind), Arc::new(object));
        if meaning == HubKind::Cluster {
            match Cluster::deserialize(&*object) {
                Ok(cluster) => {
                    let (name, cluster) = (Arc::from(id.name), Arc::new(cluster));
                    self.federation.cluster_changed(&name, Arc::clone(&cluster));
                    self.traffic.cluster_changed(&name, cluster);
                }
                Err(error) => tracing::warn!(name = id.name, %error, "cannot read a Cluster"),
            }
            return;
        }
        self.federation.changed(meaning, &id, &object);
        if !is_credential(meaning, &id) {
            self.traffic.changed(meaning, &id, &object);
        }
    }

    fn gone(&mut self, kind: &Kind, id: &ObjectId) {
        let meaning = HubKind::of(kind);
        if meaning == HubKind::Cluster {
            self.federation.cluster_gone(&id.name);
            self.traffic.cluster_gone(&id.name);
            return;
        }
        self.federation.gone(meaning, id);
        if !is_credential(meaning, id) {
            self.traffic.gone(meaning, id);
        }
    }

    fn observe(&mut self, observation: Observation) {
        if self.federation.is_present(&observation) {
            self.traffic.observe(observation);
        }
    }
}

/// Whether an object may be the credential of a member.
fn is_credential(kind: HubKind, id: &ObjectId) -> bool {
    kind == HubKind::Secret && id.namespace.as_deref() == Some(NAMESPACE)
}

/// Whether a record is about traffic.
fn is_of_traffic(record: &Record) -> bool {
    match record {
        Record::Global(_)
        | Record::Certificate(_)
        | Record::Route(_)
        | Record::TrafficPolicy(_) => true,
        Record::Ledger
        | Record::Hold(_)
        | Record::Newer
        | Record::Finalizer(_)
        | Record::Member(_)
        | Record::Root(_)
        | Record::PlacementPolicy(_) => false,
    }
}
