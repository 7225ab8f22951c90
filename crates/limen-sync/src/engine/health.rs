//! Whether the member answers, what it is, and whether this hub may write to it.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use limen_api::LeafState;
use limen_core::federated::ObjectId;
use limen_core::global::Verdict;
use limen_core::health::Thresholds;
use limen_core::reconcile::Action;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Described, Engine, Errand, Told};
use crate::authority::Contest;
use crate::claim::{self, Claimed, claim_id};
use crate::member_error::{MemberError, MemberErrorKind};
use crate::probe;
use crate::syncer::{ApiVerdict, MemberNews};

impl Engine {
    pub(super) fn probe(&self) -> BoxFuture<'static, Errand> {
        let (api, hub) = (self.api.clone(), self.leaves.hub().to_owned());
        let describe = !self.authority.is_confirmed();
        let before = self.description.clone();
        async move {
            let healthy = probe::healthy(&api).await;
            let described = match healthy.is_ok() && describe {
                true => Some(probe::describe(&api, &hub, before).await),
                false => None,
            };
            Errand::Probed(healthy, described)
        }
        .boxed()
    }

    /// Writes the claim if that is due.
    pub(super) fn start_claim(&mut self) -> Option<BoxFuture<'static, Errand>> {
        let now = Instant::now();
        if !self.reachable
            || !self.keeps_claim()
            || self.authority.due(now).is_none_or(|due| due > now)
        {
            return None;
        }
        let write = self.authority.begin()?;
        self.newest = self.newest.max(write.claim.mark);
        let (api, hub) = (self.api.clone(), self.leaves.hub().to_owned());
        let writing = async move {
            let approved = write.approved.as_deref();
            let claimed = claim::write(&api, &hub, &write.claim, write.known, approved).await;
            Errand::Claimed(write.generation, claimed)
        };
        Some(writing.boxed())
    }

    pub(super) fn claimed(&mut self, generation: u64, outcome: Result<Claimed, MemberError>) {
        let (outcome, error) = match outcome {
            Ok(claimed) => (Some(claimed), None),
            Err(error) if error.kind == MemberErrorKind::NotLeading => (None, None),
            Err(error) => (None, Some(error)),
        };
        if let Some(Claimed::Refused(found)) = &outcome {
            self.tell_mark(Some(found.claim.mark));
        }
        let contest = self.authority.finish(generation, outcome, Instant::now());
        if self.claim_error != error {
            if let Some(error) = &error {
                tracing::warn!(cluster = %self.options.cluster, %error, "claim failed");
            }
            self.claim_error = error;
            self.explain_waiting();
        }
        self.settle_contest(contest);
    }

    /// Stops writes if another instance has claimed the member: for good, or until the hub has seen
    /// a claim that an earlier leader wrote late.
    pub(super) fn settle_contest(&mut self, contest: Option<Contest>) {
        match contest {
            None => return,
            Some(Contest::Lost(claim)) => self.say(MemberNews::Claimed(claim)),
            Some(Contest::Outdated) => self.suspect = true,
        }
        self.authority_changed();
    }

    /// Reports why leaves are not written, or that they are again.
    fn explain_waiting(&mut self) {
        let ended = self.claim_error.is_none() && self.identity_error.is_none();
        for id in self.leaves.all_desired() {
            if ended {
                self.leaves.trouble(&id, None);
            }
            self.consider(&id);
        }
    }

    /// Notes that a leaf waits for the claim or for the identity of the member.
    pub(super) fn wait_for_authority(&mut self, id: &Arc<ObjectId>) {
        if self.leaves.desired(id).is_none() || self.leaves.action(id).0 == Action::Keep {
            return;
        }
        if let Some(error) = &self.identity_error {
            let message = format!("waiting for the identity of the cluster: {}", error.message);
            self.leaves.trouble(id, Some((LeafState::Pending, message)));
            return;
        }
        let Some(error) = self.claim_error.clone() else { return };
        let claim = claim_id(self.leaves.hub());
        let message = format!("cannot claim the cluster with {claim}: {}", error.message);
        if self.leaves.is_news(id, error.kind) {
            let error = MemberError { kind: error.kind, message: message.clone() };
            self.say(MemberNews::Failed(id.clone(), error));
        }
        self.leaves.trouble(id, Some((LeafState::Failed, message)));
    }

    /// Considers leaves again if the terms of writes have changed: leaves of a later epoch are never
    /// written. A permit for a newer revision changes nothing.
    pub(super) fn authority_changed(&mut self) {
        let terms = self.authority.terms();
        if terms == self.terms {
            return;
        }
        self.terms = terms;
        self.leaves.set_epoch(self.authority.epoch());
        for id in self.leaves.all_desired() {
            self.consider(&id);
        }
    }

    /// Stops writes until the hub has verified the member again.
    pub(super) fn revoke(&mut self) {
        self.authority.revoke();
        self.leaves.set_epoch(None);
        self.terms = None;
        self.other_versions.doubt();
    }

    pub(super) fn judge(
        &mut self,
        healthy: Result<(), MemberError>,
        described: Option<Described>,
        tell: &Told,
    ) {
        let now = crate::clock::now_seconds();
        let before = self.verdict.clone();
        // An API that answers that it is unhealthy does answer: leaves can be read and written.
        let answers =
            healthy.as_ref().err().is_none_or(|error| error.kind == MemberErrorKind::Busy);
        self.verdict = ApiVerdict {
            judged: before.judged.after(healthy.is_ok(), Thresholds::default(), now),
            error: healthy.err(),
        };
        let was_away = before.judged.verdict == Verdict::Unhealthy;
        let is_away = self.verdict.judged.verdict == Verdict::Unhealthy;
        if was_away && self.verdict.judged.verdict == Verdict::Healthy {
            // Watches may not have noticed what was missed while the member was away.
            self.watchers = JoinSet::new();
            self.authority.unwatched();
            for (kind, used) in std::mem::take(&mut self.watching) {
                self.watch(kind, used, tell);
            }
        }
        if answers {
            self.api.say_it_answers();
        }
        // A member that was healthy all the time has reasons of its own for what failed.
        if answers && !self.answered {
            self.queue.retry_all();
        }
        (self.reachable, self.answered) = (answers, answers);
        if is_away {
            // It may be another cluster, or another state of it, that comes back.
            self.revoke();
        }
        if before.judged != self.verdict.judged || before.error != self.verdict.error {
            self.say(MemberNews::Api(self.verdict.clone()));
        }
        if let Some(described) = described.filter(|_| !is_away) {
            self.identify(described);
        }
    }

    /// Tells the hub what the member is, or why that cannot be read. Each probe reads it again.
    fn identify(&mut self, described: Described) {
        let (identity, error) = match described {
            Ok(identity) => (Some(identity), None),
            Err(error) => (None, Some(error)),
        };
        if self.identity_error != error {
            if let Some(error) = &error {
                tracing::warn!(cluster = %self.options.cluster, %error, "identity cannot be read");
            }
            self.identity_error = error;
            self.explain_waiting();
        }
        let Some((mut description, found)) = identity else { return };
        self.tell_mark(found.as_ref().map(|found| found.claim.mark));
        description.number = self.authority.describe(found);
        self.description = description.clone();
        self.say(MemberNews::Described(description));
    }
}
