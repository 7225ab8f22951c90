//! Giving up the claim of a member that leaves the federation.
//!
//! The claim goes last: while it is there no other instance writes, so all work on leaves is done
//! first. No permit is taken afterwards, since it would claim the member again.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::{Engine, Errand};
use crate::claim;
use crate::member_error::{MemberError, MemberErrorKind};
use crate::syncer::MemberNews;

/// The pause after a release that failed.
const RETRY: Duration = Duration::from_secs(1);

/// How far the release of the claim is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ClaimRelease {
    /// The claim is kept.
    #[default]
    Kept,
    /// It is released when all work is done, not before this time.
    Due(Instant),
    /// The request is under way.
    Sent,
    /// The member carries no claim of this instance.
    Done,
}

impl Engine {
    pub(super) fn release_claim(&mut self) {
        if self.claim_release == ClaimRelease::Kept {
            self.claim_release = ClaimRelease::Due(Instant::now());
        }
    }

    /// Whether the claim may be written.
    pub(super) fn keeps_claim(&self) -> bool {
        matches!(self.claim_release, ClaimRelease::Kept | ClaimRelease::Due(_))
    }

    /// When the claim can be released, if nothing else is to be done before.
    pub(super) fn claim_release_due(&self) -> Option<Instant> {
        let ClaimRelease::Due(due) = self.claim_release else { return None };
        let idle = self.can_work() && self.queue.busy() == 0 && !self.authority.is_writing();
        let left = || self.leaves.all_desired().iter().any(|id| self.leaves.shall_go(id));
        (idle && !left()).then_some(due)
    }

    pub(super) fn start_claim_release(&mut self) -> Option<BoxFuture<'static, Errand>> {
        self.claim_release_due().filter(|due| *due <= Instant::now())?;
        let (instance, _) = self.authority.terms()?;
        self.claim_release = ClaimRelease::Sent;
        let (api, hub) = (self.api.clone(), self.leaves.hub().to_owned());
        let release = async move { Errand::Released(claim::release(&api, &hub, &instance).await) };
        Some(release.boxed())
    }

    pub(super) fn claim_released(&mut self, outcome: Result<(), MemberError>) {
        match outcome {
            Ok(()) => {
                self.claim_release = ClaimRelease::Done;
                self.authority.answer(None);
                self.authority_changed();
                self.say(MemberNews::ClaimReleased);
            }
            Err(error) => {
                if error.kind != MemberErrorKind::NotLeading {
                    let cluster = &self.options.cluster;
                    tracing::warn!(%cluster, %error, "claim not released; retrying");
                }
                self.claim_release = ClaimRelease::Due(Instant::now() + RETRY);
            }
        }
    }
}
