//! The task that owns one member.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use limen_api::LeafState;
use limen_api::dialect::identity;
use limen_core::federated::{Kind, ObjectId};
use limen_core::global::Verdict;
use limen_core::health::{Judged, Thresholds};
use limen_core::leaf::HUB_LABEL;
use limen_core::reconcile::Action;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::fault::{MemberError, MemberErrorKind};
use crate::leaves::{Desired, DesiredLeaf, Leaves, Report};
use crate::object_api::ObjectApi;
use crate::probe::{self, Description};
use crate::queue::Queue;
use crate::watch::{Seen, follow_used};
use crate::work::{LeafChange, Outcome, Task};

/// How a member is synced.
pub struct SyncerOptions {
    /// The member's name.
    pub cluster: Arc<str>,
    /// Which connection to the member this is, for whoever has had others.
    pub connection: u64,
    /// What leaves of this hub are marked with.
    pub hub: String,
    /// The kinds to look at from the start. Each is watched once there is a leaf of it, a wish for
    /// one, or [`Syncer::watch`].
    pub kinds: Vec<Arc<Kind>>,
    /// The time between two probes of the member's API, and how long a watch may be silent about
    /// something that was deleted before somebody looks.
    pub probe_every: Duration,
    /// What probes keep time with. Members with the same are probed together, which costs a hub of
    /// many members far less than to wake up for each.
    pub beat_from: Instant,
    /// How many requests a member gets at the same time.
    pub concurrency: usize,
}

/// News from one member.
#[derive(Clone, Debug)]
pub struct MemberEvent {
    /// The member.
    pub cluster: Arc<str>,
    /// Which connection to it tells this: a new one starts again from the beginning.
    pub connection: u64,
    /// What is new.
    pub what: MemberNews,
}

/// What is new.
#[derive(Clone, Debug)]
pub enum MemberNews {
    /// How far a leaf is.
    Leaf(Arc<ObjectId>, Report),
    /// Something was done about a leaf.
    Changed(Arc<ObjectId>, LeafChange),
    /// Something could not be done about a leaf; said once for each reason.
    Failed(Arc<ObjectId>, MemberError),
    /// Whether its API answers.
    Api(ApiVerdict),
    /// What the member is.
    Described(Description),
    /// How many leaves it holds, and which kinds it does not know.
    Inventory {
        /// Leaves that it holds.
        leaves: usize,
        /// Kinds that it does not know.
        missing: BTreeSet<Arc<Kind>>,
    },
    /// All leaves of a kind that it holds have been reported; none if it does not know the kind.
    Listed(Arc<Kind>),
    /// Its watch or list fails.
    Lost(Arc<Kind>, String),
}

/// Whether a member's API answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiVerdict {
    /// The verdict, with hysteresis.
    pub judged: Judged,
    /// What went wrong last, if something did.
    pub fault: Option<MemberError>,
}

enum Command {
    DesiredLeaf(Arc<ObjectId>, Option<DesiredLeaf>),
    Kind(Arc<Kind>),
}

/// A handle to the task that owns one member; dropping it ends the task, with all that is under
/// way in the member.
pub struct Syncer {
    commands: mpsc::UnboundedSender<Command>,
    _task: JoinSet<()>,
}

impl Syncer {
    /// Starts the task. Notices come in order.
    pub fn start(
        api: ObjectApi,
        options: SyncerOptions,
        notices: mpsc::UnboundedSender<MemberEvent>,
    ) -> Self {
        let (commands, received) = mpsc::unbounded_channel();
        let mut task = JoinSet::new();
        task.spawn(Member::new(api, options, notices).run(received));
        Self { commands, _task: task }
    }

    /// Says what shall become of a leaf; nothing means that it is nobody's business any more.
    pub fn desire(&self, leaf: Arc<ObjectId>, wish: Option<DesiredLeaf>) {
        // The task ends only with this handle.
        let _ = self.commands.send(Command::DesiredLeaf(leaf, wish));
    }

    /// Watches a kind, of which there may be leaves at any time.
    pub fn watch(&self, kind: Arc<Kind>) {
        let _ = self.commands.send(Command::Kind(kind));
    }
}

struct Member {
    api: ObjectApi,
    options: SyncerOptions,
    notices: mpsc::UnboundedSender<MemberEvent>,
    leaves: Leaves,
    queue: Queue<Arc<ObjectId>>,
    reported: BTreeMap<Arc<ObjectId>, Report>,
    inventory: Option<(usize, BTreeSet<Arc<Kind>>)>,
    missing: BTreeSet<Arc<Kind>>,
    /// Kinds that are followed, and whether they are used.
    watching: BTreeMap<Arc<Kind>, watch::Sender<bool>>,
    /// Kinds whose leaves have all been seen once.
    listed: BTreeSet<Arc<Kind>>,
    /// Kinds whose leaves cannot be seen.
    unseen: BTreeSet<Arc<Kind>>,
    watchers: JoinSet<()>,
    verdict: ApiVerdict,
    reachable: bool,
    /// The last probe was answered.
    answered: bool,
    /// Since it was last well, the hub has been told what it is.
    described: bool,
}

type Done = (Arc<ObjectId>, Result<Outcome, MemberError>);

impl Member {
    fn new(
        api: ObjectApi,
        options: SyncerOptions,
        notices: mpsc::UnboundedSender<MemberEvent>,
    ) -> Self {
        Self {
            api,
            leaves: Leaves::new(options.hub.clone()),
            options,
            notices,
            queue: Queue::default(),
            reported: BTreeMap::new(),
            inventory: None,
            missing: BTreeSet::new(),
            watching: BTreeMap::new(),
            listed: BTreeSet::new(),
            unseen: BTreeSet::new(),
            watchers: JoinSet::new(),
            verdict: ApiVerdict { judged: Judged::default(), fault: None },
            // Until the first probe says otherwise; a wrong guess costs one failed request.
            reachable: true,
            answered: true,
            described: false,
        }
    }

    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let (tell, mut seen) = mpsc::channel(1024);
        let mut work: JoinSet<Done> = JoinSet::new();
        // Not a task of its own: it is little to do, and waking one is more.
        let mut probes = FuturesUnordered::new();
        let mut next_probe = Instant::now();
        for kind in std::mem::take(&mut self.options.kinds) {
            self.watch(kind, watch::Sender::new(false), &tell);
        }
        loop {
            self.start_work(&mut work);
            if probes.is_empty() && next_probe <= Instant::now() {
                let SyncerOptions { beat_from, probe_every, .. } = self.options;
                next_probe = probe::next(beat_from, Instant::now(), probe_every);
                let (api, describe) = (self.api.clone(), !self.described);
                probes.push(async move {
                    let healthy = probe::healthy(&api).await;
                    let described = match healthy.is_ok() && describe {
                        true => probe::describe(&api).await.ok(),
                        false => None,
                    };
                    (healthy, described)
                });
            }
            let due = self.next_wake(work.len(), probes.is_empty().then_some(next_probe));
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(command) => self.obey(command, &tell),
                    None => return,
                },
                Some((kind, seen)) = seen.recv() => self.see(&kind, seen),
                Some(Ok((id, outcome))) = work.join_next() => {
                    if self.finish(&id, outcome) {
                        next_probe = Instant::now();
                    }
                }
                Some((healthy, described)) = probes.next() => {
                    self.judge(healthy, described, &tell);
                }
                () = until(due) => {}
            }
            // What has already come is taken together.
            while let Ok(command) = commands.try_recv() {
                self.obey(command, &tell);
            }
            while let Ok((kind, news)) = seen.try_recv() {
                self.see(&kind, news);
            }
            self.take_inventory();
        }
    }

    /// When something can begin: work, if there is room for it and the member can be reached, or a
    /// probe, if none is under way. What is under way tells by itself when it has ended.
    fn next_wake(&self, working: usize, next_probe: Option<Instant>) -> Option<Instant> {
        let room = self.reachable && working < self.options.concurrency;
        let due = self.queue.next_due().filter(|_| room);
        due.into_iter().chain(next_probe).min()
    }

    fn obey(&mut self, command: Command, tell: &mpsc::Sender<(Arc<Kind>, Seen)>) {
        match command {
            Command::DesiredLeaf(id, wish) => {
                if wish.is_some() {
                    self.use_kind(&id.kind, tell);
                }
                self.leaves.wish(id.clone(), wish);
                self.consider(&id);
            }
            Command::Kind(kind) => self.use_kind(&kind, tell),
        }
    }

    /// Follows a kind, that is used or not.
    fn watch(
        &mut self,
        kind: Arc<Kind>,
        used: watch::Sender<bool>,
        tell: &mpsc::Sender<(Arc<Kind>, Seen)>,
    ) {
        let selector = format!("{HUB_LABEL}={}", self.leaves.hub());
        let (api, in_use) = (self.api.clone(), used.subscribe());
        self.watchers.spawn(follow_used(api, kind.clone(), selector, in_use, tell.clone()));
        self.watching.insert(kind, used);
    }

    fn use_kind(&mut self, kind: &Arc<Kind>, tell: &mpsc::Sender<(Arc<Kind>, Seen)>) {
        match self.watching.get(kind) {
            Some(used) => drop(used.send_if_modified(|used| !std::mem::replace(used, true))),
            None => self.watch(kind.clone(), watch::Sender::new(true), tell),
        }
    }

    fn see(&mut self, kind: &Arc<Kind>, seen: Seen) {
        match seen {
            Seen::State(objects) => {
                let mut before = self.leaves.of_kind(kind);
                self.missing.remove(kind);
                self.listed.insert(kind.clone());
                for object in objects {
                    let id = self.leaves.known(identity(&object, kind));
                    before.remove(&id);
                    self.leaves.observe(&id, &object, false);
                    self.consider(&id);
                }
                for id in before {
                    self.leaves.unlisted(&id);
                    self.consider(&id);
                }
                self.say(MemberNews::Listed(kind.clone()));
            }
            Seen::Changed(object) => {
                let id = self.leaves.known(identity(&object, kind));
                // Mostly this is what we wrote ourselves, and the answer to that has told it.
                if !self.leaves.is_known(&id, &object) {
                    self.leaves.observe(&id, &object, false);
                    self.consider(&id);
                }
            }
            Seen::Gone(object) => {
                let id = self.leaves.known(identity(&object, kind));
                self.leaves.gone(&id);
                self.consider(&id);
            }
            Seen::UnknownKind => {
                self.missing.insert(kind.clone());
                self.listed.insert(kind.clone());
                for id in self.leaves.of_kind(kind) {
                    self.leaves.gone(&id);
                    self.leaves.absent(&id, "");
                    self.consider(&id);
                }
                self.say(MemberNews::Listed(kind.clone()));
            }
            // Probes find out whether the member can be reached at all.
            Seen::Lost(error) => {
                self.unseen.insert(kind.clone());
                tracing::debug!(cluster = %self.options.cluster, kind = kind.kind, %error, "watch lost");
            }
        }
    }

    /// Looks at a leaf again: queues what is to be done, and reports how far it is.
    fn consider(&mut self, id: &Arc<ObjectId>) {
        let (action, _) = self.leaves.action(id);
        let wished = self.leaves.wished(id);
        if wished.is_some() && self.missing.contains(&id.kind) {
            let message = format!(
                "the cluster does not know {} ({}); install its CRD there",
                id.kind.kind, id.kind.api_version
            );
            self.leaves.trouble(id, Some((LeafState::Failed, message)));
        } else {
            match action {
                Action::Keep if self.leaves.to_be_looked_for(id) => self.queue.push(id.clone()),
                Action::Keep => self.leaves.trouble(id, None),
                // The watch tells when it is gone; should that be silent, somebody looks.
                Action::Wait => {
                    self.queue.push_later(id.clone(), Instant::now() + self.options.probe_every);
                }
                _ => self.queue.push(id.clone()),
            }
        }
        self.report(id);
        if self.is_over(id) {
            self.leaves.wish(id.clone(), None);
            self.report(id);
        }
    }

    /// A deletion is over when nothing is left to delete, and that is certain: the member has said
    /// what it holds, nothing is under way, and no write has ended without an answer.
    fn is_over(&self, id: &Arc<ObjectId>) -> bool {
        self.leaves.shall_go(id)
            && self.leaves.action(id).0 == Action::Keep
            && self.listed.contains(&id.kind)
            && !self.queue.working(id)
            && !self.leaves.to_be_looked_for(id)
    }

    fn report(&mut self, id: &Arc<ObjectId>) {
        let report = self.leaves.report(id);
        let before = self.reported.get(id);
        // That something is about to be done is no news to whoever wished for it.
        let begun = report.state == Some(LeafState::Pending) && report.held_for.is_none();
        if before == Some(&report) || (before.is_none() && begun) {
            return;
        }
        match report.state.is_none() && report.held_for.is_none() {
            true => drop(self.reported.remove(id)),
            false => drop(self.reported.insert(id.clone(), report.clone())),
        }
        self.say(MemberNews::Leaf(id.clone(), report));
    }

    fn start_work(&mut self, work: &mut JoinSet<Done>) {
        if !self.reachable {
            return;
        }
        while work.len() < self.options.concurrency
            && let Some(id) = self.queue.pop(Instant::now())
        {
            let Some(task) = self.task(&id) else {
                self.queue.done(id.clone(), false, Instant::now());
                self.consider(&id);
                continue;
            };
            let (api, hub) = (self.api.clone(), self.leaves.hub().to_owned());
            work.spawn(async move {
                let outcome = task.perform(&api, &id, &hub).await;
                (id, outcome)
            });
        }
    }

    fn task(&self, id: &ObjectId) -> Option<Task> {
        if self.missing.contains(&id.kind) {
            return None;
        }
        let wish = self.leaves.wished(id)?;
        let uid = || self.leaves.uid(id).unwrap_or_default().to_owned();
        match (self.leaves.action(id), &wish.desired) {
            (
                (Action::Create | Action::Adopt | Action::Refuse(_), _),
                Desired::Leaf { leaf, on_conflict, .. },
            ) => Some(Task::Place {
                leaf: leaf.clone(),
                root_uid: wish.root_uid.clone(),
                on_conflict: *on_conflict,
            }),
            ((Action::Update, drift), Desired::Leaf { leaf, .. }) => {
                Some(Task::Update { leaf: leaf.clone(), drift })
            }
            ((Action::Delete, _), _) => Some(Task::Delete { uid: uid() }),
            ((Action::Release, _), _) => Some(Task::Release { uid: uid() }),
            ((Action::Wait, _), _) => Some(Task::Look { uid: uid() }),
            ((Action::Keep, _), _) if self.leaves.to_be_looked_for(id) => {
                Some(Task::Look { uid: uid() })
            }
            _ => None,
        }
    }

    /// Notes how work went; true when the member should be probed at once.
    fn finish(&mut self, id: &Arc<ObjectId>, outcome: Result<Outcome, MemberError>) -> bool {
        let mut failed = false;
        let mut suspect = false;
        match outcome {
            Ok(Outcome::Holds(did, object)) => {
                self.leaves.trouble(id, None);
                self.leaves.observe(id, &object, true);
                self.say(MemberNews::Changed(id.clone(), did));
                // What is still there is looked at later and later.
                failed = self.leaves.action(id).0 == Action::Wait;
            }
            Ok(Outcome::LetGo(did)) => {
                self.leaves.trouble(id, None);
                match did {
                    LeafChange::Released => self.leaves.gone(id),
                    _ => self.leaves.going(id),
                }
                self.say(MemberNews::Changed(id.clone(), did));
            }
            Ok(Outcome::Shared) => {
                if let Some(root_uid) = self.leaves.wished(id).map(|wish| wish.root_uid.clone()) {
                    self.leaves.share(id, root_uid);
                }
            }
            Ok(Outcome::Refused(refusal)) => {
                let message = refusal.to_string();
                if self.leaves.refuse(id) {
                    let fault =
                        MemberError { kind: MemberErrorKind::Rejected, message: message.clone() };
                    self.say(MemberNews::Failed(id.clone(), fault));
                }
                self.leaves.trouble(id, Some((LeafState::Conflict, message)));
                failed = true;
            }
            Ok(Outcome::MustWait) => failed = true,
            Ok(Outcome::Absent { uid }) => self.leaves.absent(id, &uid),
            Err(fault) => {
                if fault.leaves_doubt() {
                    self.leaves.doubt(id);
                }
                suspect = fault.kind == MemberErrorKind::Unreachable
                    || fault.kind == MemberErrorKind::Credential;
                if !suspect && self.leaves.is_news(id, fault.kind) {
                    self.say(MemberNews::Failed(id.clone(), fault.clone()));
                }
                self.leaves.trouble(id, Some((LeafState::Failed, fault.message)));
                failed = true;
            }
        }
        self.queue.done(id.clone(), failed, Instant::now());
        if failed && !self.is_over(id) {
            self.report(id);
        } else {
            self.consider(id);
        }
        self.reachable &= !suspect;
        suspect
    }

    fn judge(
        &mut self,
        healthy: Result<(), MemberError>,
        described: Option<Description>,
        tell: &mpsc::Sender<(Arc<Kind>, Seen)>,
    ) {
        let now = crate::clock::now_seconds();
        let before = self.verdict.clone();
        // An API that answers that it is not well does answer: leaves can be read and written.
        let answers =
            healthy.as_ref().err().is_none_or(|fault| fault.kind == MemberErrorKind::Busy);
        self.verdict = ApiVerdict {
            judged: before.judged.after(healthy.is_ok(), Thresholds::default(), now),
            fault: healthy.err(),
        };
        let was_away = before.judged.verdict == Verdict::Unhealthy;
        if was_away && self.verdict.judged.verdict == Verdict::Healthy {
            // Watches may not have noticed what was missed while the member was away.
            self.watchers = JoinSet::new();
            for (kind, used) in std::mem::take(&mut self.watching) {
                self.watch(kind, used, tell);
            }
        }
        if answers {
            self.api.say_it_answers();
        }
        // A member that was well all the time has reasons of its own for what failed.
        if answers && !self.answered {
            self.queue.retry_all();
        }
        (self.reachable, self.answered) = (answers, answers);
        if before.judged != self.verdict.judged || before.fault != self.verdict.fault {
            self.say(MemberNews::Api(self.verdict.clone()));
        }
        self.described |= described.is_some();
        // It may be another version that comes back.
        self.described &= self.verdict.judged.verdict != Verdict::Unhealthy;
        if let Some(described) = described {
            self.say(MemberNews::Described(described));
        }
    }

    fn take_inventory(&mut self) {
        // Counting is for people: it may wait until the member is at rest.
        let looked = |kind: &Arc<Kind>| self.listed.contains(kind) || self.unseen.contains(kind);
        if self.queue.busy() > 0 || (self.inventory.is_none() && !self.watching.keys().all(looked))
        {
            return;
        }
        let known = self.inventory.as_ref().map(|(leaves, missing)| (*leaves, missing));
        if known != Some((self.leaves.count(), &self.missing)) {
            let (leaves, missing) = (self.leaves.count(), self.missing.clone());
            self.inventory = Some((leaves, missing.clone()));
            self.say(MemberNews::Inventory { leaves, missing });
        }
    }

    fn say(&self, what: MemberNews) {
        // The hub may be stopping: then nobody listens any more.
        let SyncerOptions { cluster, connection, .. } = &self.options;
        let notice = MemberEvent { cluster: cluster.clone(), connection: *connection, what };
        let _ = self.notices.send(notice);
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
mod tests {
    use super::*;

    fn member() -> Member {
        let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
        });
        let options = SyncerOptions {
            cluster: "asia-1".into(),
            connection: 1,
            hub: "hub".to_owned(),
            kinds: Vec::new(),
            probe_every: Duration::from_secs(5),
            beat_from: Instant::now(),
            concurrency: 2,
        };
        let api = ObjectApi::new(kube::Client::new(nobody, "default"));
        Member::new(api, options, mpsc::unbounded_channel().0)
    }

    /// Waking up for what cannot begin would be waking up again at once, and so on.
    #[tokio::test]
    async fn it_wakes_only_for_what_can_begin() {
        let mut member = member();
        let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
        let id = ObjectId { kind, namespace: None, name: "settings".to_owned() };
        let long_due = Instant::now();
        let probe = long_due + Duration::from_secs(5);
        member.queue.push_later(Arc::new(id), long_due);
        assert_eq!(member.next_wake(0, Some(probe)), Some(long_due));
        assert_eq!(member.next_wake(1, None), Some(long_due));
        assert_eq!(member.next_wake(2, Some(probe)), Some(probe), "there is no room");
        member.reachable = false;
        assert_eq!(member.next_wake(0, Some(probe)), Some(probe), "it is away");
        assert_eq!(member.next_wake(0, None), None, "a probe is under way");
    }
}
