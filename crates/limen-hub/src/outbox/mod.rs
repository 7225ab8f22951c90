//! Everything that the hub writes to its own API: each record when it has changed, the most urgent
//! first, each at most once at a time.

pub(crate) mod event;
pub(crate) mod root;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use limen_api::{ClusterStatus, PlacementPolicyStatus};
use limen_core::compile::Key;
use limen_core::federated::ObjectId;
use limen_sync::{ObjectApi, Queue};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::root::Written;

/// How long writes may take to end when the hub ends.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// A record on the hub. Their order is their urgency: the ledger and holds guard members, leaves wait
/// for finalizers, clients for compiled objects; statuses come last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Record {
    /// The ledger of removals.
    Ledger,
    /// The object of a hold.
    Hold(Arc<str>),
    /// The newer state that members carry.
    Newer,
    /// The finalizer of a root that gets its first leaves.
    Finalizer(Arc<ObjectId>),
    /// A GlobalIngress.
    Global(Key),
    /// The copy for gateways of a Secret.
    Certificate(Key),
    /// The generated host of a compiled root, its Events, its own status.
    Route(Arc<ObjectId>),
    /// The status of a Cluster, and its finalizer.
    Member(Arc<str>),
    /// The status of a TrafficPolicy.
    TrafficPolicy(Key),
    /// The status of a root, its FederatedStatus and its Events.
    Root(Arc<ObjectId>),
    /// The status of a PlacementPolicy.
    PlacementPolicy(Key),
}

/// Records that are to be written, as the index marks them.
#[derive(Default)]
pub(crate) struct Marks {
    now: Vec<Record>,
    later: Vec<(Instant, Record)>,
}

impl Marks {
    /// Marks a record to be written as soon as may be.
    pub(crate) fn push(&mut self, record: Record) {
        self.now.push(record);
    }

    /// Marks a record to be written at some time: more may come until then.
    pub(crate) fn push_later(&mut self, record: Record, due: Instant) {
        self.later.push((due, record));
    }
}

/// A write under way.
pub(crate) type Write = BoxFuture<'static, Outcome>;

/// The result of a write.
pub(crate) enum Outcome {
    /// Of a root, in its parts.
    Root(Written),
    /// Of the status of a Cluster.
    Member(Box<ClusterStatus>, kube::Result<Option<Value>>),
    /// Of the ledger in this version.
    Ledger(u64, kube::Result<Option<Value>>),
    /// Of the status of a PlacementPolicy.
    PlacementPolicy(PlacementPolicyStatus, kube::Result<Option<Value>>),
    /// Of anything else: the object that it left, if any.
    Object(kube::Result<Option<Value>>),
}

/// A finished write.
pub(crate) struct Done {
    pub(crate) record: Record,
    pub(crate) outcome: Outcome,
}

/// Writes that wait, and those that are under way.
pub(crate) struct Outbox {
    queue: Queue<Record>,
    writes: JoinSet<Done>,
    concurrency: usize,
}

impl Outbox {
    pub(crate) fn new(concurrency: usize) -> Self {
        Self { queue: Queue::default(), writes: JoinSet::new(), concurrency }
    }

    /// Takes over the marks of the index.
    pub(crate) fn take(&mut self, marks: &mut Marks) {
        for record in marks.now.drain(..) {
            self.queue.push(record);
        }
        for (due, record) in marks.later.drain(..) {
            self.queue.push_later(record, due);
        }
    }

    /// The most urgent record that is due, while there is room for another write.
    pub(crate) fn next(&mut self) -> Option<Record> {
        self.has_room().then(|| self.queue.pop(Instant::now())).flatten()
    }

    /// Starts the write of a record; without one the record is as it should be.
    pub(crate) fn start(&mut self, record: Record, write: Option<Write>) {
        match write {
            Some(write) => {
                let done = async move { Done { record, outcome: write.await } };
                self.writes.spawn(done);
            }
            None => self.queue.done(record, false, Instant::now()),
        }
    }

    /// The next write that ends; never, while none is under way.
    pub(crate) async fn finished(&mut self) -> Done {
        loop {
            match self.writes.join_next().await {
                Some(Ok(done)) => return done,
                // A write that panicked is not tried again.
                Some(Err(error)) => tracing::error!(%error, "a write has ended without a result"),
                None => return std::future::pending().await,
            }
        }
    }

    /// A write has ended; failures are tried again, later and later.
    pub(crate) fn done(&mut self, record: Record, failed: bool) {
        self.queue.done(record, failed, Instant::now());
    }

    /// When another write can begin by the clock; the end of those under way makes room.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.queue.next_due().filter(|_| self.has_room())
    }

    /// Waits until writes under way have ended, for a while: another hub may lead already.
    pub(crate) async fn close(mut self) {
        let ended = async { while self.writes.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_WRITES, ended).await.is_err() {
            tracing::warn!("the hub does not answer; the last records may not have been written");
        }
    }

    fn has_room(&self) -> bool {
        self.writes.len() < self.concurrency
    }
}

/// Writes the status of an object over the version that it was decided on; a newer version is a
/// conflict. A late request of an earlier leader changes nothing.
pub(crate) async fn write_status(
    api: &ObjectApi,
    id: &ObjectId,
    version: Option<&str>,
    status: impl Serialize,
) -> kube::Result<Value> {
    let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
    api.merge(id, "/status", &patch).await
}

/// The result of a write to what may be gone: nothing needs a record then.
pub(crate) fn absent_is_none(written: kube::Result<Value>) -> kube::Result<Option<Value>> {
    match written {
        Err(error) if limen_sync::is_absent(&error) => Ok(None),
        other => other.map(Some),
    }
}

/// Whether somebody else wrote at the same time.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}
