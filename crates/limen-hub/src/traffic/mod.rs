//! From roots, policies and what members hold to `GlobalIngress` objects.
//!
//! ```text
//! hub API ── watch ──► Traffic ◄── observations ── one observer per member
//!    ▲                    │ compile (pure)
//!    └── GlobalIngress ───┘
//! ```
//!
//! One task owns everything. A piece of news makes those roots *dirty* that it can concern; a
//! dirty root is compiled anew, and what it compiles to is written if it has changed. Nothing is
//! kept that cannot be read again: the last compile is the GlobalIngress itself, and what is in
//! force of a policy is in its status.

mod asking;
mod certificates;
mod compiling;
mod edges;
mod members;
mod news;
mod policies;
mod proposing;
mod proving;
mod serving;
#[cfg(test)]
mod tests;
mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use limen_api::Edge;
use limen_core::compile::{Claims, Heard, Key, Members, Tally};
use limen_core::federated::Kind;
use limen_core::global::Global;
use limen_core::health::Judged;
use limen_core::serving::GatewayLiveness;
use limen_sync::{ObjectApi, Observation, Queue, Seen};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::asking::{AskError, Drain, Drained, Picture, drain, undrain};
pub use self::edges::Front;
pub(crate) use self::edges::changed;
pub use self::proposing::hindrance;
pub use self::proving::VerifyHosts;

use self::certificates::Certificates;
use self::compiling::Known;
use self::members::Link;
use self::policies::KnownPolicy;
use self::proving::Proving;
use self::writing::Record;
use crate::connect::SecretData;
use crate::connections::Connections;

/// Roots that are compiled before anything else is listened to.
const BATCH: usize = 500;
/// How often time itself is news: drains and canaries move on.
const TICK: Duration = Duration::from_secs(1);
/// How long writes may take to end when the compiler ends.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// How to compile.
pub struct TrafficOptions {
    /// The hub's API.
    pub api: ObjectApi,
    /// Clients of members, for whoever else needs them.
    pub connections: Connections,
    /// The domain under which roots without a host get one.
    pub domain: Option<String>,
    /// How hosts outside that domain are proven; they need no proof unless said.
    pub verify_hosts: Option<VerifyHosts>,
    /// Requests that the hub gets at the same time.
    pub concurrency: usize,
}

impl TrafficOptions {
    /// The usual way.
    pub fn new(api: ObjectApi) -> Self {
        let connections = Connections::default();
        Self { api, connections, domain: None, verify_hosts: None, concurrency: 32 }
    }
}

/// A running compiler; dropping it ends it.
pub struct Traffic {
    stopping: DropGuard,
    task: tokio::task::JoinHandle<()>,
    front: watch::Receiver<Arc<Front>>,
}

impl Traffic {
    /// Starts to compile. The hub must have been set up.
    pub fn start(options: TrafficOptions) -> Self {
        let stopping = CancellationToken::new();
        let (tell, front) = watch::channel(Arc::default());
        let task = tokio::spawn(World::new(options, tell).run(stopping.clone()));
        Self { stopping: stopping.drop_guard(), task, front }
    }

    /// Where clients reach roots, and how edges and endpoints of members are.
    pub fn front(&self) -> watch::Receiver<Arc<Front>> {
        self.front.clone()
    }

    /// Ends it, and returns when nothing is going on any more.
    pub async fn stop(self) {
        drop(self.stopping);
        // A task that panicked has nothing left to finish.
        let _ = self.task.await;
    }
}

/// Which object a root is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct RootId {
    kind: RootKind,
    namespace: String,
    name: String,
}

/// The kinds of roots that are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RootKind {
    Ingress,
    FederatedIngress,
    Service,
}

impl RootKind {
    /// The kind of a root that is compiled, by group and kind.
    pub(crate) fn of(kind: &Kind) -> Option<Self> {
        match (kind.group(), kind.kind.as_str()) {
            ("networking.k8s.io", "Ingress") => Some(Self::Ingress),
            ("limen.dev", "FederatedIngress") => Some(Self::FederatedIngress),
            ("", "Service") => Some(Self::Service),
            _ => None,
        }
    }
}

/// A GlobalIngress of the hub's own, as it is on the hub.
struct Written {
    root_uid: String,
    uid: String,
    global: Arc<Global>,
    conditions: Vec<Condition>,
}

struct World {
    options: TrafficOptions,
    /// Kinds of the hub that have been listed.
    listed: BTreeSet<Arc<Kind>>,
    watchers: JoinSet<()>,
    observers: mpsc::Sender<Observation>,

    members: Members,
    links: BTreeMap<Arc<str>, Link>,
    secrets: BTreeMap<String, SecretData>,
    reconnect: bool,
    edges: BTreeMap<String, Edge>,
    /// When each was heard of last.
    heard: BTreeMap<String, Heard>,
    /// Gateways whose addresses are shown.
    live: BTreeSet<String>,
    gateways: GatewayLiveness,
    /// What the edges agree on, by cluster and address.
    judged: BTreeMap<(String, String), Judged>,
    /// Since when no edge has spoken of a way in that is still remembered.
    unspoken: BTreeMap<(String, String), i64>,
    front: watch::Sender<Arc<Front>>,
    /// Something of what is published may have changed.
    publish: bool,
    /// Ingresses that gateways serve, with the host that was made for them.
    served: Arc<BTreeMap<Key, Option<String>>>,
    /// What people should know of Ingresses.
    troubled: Arc<BTreeMap<Key, String>>,
    /// Which clusters have ready endpoints.
    endpoints: Tally,
    policies: BTreeMap<Key, KnownPolicy>,
    roots: BTreeMap<RootId, Known>,
    claims: Claims,
    /// Proofs of hosts, where they are asked for.
    proving: Option<Proving>,
    /// Roots may need other proofs than before.
    prove: bool,
    /// Roots by the Services, and by the Ingresses, of members that they lead to.
    by_service: BTreeMap<Key, BTreeSet<RootId>>,
    by_ingress: BTreeMap<Key, BTreeSet<RootId>>,
    /// What is written, by namespace and name.
    globals: BTreeMap<Key, Written>,
    /// GlobalIngress objects that somebody else wrote: they are left alone.
    foreign: BTreeSet<Key>,

    certificates: Certificates,
    dirty: BTreeSet<RootId>,
    /// Roots that there will be more to say about, and when.
    odd_until: BTreeSet<(i64, RootId)>,
    records: Queue<Record>,
}

impl World {
    fn new(options: TrafficOptions, front: watch::Sender<Arc<Front>>) -> Self {
        // Replaced by the real one when the task runs.
        let (observers, _) = mpsc::channel(1);
        Self {
            options,
            listed: BTreeSet::new(),
            watchers: JoinSet::new(),
            observers,
            members: Members::new(),
            links: BTreeMap::new(),
            secrets: BTreeMap::new(),
            reconnect: true,
            edges: BTreeMap::new(),
            heard: BTreeMap::new(),
            live: BTreeSet::new(),
            gateways: GatewayLiveness::default(),
            judged: BTreeMap::new(),
            unspoken: BTreeMap::new(),
            front,
            publish: true,
            served: Arc::default(),
            troubled: Arc::default(),
            endpoints: Tally::default(),
            policies: BTreeMap::new(),
            roots: BTreeMap::new(),
            claims: Claims::default(),
            proving: None,
            prove: false,
            by_service: BTreeMap::new(),
            by_ingress: BTreeMap::new(),
            globals: BTreeMap::new(),
            foreign: BTreeSet::new(),
            certificates: Certificates::default(),
            dirty: BTreeSet::new(),
            odd_until: BTreeSet::new(),
            records: Queue::default(),
        }
    }

    async fn run(mut self, stopping: CancellationToken) {
        let (tell, mut seen) = mpsc::channel::<(Arc<Kind>, Seen)>(1024);
        let (observers, mut observed) = mpsc::channel(1024);
        self.observers = observers;
        let (tell_looked, mut proofs) = mpsc::channel(64);
        let how = self.options.verify_hosts.as_ref();
        self.proving =
            how.map(|how| Proving::new(how, self.options.domain.clone(), tell_looked.clone()));
        for kind in news::kinds() {
            let api = self.options.api.clone();
            self.watchers.spawn(limen_sync::follow(api, kind.clone(), String::new(), tell.clone()));
        }
        let mut writes = JoinSet::new();
        let mut connections = JoinSet::new();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let complete = self.complete();
            if complete {
                self.connect(&mut connections);
                self.look_for_proofs();
                self.compile_dirty();
                self.publish_front();
                self.write(&mut writes);
            }
            let due = self.next_look(complete, writes.len() < self.options.concurrency);
            tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                Some((kind, news)) = seen.recv() => self.see(&kind, news),
                Some(observation) = observed.recv() => self.observe(observation),
                Some(looked) = proofs.recv() => self.looked(looked),
                Some(Ok(done)) = writes.join_next() => self.written(done),
                Some(Ok(made)) = connections.join_next() => self.connected(made),
                _ = tick.tick() => self.tick(),
                () = tokio::time::sleep_until(due) => {}
            }
            // What has already come is taken together: one compile for many news.
            while let Ok((kind, news)) = seen.try_recv() {
                self.see(&kind, news);
            }
            while let Ok(observation) = observed.try_recv() {
                self.observe(observation);
            }
        }
        // What takes too long is dropped: another hub may lead already.
        let last_writes = async { while writes.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_WRITES, last_writes).await;
    }

    /// When there is something to do that no news will come of: at once if roots are dirty, or when
    /// a record is due. What cannot be begun now waits for news, or else it would be looked at
    /// again and again: for all kinds to be listed, and for a write to end.
    fn next_look(&self, complete: bool, room: bool) -> Instant {
        let now = Instant::now();
        let due = match (complete, self.dirty.is_empty()) {
            (false, _) => None,
            (true, false) => Some(now),
            (true, true) => self.records.next_due().filter(|_| room),
        };
        due.unwrap_or(now + TICK)
    }

    /// Whether everything that the hub holds has been read once. Only these kinds are listed.
    fn complete(&self) -> bool {
        self.listed.len() == news::kinds().len()
    }

    fn all_dirty(&mut self) {
        self.dirty.extend(self.roots.keys().cloned());
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    limen_sync::clock::now_seconds()
}
