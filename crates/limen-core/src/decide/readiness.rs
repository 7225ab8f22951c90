//! Whether a target should get requests, from what the hub and the edge itself know of it.

use crate::global::{Target, Verdict};

/// How good a candidate a target is, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Readiness {
    /// It should get requests.
    Ready,
    /// Somebody is taking traffic away from it.
    Draining,
    /// Nobody has heard of it for a while, and the edge cannot tell either.
    Stale,
    /// It has no ready endpoints, or does not answer.
    Unhealthy,
}

impl Readiness {
    /// From best to worst.
    pub const ALL: [Self; 4] = [Self::Ready, Self::Draining, Self::Stale, Self::Unhealthy];

    /// What it is called in metrics and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Stale => "stale",
            Self::Unhealthy => "unhealthy",
        }
    }
}

/// What the edge has found out by itself, with probes and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnKnowledge {
    /// It does not probe this target, and no request says otherwise.
    None,
    /// At least one address answers.
    Answers,
    /// No address answers.
    Silent,
}

/// How good a candidate a target is.
///
/// A member's API that cannot be reached or watched says nothing about the pods behind it. Then
/// what the edge finds out by itself decides, and where it has found out nothing the target is merely stale.
pub fn readiness(target: &Target, own: OwnKnowledge) -> Readiness {
    let verdicts = &target.verdicts;
    let heard_of = !verdicts.is_stale();
    let empty = target.ready_endpoints == Some(0) || verdicts.endpoints == Verdict::Unhealthy;
    if own == OwnKnowledge::Silent || target.addresses.is_empty() || (heard_of && empty) {
        return Readiness::Unhealthy;
    }
    if own == OwnKnowledge::None && verdicts.edge == Verdict::Unhealthy {
        return Readiness::Unhealthy;
    }
    if target.drained_percent >= 100 {
        return Readiness::Draining;
    }
    if own == OwnKnowledge::None && !heard_of {
        return Readiness::Stale;
    }
    Readiness::Ready
}
