//! The members that the hub knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use limen_api::{Cluster, ClusterStatus, ClusterVerdicts, TimedVerdict, Tombstone};
use limen_core::federated::{Kind, ObjectId};
use limen_core::global::Verdict;
use limen_core::lifecycle::Identity;
use limen_core::placement::ClusterFacts;
use limen_sync::{ApiVerdict, Description, MemberErrorKind, ObjectApi, Report, Syncer};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::conditions::condition;
use crate::connect::MadeFrom;

/// What a person wants to become of the leaves of a member that leaves the federation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Leaves stay, and are nobody's any more.
    Keep,
    /// Leaves are deleted.
    Delete,
    /// The member is forgotten, and nothing is done there.
    Abandon,
}

/// A member that was away for longer, in seconds, may hold what is no longer wanted.
const LONG_AWAY: i64 = 3600;

/// Asks the hub to let go of a member: `keep`, `delete` or `abandon`.
pub(crate) const UNJOIN_ANNOTATION: &str = "limen.dev/unjoin";

/// A task that observes a member; dropping it ends it.
pub(crate) struct Observer(AbortHandle);

impl Observer {
    pub(crate) fn start(observing: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(observing).abort_handle())
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One member.
pub(crate) struct Member {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) facts: ClusterFacts,
    pub(crate) syncer: Option<Syncer>,
    /// Watches what it serves with.
    pub(crate) observer: Option<Observer>,
    /// Which connection the syncer is: what others tell is not heard.
    pub(crate) connection: u64,
    /// The client that the syncer has.
    pub(crate) client: Option<Arc<ObjectApi>>,
    /// What the client was made from; a change makes a new one.
    pub(crate) connected_with: Option<MadeFrom>,
    /// Which connection is made from that.
    pub(crate) awaited: u64,
    /// Why there is no client.
    pub(crate) connect_error: Option<String>,
    /// Why its credential could not be renewed.
    pub(crate) renewal_error: Option<String>,
    pub(crate) verdict: Option<ApiVerdict>,
    /// Description since it was last away.
    pub(crate) described: Option<Description>,
    /// Whether it is the cluster that it was.
    pub(crate) identity: Option<Identity>,
    /// The uid that it was first seen with, unless its Cluster says one.
    pub(crate) uid: Option<String>,
    /// When its Cluster was created, as text.
    pub(crate) created: String,
    /// How many leaves it holds, once it has said so.
    pub(crate) leaves: Option<usize>,
    pub(crate) missing: BTreeSet<Arc<Kind>>,
    /// Kinds whose leaves have all been reported.
    pub(crate) listed: BTreeSet<Arc<Kind>>,
    /// Kinds whose leaves have all been reported since it was last away.
    pub(crate) relisted: BTreeSet<Arc<Kind>>,
    /// Kinds whose leaves cannot be watched: what is known of them is old.
    pub(crate) lost: BTreeSet<Arc<Kind>>,
    /// Leaves of this hub whose root is not known.
    pub(crate) unowned: BTreeMap<Arc<ObjectId>, Report>,
    pub(crate) tombstones: Vec<Tombstone>,
    /// The beginning of an absence in the time of an earlier hub, until it answers.
    pub(crate) absent_since: Option<i64>,
    /// When this hub found its API unhealthy, until it answers.
    pub(crate) unhealthy_from: Option<Instant>,
    /// Kinds that could not be watched when its return was judged: their leaves are judged later.
    pub(crate) unjudged: BTreeSet<Arc<Kind>>,
    /// How long it was away before it came back, in seconds.
    pub(crate) returned_after: Option<i64>,
    /// The status as it was written last.
    pub(crate) written: Option<ClusterStatus>,
}

impl Member {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        let status = cluster.status.clone();
        Self {
            facts: facts(&cluster),
            tombstones: status.as_ref().map(|status| status.tombstones.clone()).unwrap_or_default(),
            uid: status.as_ref().and_then(|status| status.uid.clone()),
            created: cluster
                .metadata
                .creation_timestamp
                .as_ref()
                .map(|time| time.0.to_string())
                .unwrap_or_default(),
            absent_since: status.as_ref().and_then(absent_since),
            written: status,
            cluster,
            syncer: None,
            observer: None,
            connection: 0,
            awaited: 0,
            client: None,
            renewal_error: None,
            connected_with: None,
            connect_error: None,
            verdict: None,
            described: None,
            identity: None,
            leaves: None,
            missing: BTreeSet::new(),
            listed: BTreeSet::new(),
            relisted: BTreeSet::new(),
            lost: BTreeSet::new(),
            unowned: BTreeMap::new(),
            unjudged: BTreeSet::new(),
            unhealthy_from: None,
            returned_after: None,
        }
    }

    pub(crate) fn leaving(&self) -> Option<Leaving> {
        let metadata = &self.cluster.metadata;
        let asked = metadata.annotations.as_ref().and_then(|all| all.get(UNJOIN_ANNOTATION));
        match asked.map(String::as_str) {
            Some("delete") => Some(Leaving::Delete),
            Some("abandon") => Some(Leaving::Abandon),
            Some(_) => Some(Leaving::Keep),
            None => metadata.deletion_timestamp.as_ref().map(|_| Leaving::Keep),
        }
    }

    /// Whether it is known to be away: what it holds is then only what was last seen. A cluster that
    /// answers in its place says nothing about it.
    pub(crate) fn away(&self) -> bool {
        self.is_unreachable() || matches!(self.identity, Some(Identity::Changed { .. }))
    }

    /// Whether nothing answers at its endpoint.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.connect_error.is_some()
            || self.verdict.as_ref().is_some_and(|api| api.judged.verdict == Verdict::Unhealthy)
    }

    /// Whether another cluster than the one that joined answers in its place.
    pub(crate) fn is_another(&self) -> bool {
        self.identity.as_ref().is_some_and(|identity| *identity != Identity::Known)
    }

    /// Whether it has never been written to under this name: another Cluster, or the hub itself,
    /// stands for it, or it has never told what it is.
    pub(crate) fn is_not_ours(&self) -> bool {
        let never = self.recorded_uid().is_none() && self.described.is_none();
        never || self.is_anothers()
    }

    /// Whether another Cluster, or the hub itself, stands for the cluster that answers.
    pub(crate) fn is_anothers(&self) -> bool {
        matches!(self.identity, Some(Identity::Twin(_) | Identity::Hub))
    }

    /// The uid of the cluster that it stands for.
    pub(crate) fn recorded_uid(&self) -> Option<&str> {
        self.cluster.spec.uid.as_deref().or(self.uid.as_deref())
    }

    /// Whether leaves of a kind cannot be watched there.
    pub(crate) fn has_lost(&self, kind: &Kind) -> bool {
        self.lost.contains(kind)
    }

    /// Since when its API was away, also if that was in the time of an earlier hub.
    pub(crate) fn away_since(&self) -> Option<i64> {
        let unhealthy = |api: &&ApiVerdict| api.judged.verdict == Verdict::Unhealthy;
        let own = self.verdict.as_ref().filter(unhealthy).map(|api| api.judged.since);
        own.into_iter().chain(self.absent_since).min()
    }

    /// How long it was away, in seconds, when it answers at a time. The wall clock may have been set
    /// meanwhile: it counts only for an absence that began in the time of an earlier hub.
    pub(crate) fn absence(&self, until: i64) -> Option<i64> {
        let by_clock = until - self.away_since()?;
        let observed = self.unhealthy_from.map(|from| from.elapsed().as_secs());
        let observed = observed.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
        Some(match (self.absent_since, observed) {
            (None, Some(observed)) => observed,
            (_, observed) => observed.unwrap_or_default().max(by_clock),
        })
    }

    /// Whether it was away for long, and what it holds has not been judged since.
    pub(crate) fn returned_unjudged(&self) -> bool {
        self.returned_after > Some(LONG_AWAY)
    }

    /// Whether it was away for long, and its leaves of a kind have not been judged since.
    pub(crate) fn is_unjudged(&self, kind: &Kind) -> bool {
        self.returned_unjudged() || self.unjudged.contains(kind)
    }

    /// Whether it has said all that its status tells, or cannot.
    pub(crate) fn is_looked_at(&self) -> bool {
        self.away() || (self.verdict.is_some() && self.described.is_some() && self.leaves.is_some())
    }

    /// Whether all leaves of a kind that it holds are known.
    pub(crate) fn knows(&self, kind: &Kind) -> bool {
        self.listed.contains(kind) || self.missing.contains(kind)
    }

    /// Whether it holds nothing of ours any more, once it leaves.
    pub(crate) fn let_go(&self, roots: usize, known: bool, now: jiff::Timestamp) -> Condition {
        let before = self.written.as_ref().map_or(&[][..], |written| &written.conditions);
        let (status, reason, message) = match (roots, known) {
            (0, true) => ("True", "NothingLeft", "no leaf is left there".to_owned()),
            (0, false) => ("False", "NotListed", "it has not said what it holds".to_owned()),
            (roots, _) => ("False", "LeavesLeft", format!("{roots} roots may have leaves there")),
        };
        condition(before, LET_GO, status, reason, &message, now)
    }

    /// What people read about it.
    pub(crate) fn status(&self, now: jiff::Timestamp) -> ClusterStatus {
        let before = self.written.as_ref().map_or(&[][..], |written| &written.conditions);
        let api = self.verdict.as_ref();
        let fault = api.and_then(|api| api.error.as_ref());
        let nodes = self.described.as_ref().map(|known| known.nodes.clone()).unwrap_or_default();
        let verdict = api.map_or(Verdict::Unknown, |api| api.judged.verdict);
        let (ready, offline, reason, message) = match (&self.connect_error, verdict, fault) {
            (Some(error), _, _) => ("False", "True", "NoCredential", error.clone()),
            (None, Verdict::Healthy, _) => {
                ("True", "False", "ClusterReady", "its API answers".to_owned())
            }
            (None, _, Some(fault)) => {
                let (offline, reason) = match fault.kind {
                    MemberErrorKind::Credential => ("False", "CredentialRejected"),
                    MemberErrorKind::Forbidden => ("False", "Forbidden"),
                    MemberErrorKind::Busy => ("False", "ClusterNotReady"),
                    _ => ("True", "ClusterNotReachable"),
                };
                ("False", offline, reason, fault.message.clone())
            }
            (None, _, None) => ("Unknown", "Unknown", "NotProbed", "no answer yet".to_owned()),
        };
        let mut conditions = vec![
            condition(before, "Ready", ready, reason, &message, now),
            condition(before, "Offline", offline, reason, &message, now),
        ];
        if !self.unowned.is_empty() {
            let some: Vec<_> = self.unowned.keys().take(3).map(ToString::to_string).collect();
            let message = format!(
                "{} leaves of this hub have no root any more and are left alone: {}{}",
                self.unowned.len(),
                some.join(", "),
                if self.unowned.len() > 3 { ", ..." } else { "" }
            );
            conditions.push(condition(
                before,
                "UnownedLeaves",
                "True",
                "RootUnknown",
                &message,
                now,
            ));
        }
        if let Some(identity) = self.identity.as_ref().filter(|known| **known != Identity::Known) {
            let message = identity.to_string();
            let reason = match identity {
                Identity::Changed { .. } => "ClusterReplaced",
                Identity::Twin(_) => "SameCluster",
                Identity::Hub => "HubItself",
                _ => "IdentityUnknown",
            };
            conditions.push(condition(before, "Writable", "False", reason, &message, now));
        }
        if let Some(error) = &self.renewal_error {
            let reason = "CannotRenew";
            conditions.push(condition(before, "CredentialExpiring", "True", reason, error, now));
        }
        // A hub that starts anew finds nothing new in what it finds again.
        let same = self.written.as_ref().and_then(|written| written.verdicts.as_ref());
        let same = same.filter(|known| known.api.verdict == verdict);
        let since = api.and_then(|api| jiff::Timestamp::from_second(api.judged.since).ok());
        let away = self.away_since().filter(|_| verdict == Verdict::Unhealthy);
        let away = away.and_then(|since| jiff::Timestamp::from_second(since).ok());
        let since = same.and_then(|known| known.api.since.clone()).or(away.or(since).map(Time));
        ClusterStatus {
            conditions,
            uid: self.uid.clone(),
            verdicts: Some(ClusterVerdicts {
                api: TimedVerdict { verdict, since },
                ..ClusterVerdicts::default()
            }),
            version: self
                .described
                .as_ref()
                .map(|known| known.version.clone())
                .or_else(|| self.written.as_ref().and_then(|written| written.version.clone())),
            region: self.cluster.spec.region.clone().or(nodes.region),
            zone: self.cluster.spec.zone.clone().or(nodes.zone),
            leaves: self.leaves.unwrap_or(0),
            tombstones: self.tombstones.clone(),
            missing_kinds: self.missing.iter().map(|kind| kind_name(kind)).collect(),
        }
    }
}

/// Since when a member was away, as its status says.
fn absent_since(status: &ClusterStatus) -> Option<i64> {
    let api = &status.verdicts.as_ref()?.api;
    let since = api.since.as_ref().filter(|_| api.verdict == Verdict::Unhealthy)?;
    Some(since.0.as_second())
}

/// A kind as people name it: with its group, if it has one.
fn kind_name(kind: &Kind) -> String {
    match kind.group() {
        "" => kind.kind.clone(),
        group => format!("{}.{group}", kind.kind),
    }
}

/// Whether a member that leaves has been let go of: what waits for that reads this condition.
pub(crate) const LET_GO: &str = "LetGo";

/// What placement needs to know of a member.
pub(crate) fn facts(cluster: &Cluster) -> ClusterFacts {
    ClusterFacts { labels: cluster.metadata.labels.clone().unwrap_or_default() }
}

/// The members, by name.
pub(crate) type Members = BTreeMap<Arc<str>, Member>;
