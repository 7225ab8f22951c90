//! The handle to the task that owns one member, and the events that it tells.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use limen_core::federated::{Kind, ObjectId};
use limen_core::health::Judged;
use limen_core::mark::Mark;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::authority::Permit;
use crate::claim::Claim;
use crate::desired::{DesiredLeaf, Report};
use crate::engine::Engine;
use crate::fence::Fence;
use crate::member_error::MemberError;
use crate::object_api::ObjectApi;
use crate::probe::Description;
use crate::work::LeafChange;

/// How a member is synced.
pub struct SyncerOptions {
    /// The member's name.
    pub cluster: Arc<str>,
    /// Connection generation, which events carry.
    pub connection: u64,
    /// The hub that leaves are marked with.
    pub hub: String,
    /// The kinds to look at from the start. Each is watched once there is a leaf of it, a desired
    /// leaf, or [`Syncer::watch`].
    pub kinds: Vec<Arc<Kind>>,
    /// The time between two probes of the member's API, and how long a watch may be silent about
    /// a deletion before the leaf is read.
    pub probe_every: Duration,
    /// The origin of probe times. Members with the same origin are probed together, which costs a
    /// hub of many members far less than to wake up for each.
    pub beat_from: Instant,
    /// How many requests a member gets at the same time.
    pub concurrency: usize,
    /// Closes when the hub no longer leads: no write is sent then.
    pub fence: Fence,
}

/// An event of one member.
#[derive(Clone, Debug)]
pub struct MemberEvent {
    /// The member.
    pub cluster: Arc<str>,
    /// Connection generation: a new connection starts again from the beginning.
    pub connection: u64,
    /// The event.
    pub what: MemberNews,
}

/// What has happened.
#[derive(Clone, Debug)]
pub enum MemberNews {
    /// How far a leaf is.
    Leaf(Arc<ObjectId>, Report),
    /// A leaf was changed.
    Changed(Arc<ObjectId>, LeafChange),
    /// A leaf could not be changed; told once for each kind of failure.
    Failed(Arc<ObjectId>, MemberError),
    /// Whether the member's API answers.
    Api(ApiVerdict),
    /// Identity, version and claim of the member: on connect, after every return from Unhealthy, after a broken watch, and
    /// after a late claim of an earlier epoch. The hub answers with a permit that names its number.
    Described(Description),
    /// The number of leaves that it holds, and the kinds that it does not serve.
    Inventory {
        /// Leaves that it holds.
        leaves: usize,
        /// Kinds that it serves in no version.
        missing: BTreeSet<Arc<Kind>>,
    },
    /// All leaves of a kind that it holds have been reported.
    Listed(Arc<Kind>),
    /// It serves a kind in no version: its leaves of that kind are reported as absent next, and may
    /// come back with the kind.
    Unserved(Arc<Kind>),
    /// A kind cannot be listed or watched; told once, and ended by [`MemberNews::Listed`].
    Lost(Arc<Kind>, String),
    /// A leaf or the claim carries a newer mark than any told before on this connection.
    Mark(Mark),
    /// The claim names another instance, in no earlier epoch, or a later epoch: writes have stopped.
    Claimed(Claim),
    /// The member carries no claim of this instance any more, as [`Syncer::release_claim`] asked.
    ClaimReleased,
}

/// Whether a member's API answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiVerdict {
    /// The verdict, with hysteresis.
    pub judged: Judged,
    /// The last failure, if the last probe failed.
    pub error: Option<MemberError>,
}

pub(crate) enum Command {
    Desire(Arc<ObjectId>, Option<DesiredLeaf>),
    Watch(Arc<Kind>),
    Permit(Option<Permit>),
    ReleaseClaim,
}

/// A handle to the task that owns one member; dropping it ends the task, with all that is under
/// way in the member.
pub struct Syncer {
    commands: mpsc::UnboundedSender<Command>,
    _task: JoinSet<()>,
}

impl Syncer {
    /// Starts the task, which reads only until it gets a permit. Events come in order.
    pub fn start(
        api: ObjectApi,
        options: SyncerOptions,
        events: mpsc::UnboundedSender<MemberEvent>,
    ) -> Self {
        let (commands, received) = mpsc::unbounded_channel();
        let mut task = JoinSet::new();
        task.spawn(Engine::new(api, options, events).run(received));
        Self { commands, _task: task }
    }

    /// Sets the desired leaf; `None` means that it is of no concern any more.
    pub fn desire(&self, leaf: Arc<ObjectId>, desired: Option<DesiredLeaf>) {
        // The task ends only with this handle.
        let _ = self.commands.send(Command::Desire(leaf, desired));
    }

    /// Watches a kind, of which there may be leaves at any time.
    pub fn watch(&self, kind: Arc<Kind>) {
        let _ = self.commands.send(Command::Watch(kind));
    }

    /// Permits writes, or stops them. A permit for any but the last description is ignored. It
    /// lasts until the member becomes unhealthy, a watch breaks, or another instance claims it.
    pub fn permit(&self, permit: Option<Permit>) {
        let _ = self.commands.send(Command::Permit(permit));
    }

    /// Deletes the claim once all work on leaves is done, and takes no permit afterwards. It needs a
    /// permit as every write does, and is answered by [`MemberNews::ClaimReleased`].
    pub fn release_claim(&self) {
        let _ = self.commands.send(Command::ReleaseClaim);
    }
}
