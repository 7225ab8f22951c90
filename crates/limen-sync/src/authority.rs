//! The authority to write to a member: the hub's permit, and the claim in the member.
//!
//! ```text
//! described ──► permit ──► claim written ──► a watch shows it ──► leaves may be written
//!     ▲                        │                   │
//!     └──── unhealthy ◄────────┴──── claim gone ◄──┴──── another instance claims: stop
//! ```
//!
//! The claim also ties the description to the member. Another cluster that takes the place of the
//! member does not have it, so a claim that is gone is not written again before the member has been
//! described again, and leaves are written only while an open watch shows the claim.

use std::sync::Arc;
use std::time::Duration;

use limen_core::mark::Mark;
use tokio::time::Instant;

use crate::claim::{Claim, Claimed, FoundClaim};

/// The least time between two writes of the claim in a steady state.
const RENEWAL: Duration = Duration::from_secs(10);
/// The pause after a claim that could not be written.
const RETRY: Duration = Duration::from_secs(1);

/// Permission of the hub to write to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    /// The hub instance, which the claim names.
    pub instance: Arc<str>,
    /// The epoch, which leaves and claim carry.
    pub epoch: u64,
    /// The hub's newest revision.
    pub revision: u64,
    /// The number of the description that it answers: the member may be another one since.
    pub description: u64,
}

/// Consequence of a claim of another instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Contest {
    /// This hub stops, and the hub is told.
    Lost(Claim),
    /// A late write of an earlier epoch, or another claim than the described one: the member is
    /// described again.
    Outdated,
}

/// A claim to be written.
#[derive(Clone, Debug)]
pub(crate) struct ClaimWrite {
    pub(crate) claim: Claim,
    pub(crate) known: Option<FoundClaim>,
    pub(crate) approved: Option<String>,
    /// The permit that it is for.
    pub(crate) generation: u64,
}

/// The authority to write to one member.
#[derive(Default)]
pub(crate) struct Authority {
    permit: Option<Permit>,
    /// Counts permits, so that the answer to a claim of an earlier one is not taken for this one.
    generation: u64,
    /// The hub knows what the member is, since it was last away.
    described: bool,
    /// Counts descriptions, so that a permit for an earlier one is not taken for this one.
    descriptions: u64,
    /// The instance that the member was claimed by when it was described.
    approved: Option<String>,
    known: Option<FoundClaim>,
    /// The uid of the claim that an open watch shows.
    shown: Option<String>,
    /// The member carries the claim of this permit.
    held: bool,
    writing: bool,
    not_before: Option<Instant>,
    /// The highest revision written.
    written: u64,
}

impl Authority {
    /// Whether leaves may be written.
    pub(crate) fn allows(&self) -> bool {
        self.held && self.permit.is_some() && self.is_confirmed()
    }

    /// The terms of writes: instance and epoch.
    pub(crate) fn terms(&self) -> Option<(Arc<str>, u64)> {
        self.permit.as_ref().map(|permit| (permit.instance.clone(), permit.epoch))
    }

    /// The epoch that writes carry.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.permit.as_ref().map(|permit| permit.epoch)
    }

    /// Takes the answer of the hub to a description; a permit for an earlier one grants nothing.
    pub(crate) fn answer(&mut self, permit: Option<Permit>) {
        let current = self.described.then_some(self.descriptions);
        if permit.as_ref().is_none_or(|permit| Some(permit.description) == current) {
            self.set_permit(permit);
        }
    }

    fn set_permit(&mut self, permit: Option<Permit>) {
        let before = self.terms();
        self.permit = permit;
        if self.terms() != before {
            self.generation += 1;
            (self.held, self.not_before, self.writing) = (false, None, false);
        }
    }

    /// The member was away: it may be another one that comes back.
    pub(crate) fn revoke(&mut self) {
        self.set_permit(None);
        (self.described, self.approved, self.known) = (false, None, None);
    }

    /// The hub is told what the member is and who claims it; the number of the description.
    pub(crate) fn describe(&mut self, found: Option<FoundClaim>) -> u64 {
        self.described = true;
        self.descriptions += 1;
        self.approved = found.as_ref().map(|found| found.claim.instance.clone());
        self.known = found;
        self.descriptions
    }

    /// Whether the hub knows what the member is, and a watch shows that it still is.
    pub(crate) fn is_confirmed(&self) -> bool {
        let known = self.known.as_ref().map(|known| &known.version.uid);
        self.described && known == self.shown.as_ref()
    }

    /// Whether the claim is being written.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing
    }

    /// The mark of a write of this revision.
    pub(crate) fn stamp(&mut self, revision: u64) -> Option<Mark> {
        let permit = self.permit.as_ref()?;
        self.written = self.written.max(revision);
        Some(Mark { epoch: permit.epoch, revision })
    }

    /// When the claim is to be written, unless it is as it should be or being written.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let wanted = self.wanted().filter(|_| self.described && !self.writing)?;
        let behind = self.known.as_ref().is_none_or(|known| known.claim.mark < wanted.mark);
        (!self.held || behind).then(|| self.not_before.unwrap_or(now).max(now))
    }

    /// Begins to write the claim.
    pub(crate) fn begin(&mut self) -> Option<ClaimWrite> {
        let claim = self.wanted()?;
        self.writing = true;
        Some(ClaimWrite {
            claim,
            known: self.known.clone(),
            // A claim of this permit is never given up to the instance before it.
            approved: self.approved.clone().filter(|_| !self.held),
            generation: self.generation,
        })
    }

    /// Takes the outcome of a write, and what follows from the claim that it found instead.
    pub(crate) fn finish(
        &mut self,
        generation: u64,
        outcome: Option<Claimed>,
        now: Instant,
    ) -> Option<Contest> {
        if generation != self.generation {
            return None;
        }
        self.writing = false;
        match outcome {
            Some(Claimed::Held(found)) => {
                (self.held, self.not_before) = (true, Some(now + RENEWAL));
                self.known = Some(found);
                None
            }
            Some(Claimed::Created | Claimed::Gone) => {
                self.revoke();
                Some(Contest::Outdated)
            }
            Some(Claimed::Refused(found)) => {
                self.known = Some(found.clone());
                self.contested(found.claim)
            }
            None => {
                self.not_before = Some(now + RETRY);
                None
            }
        }
    }

    /// A watch shows the claim; what follows from it, if it is another one or of another instance.
    pub(crate) fn see(&mut self, found: FoundClaim) -> Option<Contest> {
        self.shown = Some(found.version.uid.clone());
        if self.known.as_ref().is_some_and(|known| known.version.uid != found.version.uid) {
            return self.lose();
        }
        if self.known.as_ref().is_some_and(|known| is_older(&found, known)) {
            return None;
        }
        let claim = found.claim.clone();
        self.known = Some(found);
        let permit = self.permit.as_ref()?;
        let approved = self.approved.as_ref().filter(|_| !self.held);
        if *claim.instance == *permit.instance || Some(&claim.instance) == approved {
            return None;
        }
        self.contested(claim)
    }

    /// The member carries the claim of another instance, or of a later epoch.
    fn contested(&mut self, claim: Claim) -> Option<Contest> {
        if claim.mark.epoch < self.permit.as_ref()?.epoch {
            self.revoke();
            return Some(Contest::Outdated);
        }
        self.set_permit(None);
        Some(Contest::Lost(claim))
    }

    /// A watch shows that the claim is gone from the member.
    pub(crate) fn gone(&mut self) -> Option<Contest> {
        self.shown = None;
        self.lose()
    }

    /// Claims are not watched: another cluster may take the place of the member unnoticed.
    pub(crate) fn unwatched(&mut self) {
        self.shown = None;
    }

    fn lose(&mut self) -> Option<Contest> {
        self.known.take()?;
        self.revoke();
        Some(Contest::Outdated)
    }

    fn wanted(&self) -> Option<Claim> {
        let permit = self.permit.as_ref()?;
        let revision = permit.revision.max(self.written);
        let mark = Mark { epoch: permit.epoch, revision };
        Some(Claim { instance: permit.instance.to_string(), mark })
    }
}

/// Whether a claim was seen in an older version than the known one.
fn is_older(found: &FoundClaim, known: &FoundClaim) -> bool {
    let number = |claim: &FoundClaim| claim.version.resource_version.parse::<u64>().ok();
    found.version.uid == known.version.uid
        && matches!((number(found), number(known)), (Some(a), Some(b)) if a < b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_api::Precondition;

    fn permit(epoch: u64, revision: u64) -> Option<Permit> {
        Some(Permit { instance: "ours".into(), epoch, revision, description: 1 })
    }

    fn found(instance: &str, version: u64, mark: &str) -> FoundClaim {
        FoundClaim {
            claim: Claim { instance: instance.to_owned(), mark: mark.parse().unwrap() },
            version: Precondition { uid: "u".to_owned(), resource_version: version.to_string() },
        }
    }

    /// Authority with a permit and a claim in the member.
    fn granted(now: Instant) -> Authority {
        let mut authority = Authority::default();
        authority.describe(Some(found("before", 5, "1.1")));
        authority.answer(permit(2, 10));
        let write = authority.begin().unwrap();
        assert_eq!(write.claim, found("ours", 0, "2.10").claim);
        assert_eq!(write.approved.as_deref(), Some("before"));
        let held = Claimed::Held(found("ours", 6, "2.10"));
        assert_eq!(authority.finish(write.generation, Some(held), now), None);
        assert!(!authority.allows(), "no watch shows the claim");
        assert_eq!(authority.see(found("ours", 6, "2.10")), None);
        authority
    }

    #[test]
    fn writing_needs_description_permit_and_claim() {
        let now = Instant::now();
        let mut authority = Authority::default();
        assert!(!authority.allows() && authority.due(now).is_none());
        authority.answer(permit(1, 0));
        assert!(!authority.allows() && authority.due(now).is_none(), "not described");
        authority.describe(None);
        assert!(authority.due(now).is_none(), "a permit before the description grants nothing");
        authority.answer(permit(1, 0));
        assert!(!authority.allows() && authority.due(now).is_some(), "not claimed");
        let mut authority = granted(now);
        assert!(authority.allows());
        authority.revoke();
        assert!(!authority.allows());
        authority.answer(permit(2, 10));
        assert!(!authority.allows(), "not described again");
    }

    #[test]
    fn a_claim_is_written_again_only_when_the_revision_has_grown_and_not_at_once() {
        let now = Instant::now();
        let mut authority = granted(now);
        assert_eq!(authority.due(now), None);
        authority.stamp(9);
        assert_eq!(authority.due(now), None);
        authority.stamp(11);
        assert_eq!(authority.due(now), Some(now + RENEWAL));
    }

    #[test]
    fn the_claim_of_another_instance_stops_writes() {
        let now = Instant::now();
        let mut authority = granted(now);
        assert_eq!(authority.see(found("before", 5, "1.1")), None, "an older version");
        assert!(authority.allows());
        let other = found("before", 7, "2.2");
        assert_eq!(authority.see(other.clone()), Some(Contest::Lost(other.claim)));
        assert!(!authority.allows());
        let mut authority = granted(now);
        authority.stamp(11);
        let write = authority.begin().unwrap();
        assert_eq!(write.approved, None, "the instance before is approved no longer");
        let refused = found("copy", 9, "2.11");
        let outcome = Some(Claimed::Refused(refused.clone()));
        let lost = Some(Contest::Lost(refused.claim));
        assert_eq!(authority.finish(write.generation, outcome, now), lost);
        assert!(!authority.allows());
    }

    #[test]
    fn a_late_claim_of_an_earlier_epoch_is_described_and_can_be_replaced() {
        let now = Instant::now();
        let late = found("before", 7, "1.2");
        let seen = |authority: &mut Authority| authority.see(late.clone());
        let refused = |authority: &mut Authority| {
            authority.stamp(11);
            let write = authority.begin().unwrap();
            authority.finish(write.generation, Some(Claimed::Refused(late.clone())), now)
        };
        for watched in [true, false] {
            let mut authority = granted(now);
            let contest = if watched { seen(&mut authority) } else { refused(&mut authority) };
            assert_eq!(contest, Some(Contest::Outdated));
            assert!(!authority.allows() && !authority.is_confirmed());
            let number = authority.describe(Some(late.clone()));
            authority.answer(permit(2, 10).map(|permit| Permit { description: number, ..permit }));
            assert_eq!(authority.begin().unwrap().approved.as_deref(), Some("before"));
        }
    }

    #[test]
    fn a_permit_for_an_earlier_description_grants_nothing() {
        let now = Instant::now();
        let mut authority = granted(now);
        authority.revoke();
        assert_eq!(authority.describe(None), 2);
        authority.answer(permit(2, 10));
        assert_eq!(authority.due(now), None);
        authority.answer(permit(2, 10).map(|permit| Permit { description: 2, ..permit }));
        assert_eq!(authority.due(now), Some(now));
        authority.answer(permit(2, 11));
        assert_eq!(authority.due(now), Some(now), "the current permit stays");
        authority.answer(None);
        assert_eq!(authority.due(now), None);
    }

    #[test]
    fn the_answer_for_an_earlier_permit_grants_nothing() {
        let now = Instant::now();
        let mut authority = Authority::default();
        authority.describe(None);
        authority.answer(permit(1, 0));
        let write = authority.begin().unwrap();
        authority.answer(None);
        authority.answer(permit(2, 0));
        let held = Claimed::Held(found("ours", 6, "1.0"));
        authority.finish(write.generation, Some(held), now);
        assert!(!authority.allows());
    }

    #[test]
    fn a_claim_that_goes_is_written_again_once_the_member_has_been_described() {
        let now = Instant::now();
        let other = |version: u64| {
            let mut found = found("ours", version, "2.10");
            found.version.uid = "other".to_owned();
            found
        };
        let gone = |authority: &mut Authority| authority.gone();
        let replaced = |authority: &mut Authority| authority.see(other(1));
        let missed = |authority: &mut Authority| {
            authority.stamp(11);
            let write = authority.begin().unwrap();
            authority.finish(write.generation, Some(Claimed::Gone), now)
        };
        type Loss<'a> = &'a dyn Fn(&mut Authority) -> Option<Contest>;
        let losses: [Loss<'_>; 3] = [&gone, &replaced, &missed];
        for lose in losses {
            let mut authority = granted(now);
            assert_eq!(lose(&mut authority), Some(Contest::Outdated));
            assert!(!authority.allows() && authority.due(now).is_none());
            let description = authority.describe(None);
            authority.answer(permit(2, 10).map(|permit| Permit { description, ..permit }));
            assert_eq!(authority.due(now), Some(now));
        }
    }

    #[test]
    fn a_claim_that_was_created_says_nothing_of_the_member_that_was_described_before() {
        let now = Instant::now();
        let mut authority = Authority::default();
        authority.describe(None);
        authority.answer(permit(2, 10));
        let write = authority.begin().unwrap();
        let outcome = authority.finish(write.generation, Some(Claimed::Created), now);
        assert_eq!(outcome, Some(Contest::Outdated));
        assert!(authority.due(now).is_none());
    }

    #[test]
    fn nothing_is_written_while_no_watch_shows_the_claim() {
        let mut authority = granted(Instant::now());
        authority.unwatched();
        assert!(!authority.allows() && !authority.is_confirmed());
        assert_eq!(authority.see(found("ours", 6, "2.10")), None);
        assert!(authority.allows());
    }
}
