//! The task that owns every root and every member.
//!
//! News come from three sides: the hub's own watches, the syncers, and finished writes. Each makes
//! some roots or members *dirty*; a dirty root is planned anew and its wishes are sent, a dirty
//! record is written. Nothing here waits for the network.

mod deletion;
mod graves;
mod holds;
mod interpret;
mod members;
mod news;
mod permits;
mod planning;
mod questions;
mod removals;
mod scaling;
#[cfg(test)]
mod tests;
mod tombstones;
mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use limen_api::PlacementPolicy;
use limen_api::dialect::Home;
use limen_core::federated::{Kind, ObjectId};
use limen_core::lifecycle::Limits;
use limen_core::mark::Mark;
use limen_core::placement::Clusters;
use limen_core::selector::Labels;
use limen_sync::{Fence, MemberEvent, ObjectApi, Queue, Seen};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::graves::Graves;
use self::holds::Holds;
pub(crate) use self::news::secret_data;
use self::permits::Newer;
use self::removals::LedgerState;
use self::scaling::Scaling;
use crate::clusters::Members;
use crate::connect::SecretData;
use crate::connections::Connections;
use crate::kinds::{Source, Sources, sources_of};
use crate::roots::Root;
use crate::setup::{SetupError, hub_id};
use crate::traffic::Front;

/// How long records wait for more news before they are written.
const GATHER: Duration = Duration::from_millis(50);
/// How long records of what is under way wait to become records of what is done.
const UNDER_WAY: Duration = Duration::from_millis(300);
/// How long members may take for what was wished before a record says that it is not done.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long members may take, after a start, to be looked at before what was known is replaced.
const FIRST_LOOK: Duration = Duration::from_secs(10);
/// The longest time without a look at the clock.
const MOMENT: Duration = Duration::from_secs(10);
/// Members are connected and probed first.
const FIRST_RENEWAL: Duration = Duration::from_secs(2);
/// How long writes to the hub may take to end when the federation ends.
const LAST_WRITES: Duration = Duration::from_secs(5);
/// How to federate.
pub struct FederationOptions {
    /// The hub's API.
    pub api: ObjectApi,
    /// Whose API that is.
    pub home: Home,
    /// Clients of members, for whoever else needs them.
    pub connections: Connections,
    /// How much may be deleted at once.
    pub limits: Limits,
    /// The time between two probes of a member.
    pub probe_every: Duration,
    /// Requests that a member, and the hub, get at the same time.
    pub concurrency: usize,
    /// Where clients reach roots, and how edges and endpoints of members are, if anybody compiles.
    pub front: Option<watch::Receiver<Arc<Front>>>,
    /// How often to see whether credentials of members are to be renewed.
    pub renew_every: Duration,
    /// The part of a credential's life that is left when it is renewed.
    pub renew_percent_left: u8,
    /// Permission to write, for as long as this hub leads.
    pub fence: Fence,
    /// Epoch of this hub's lead, greater than that of all leaders before it.
    pub epoch: u64,
    /// Identity of this process among the hubs that may lead.
    pub instance: String,
}

impl FederationOptions {
    /// The usual way.
    pub fn new(api: ObjectApi, home: Home) -> Self {
        Self {
            api,
            home,
            connections: Connections::default(),
            limits: Limits::default(),
            probe_every: Duration::from_secs(5),
            concurrency: 32,
            front: None,
            renew_every: Duration::from_secs(300),
            renew_percent_left: 33,
            fence: Fence::open(),
            epoch: 1,
            instance: "hub".to_owned(),
        }
    }
}

/// A running federation; dropping it ends it.
pub struct Federation {
    stopping: DropGuard,
    task: tokio::task::JoinHandle<()>,
}

impl Federation {
    /// Starts to federate. The hub must have been set up.
    pub async fn start(options: FederationOptions) -> Result<Self, SetupError> {
        let hub = hub_id(&options.api).await?;
        let stopping = CancellationToken::new();
        let task = tokio::spawn(World::new(options, hub).run(stopping.clone()));
        Ok(Self { stopping: stopping.drop_guard(), task })
    }

    /// Ends it, and returns when nothing is going on any more.
    pub async fn stop(self) {
        drop(self.stopping);
        // A task that panicked has nothing left to finish.
        let _ = self.task.await;
    }
}

/// What is written about: a root, a member, or a policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Record {
    Root(Arc<ObjectId>),
    Member(Arc<str>),
    /// A policy, by namespace and name.
    Policy((String, String)),
    /// The object of a hold.
    Hold(Arc<str>),
    /// The ledger of removals.
    Ledger,
    /// The newer state that members carry.
    Newer,
}

struct World {
    options: FederationOptions,
    hub: String,
    sources: Sources,
    /// Kinds that leaves of some root have, or had: members are watched for them.
    used: BTreeSet<Arc<Kind>>,
    /// Kinds that have been listed, or that the hub does not have.
    listed: BTreeSet<Arc<Kind>>,
    /// When everything that the hub holds had been read.
    started: Option<Instant>,
    watchers: JoinSet<()>,
    tell: mpsc::Sender<(Arc<Kind>, Seen)>,
    notices: mpsc::UnboundedSender<MemberEvent>,

    front: Arc<Front>,
    members: Members,
    /// The labels of members, as planning wants them.
    clusters: Clusters,
    secrets: BTreeMap<String, SecretData>,
    /// A member or a Secret has changed since members were last connected.
    reconnect: bool,
    /// How many connections to members have been made.
    connections: u64,
    namespaces: BTreeMap<String, Labels>,
    policies: BTreeMap<(String, String), PlacementPolicy>,
    /// Placements and overrides of the form in three objects, by their ids.
    parts: BTreeMap<ObjectId, Value>,
    roots: BTreeMap<Arc<ObjectId>, Root>,
    /// Which root a leaf belongs to; the first that claims it.
    owners: BTreeMap<ObjectId, Arc<ObjectId>>,
    /// Who else claims a leaf, and may have it when its owner is no root any more.
    rivals: BTreeMap<ObjectId, BTreeSet<Arc<ObjectId>>>,
    scaling: Scaling,
    /// The kind of autoscalers.
    scaler_kind: Arc<Kind>,
    /// Policies that cannot be read, with the error.
    unreadable_policies: BTreeMap<(String, String), String>,
    /// Namespaces that are being deleted, with the number of roots that were in them.
    terminating: BTreeMap<String, usize>,
    /// Kinds that planning depends on and that cannot be read: nothing is planned meanwhile.
    lost_inputs: BTreeSet<Arc<Kind>>,

    dirty: BTreeSet<Arc<ObjectId>>,
    /// Roots that were deleted perhaps unseen.
    unsure: Vec<Arc<ObjectId>>,
    next_renewal: Instant,
    records: Queue<Record>,
    /// What an earlier hub wrote about roots, until roots know it.
    records_before: Option<BTreeMap<ObjectId, Box<str>>>,
    holds: Holds,
    ledger: LedgerState,
    /// The highest revision of the hub's store that was seen.
    revision: u64,
    /// State that members carry and this hub does not have: nothing is written to members.
    newer: Option<Newer>,
    /// The newest mark that a person has decided to overrule.
    resumed: Option<Mark>,
    /// Members whose permit is to be considered.
    permits_due: BTreeSet<Arc<str>>,
    graves: Graves,
}

impl World {
    fn new(mut options: FederationOptions, hub: String) -> Self {
        options.api = options.api.with_fence(options.fence.clone());
        // Replaced by the real ones when the task runs.
        let (tell, _) = mpsc::channel(1);
        let (notices, _) = mpsc::unbounded_channel();
        Self {
            options,
            hub,
            sources: Sources::new(),
            used: BTreeSet::new(),
            listed: BTreeSet::new(),
            started: None,
            records_before: None,
            watchers: JoinSet::new(),
            tell,
            notices,
            front: Arc::default(),
            members: Members::new(),
            clusters: Clusters::new(),
            secrets: BTreeMap::new(),
            reconnect: true,
            connections: 0,
            namespaces: BTreeMap::new(),
            policies: BTreeMap::new(),
            parts: BTreeMap::new(),
            roots: BTreeMap::new(),
            owners: BTreeMap::new(),
            rivals: BTreeMap::new(),
            scaling: Scaling::default(),
            scaler_kind: limen_api::kind((
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
                "horizontalpodautoscalers",
                true,
            )),
            unreadable_policies: BTreeMap::new(),
            terminating: BTreeMap::new(),
            lost_inputs: BTreeSet::new(),
            dirty: BTreeSet::new(),
            unsure: Vec::new(),
            next_renewal: Instant::now() + FIRST_RENEWAL,
            records: Queue::default(),
            holds: Holds::default(),
            ledger: LedgerState::default(),
            revision: 0,
            newer: None,
            resumed: None,
            permits_due: BTreeSet::new(),
            graves: Graves::default(),
        }
    }

    async fn run(mut self, stopping: CancellationToken) {
        let (tell, mut seen) = mpsc::channel(4096);
        let (notices, mut noticed) = mpsc::unbounded_channel();
        (self.tell, self.notices) = (tell, notices);
        let mut writes = JoinSet::new();
        let mut connections = JoinSet::new();
        let mut front = self.options.front.take();
        let mut answers = JoinSet::new();
        answers.spawn(questions::records(self.options.api.clone()));
        for kind in news::own_kinds() {
            self.watch(kind);
        }
        for row in limen_api::NATIVE {
            self.federate_kind(&limen_api::kind(row));
        }
        loop {
            self.settle(&mut connections);
            self.ask(&mut answers);
            self.write(&mut writes);
            let due = self.next_wake(writes.len());
            tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                Some((kind, seen)) = seen.recv() => self.see(&kind, seen),
                Some(notice) = noticed.recv() => self.notice(notice),
                Some(Ok(done)) = writes.join_next() => self.written(done),
                Some(Ok(made)) = connections.join_next() => self.connected(made),
                Some(new) = crate::traffic::changed(&mut front) => self.front_changed(new),
                Some(Ok(answer)) = answers.join_next() => self.answered(answer),
                () = tokio::time::sleep_until(due) => {}
            }
            // What has already come is taken together: one plan for many news.
            while let Ok((kind, news)) = seen.try_recv() {
                self.see(&kind, news);
            }
            while let Ok(notice) = noticed.try_recv() {
                self.notice(notice);
            }
        }
        // Members first: whoever federates next decides about them from now on.
        self.members.clear();
        drop((self.watchers, connections, answers));
        let ended = async { while writes.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_WRITES, ended).await.is_err() {
            tracing::warn!("the hub does not answer; the last records may not have been written");
        }
    }

    /// When something can begin by the clock, once it has started: a record can be written, if there
    /// is room for it, or a credential renewed. What is under way tells by itself when it has ended.
    fn next_wake(&self, writing: usize) -> Instant {
        let now = Instant::now();
        if self.started.is_none() {
            return now + MOMENT;
        }
        let room = writing < self.options.concurrency;
        let due = self.records.next_due().filter(|_| room).unwrap_or(now + MOMENT);
        due.min(self.next_renewal.max(now + GATHER))
    }

    /// Starts to federate a kind, in all its forms.
    fn federate_kind(&mut self, leaf: &Arc<Kind>) {
        for (kind, source) in sources_of(leaf) {
            if self.sources.insert(kind.clone(), source).is_none() {
                self.watch(kind);
            }
        }
        for member in self.members.values() {
            if let Some(syncer) = &member.syncer {
                syncer.watch(leaf.clone());
            }
        }
    }

    /// Has members watched for a kind that roots have.
    fn use_kind(&mut self, leaf: &Arc<Kind>) {
        if !self.used.contains(leaf) {
            self.used.insert(leaf.clone());
            for syncer in self.members.values().filter_map(|member| member.syncer.as_ref()) {
                syncer.watch(leaf.clone());
            }
        }
    }

    fn leaf_kinds(&self) -> Vec<Arc<Kind>> {
        let native = |(kind, source): (&Arc<Kind>, &Source)| {
            (*source == Source::Native).then(|| kind.clone())
        };
        self.sources.iter().filter_map(native).collect()
    }

    fn watch(&mut self, kind: Arc<Kind>) {
        let api = self.options.api.clone();
        self.watchers.spawn(limen_sync::follow(api, kind, String::new(), self.tell.clone()));
    }

    /// Whether everything that the hub holds has been read once.
    fn complete(&self) -> bool {
        self.records_before.is_some()
            && news::own_kinds()
                .iter()
                .chain(self.sources.keys())
                .all(|kind| self.listed.contains(kind))
    }
}
