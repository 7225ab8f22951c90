//! From a history that breaks a law to the shortest one found that still does.

use std::time::{Duration, Instant};

use crate::laws::Laws;
use crate::run::{Outcome, run};
use crate::scenario::Scenario;

/// Deletes actions as long as the law stays broken, for no longer than `limit` of real time.
pub fn shrink(scenario: &Scenario, law: u8, limit: Duration) -> (Scenario, Outcome) {
    let began = Instant::now();
    let attempt = |scenario: &Scenario| {
        let outcome = run(scenario, Laws::new([law]));
        outcome.violations.iter().any(|found| found.law == law).then_some(outcome)
    };
    let mut best = scenario.clone();
    let mut outcome = run(scenario, Laws::new([law]));
    // What happens after the violation has no part in it.
    if let Some(at) = outcome.violations.iter().find(|found| found.law == law).map(|found| found.at)
    {
        let mut cut = best.clone();
        cut.actions.retain(|(when, _)| *when <= at);
        cut.rest = cut.rest.min(
            1 + at.saturating_sub(cut.actions.last().map_or(0, |(when, _)| *when)) / 1000 + 30,
        );
        if let Some(shorter) = attempt(&cut) {
            (best, outcome) = (cut, shorter);
        }
    }
    let mut size = best.actions.len().div_ceil(2);
    while size > 0 && began.elapsed() < limit {
        let mut start = 0;
        let mut removed = false;
        while start < best.actions.len() && began.elapsed() < limit {
            let mut candidate = best.clone();
            let end = (start + size).min(candidate.actions.len());
            candidate.actions.drain(start..end);
            match attempt(&candidate) {
                Some(shorter) => {
                    (best, outcome) = (candidate, shorter);
                    removed = true;
                }
                None => start += size,
            }
        }
        if !removed || size > 1 {
            size /= 2;
        }
    }
    (best, outcome)
}
