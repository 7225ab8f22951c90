//! The task that owns one member.
//!
//! ```text
//! commands ─┐                                  ┌─► work (at most `concurrency` requests)
//! watches  ─┼─► engine: leaves, queue, claim ──┼─► claim
//! answers  ─┘             │                    └─► probes
//!                         └─► events
//! ```

mod claim_release;
mod decisions;
mod health;
mod observation;
mod other_versions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use limen_core::federated::{Kind, ObjectId};
use limen_core::health::Judged;
use limen_core::leaf::HUB_LABEL;
use limen_core::mark::Mark;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::claim_release::ClaimRelease;
use self::other_versions::OtherVersions;
use crate::authority::Authority;
use crate::claim::{Claimed, FoundClaim, claim_kind};
use crate::desired::Report;
use crate::leaves::Leaves;
use crate::member_error::MemberError;
use crate::object_api::ObjectApi;
use crate::probe::{self, Description};
use crate::queue::Queue;
use crate::syncer::{ApiVerdict, Command, MemberEvent, MemberNews, SyncerOptions};
use crate::watch::{Seen, follow_used};
use crate::work::Outcome;

/// The least time between two probes that are out of turn.
const EXTRA_PROBE: Duration = Duration::from_secs(1);

/// Everything about one member.
pub(crate) struct Engine {
    api: ObjectApi,
    options: SyncerOptions,
    events: mpsc::UnboundedSender<MemberEvent>,
    /// The origin of the times of corrections.
    started: Instant,
    authority: Authority,
    /// The terms of writes that leaves were considered under.
    terms: Option<(Arc<str>, u64)>,
    claim_release: ClaimRelease,
    /// Why the claim could not be written, if so.
    claim_error: Option<MemberError>,
    /// Why the identity of the member could not be read, if so.
    identity_error: Option<MemberError>,
    /// Last description of the member.
    description: Description,
    /// The newest mark that the hub was told of or has written.
    newest: Mark,
    leaves: Leaves,
    queue: Queue<Arc<ObjectId>>,
    /// Namespaces that wait for objects in them to go, since when.
    emptying: BTreeMap<Arc<ObjectId>, (Vec<String>, Instant)>,
    reported: BTreeMap<Arc<ObjectId>, Report>,
    inventory: Option<(usize, BTreeSet<Arc<Kind>>)>,
    /// Kinds that the member serves in no version.
    missing: BTreeSet<Arc<Kind>>,
    /// Kinds that the member serves in other versions only.
    other_versions: OtherVersions,
    /// Kinds that are followed, and whether they are used.
    watching: BTreeMap<Arc<Kind>, watch::Sender<bool>>,
    /// Kinds whose leaves have all been seen once.
    listed: BTreeSet<Arc<Kind>>,
    /// Kinds whose leaves cannot be seen.
    lost: BTreeSet<Arc<Kind>>,
    watchers: JoinSet<()>,
    verdict: ApiVerdict,
    reachable: bool,
    /// The last probe was answered.
    answered: bool,
    /// Something is amiss: probe out of turn.
    suspect: bool,
}

type Done = (Arc<ObjectId>, Result<Outcome, MemberError>);
type Told = mpsc::Sender<(Arc<Kind>, Seen)>;

/// Description of the member, and its claim.
type Described = Result<(Description, Option<FoundClaim>), MemberError>;

/// A request of the engine itself, which is no work on a leaf.
enum Errand {
    Probed(Result<(), MemberError>, Option<Described>),
    Claimed(u64, Result<Claimed, MemberError>),
    Released(Result<(), MemberError>),
    ListedElsewhere { kind: Arc<Kind>, generation: u64, empty: bool },
}

impl Engine {
    pub(crate) fn new(
        api: ObjectApi,
        options: SyncerOptions,
        events: mpsc::UnboundedSender<MemberEvent>,
    ) -> Self {
        Self {
            api: api.with_fence(options.fence.clone()),
            leaves: Leaves::new(&options.hub),
            options,
            events,
            started: Instant::now(),
            authority: Authority::default(),
            terms: None,
            claim_release: ClaimRelease::default(),
            claim_error: None,
            identity_error: None,
            description: Description::default(),
            newest: Mark::default(),
            queue: Queue::default(),
            emptying: BTreeMap::new(),
            reported: BTreeMap::new(),
            inventory: None,
            missing: BTreeSet::new(),
            other_versions: OtherVersions::default(),
            watching: BTreeMap::new(),
            listed: BTreeSet::new(),
            lost: BTreeSet::new(),
            watchers: JoinSet::new(),
            verdict: ApiVerdict { judged: Judged::default(), error: None },
            // Until the first probe says otherwise; a wrong guess costs one failed request.
            reachable: true,
            answered: true,
            suspect: false,
        }
    }

    pub(crate) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let (tell, mut seen) = mpsc::channel(1024);
        let mut work: JoinSet<Done> = JoinSet::new();
        // Not tasks of their own: they are little to do, and waking one is more.
        let mut errands: FuturesUnordered<BoxFuture<'static, Errand>> = FuturesUnordered::new();
        let (mut next_probe, mut probing) = (Instant::now(), false);
        let mut extra_probe = Instant::now();
        for kind in std::mem::take(&mut self.options.kinds) {
            self.watch(kind, watch::Sender::new(false), &tell);
        }
        loop {
            self.start_work(&mut work);
            if std::mem::take(&mut self.suspect) {
                let soon = Instant::now().max(extra_probe);
                if soon < next_probe {
                    (next_probe, extra_probe) = (soon, soon + EXTRA_PROBE);
                }
            }
            if !probing && next_probe <= Instant::now() {
                let SyncerOptions { beat_from, probe_every, .. } = self.options;
                next_probe = probe::next(beat_from, Instant::now(), probe_every);
                probing = true;
                errands.push(self.probe());
            }
            errands.extend(self.start_claim());
            errands.extend(self.start_claim_release());
            errands.extend(self.start_lists());
            let due = self.next_wake(work.len(), (!probing).then_some(next_probe));
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(command) => self.obey(command, &tell),
                    None => return,
                },
                Some((kind, seen)) = seen.recv() => self.see(&kind, seen),
                Some(Ok((id, outcome))) = work.join_next() => {
                    self.finish(&id, outcome);
                }
                Some(errand) = errands.next() => match errand {
                    Errand::Probed(healthy, described) => {
                        probing = false;
                        self.judge(healthy, described, &tell);
                    }
                    Errand::Claimed(generation, outcome) => self.claimed(generation, outcome),
                    Errand::Released(outcome) => self.claim_released(outcome),
                    Errand::ListedElsewhere { kind, generation, empty } => {
                        self.listed_elsewhere(&kind, generation, empty);
                    }
                },
                () = until(due) => {}
            }
            // What has already come is taken together.
            while let Ok(command) = commands.try_recv() {
                self.obey(command, &tell);
            }
            while let Ok((kind, seen)) = seen.try_recv() {
                self.see(&kind, seen);
            }
            self.take_inventory();
        }
    }

    /// When something can begin: work, if there is room for it and it is allowed, a claim, or a
    /// probe, if none is under way. What is under way tells by itself when it has ended.
    fn next_wake(&self, working: usize, next_probe: Option<Instant>) -> Option<Instant> {
        let room = self.can_work() && working < self.options.concurrency;
        let due = self.queue.next_due().filter(|_| room);
        let claim = self.authority.due(Instant::now());
        let claim = claim.filter(|_| self.reachable && self.keeps_claim());
        let release = self.claim_release_due();
        due.into_iter().chain(next_probe).chain(claim).chain(release).min()
    }

    /// Whether leaves can be written.
    fn can_work(&self) -> bool {
        self.reachable && self.authority.allows()
    }

    fn obey(&mut self, command: Command, tell: &Told) {
        match command {
            Command::Desire(id, desired) => {
                if desired.is_some() {
                    self.use_kind(&id.kind, tell);
                }
                self.leaves.desire(id.clone(), desired);
                self.consider(&id);
            }
            Command::Watch(kind) => self.use_kind(&kind, tell),
            Command::ReleaseClaim => self.release_claim(),
            Command::Permit(_) if self.claim_release == ClaimRelease::Done => {}
            Command::Permit(permit) => {
                if permit.is_some() {
                    // The claim is watched: another instance may take it.
                    self.use_kind(&claim_kind(), tell);
                }
                self.authority.answer(permit);
                self.authority_changed();
            }
        }
    }

    /// Follows a kind, that is used or not.
    fn watch(&mut self, kind: Arc<Kind>, used: watch::Sender<bool>, tell: &Told) {
        let selector = format!("{HUB_LABEL}={}", self.leaves.hub());
        let (api, in_use) = (self.api.clone(), used.subscribe());
        self.watchers.spawn(follow_used(api, kind.clone(), selector, in_use, tell.clone()));
        self.watching.insert(kind, used);
    }

    fn use_kind(&mut self, kind: &Arc<Kind>, tell: &Told) {
        match self.watching.get(kind) {
            Some(used) => drop(used.send_if_modified(|used| !std::mem::replace(used, true))),
            None => self.watch(kind.clone(), watch::Sender::new(true), tell),
        }
    }

    /// The time for corrections.
    fn time(&self) -> Duration {
        self.started.elapsed()
    }

    fn say(&self, what: MemberNews) {
        let SyncerOptions { cluster, connection, .. } = &self.options;
        let event = MemberEvent { cluster: cluster.clone(), connection: *connection, what };
        // The hub may be stopping: then nobody receives.
        let _ = self.events.send(event);
    }
}

/// Waits until then, or for ever.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
