//! Verdicts with hysteresis: one bad answer is no outage, and one good one no recovery.

use serde::{Deserialize, Serialize};

use crate::global::Verdict;

/// How many equal answers in a row change a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Failures until it is unhealthy.
    pub failures: u32,
    /// Successes until it is healthy again.
    pub successes: u32,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { failures: 3, successes: 2 }
    }
}

/// A verdict, and what speaks against it so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// The verdict in force.
    pub verdict: Verdict,
    /// Answers in a row that contradict it.
    pub against: u32,
    /// When it changed last, in seconds since 1970.
    pub since: i64,
}

impl Judged {
    /// The verdict after one more answer.
    #[must_use]
    pub fn after(self, success: bool, thresholds: Thresholds, now: i64) -> Self {
        let (told, needed) = match success {
            true => (Verdict::Healthy, thresholds.successes),
            false => (Verdict::Unhealthy, thresholds.failures),
        };
        if self.verdict == told {
            return Self { against: 0, ..self };
        }
        // The first answer of all is better than knowing nothing.
        if self.verdict == Verdict::Unknown || self.against + 1 >= needed {
            return Self { verdict: told, against: 0, since: now };
        }
        Self { against: self.against + 1, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(answers: &[bool]) -> Vec<Verdict> {
        let mut judged = Judged::default();
        answers
            .iter()
            .map(|&answer| {
                judged = judged.after(answer, Thresholds::default(), 0);
                judged.verdict
            })
            .collect()
    }

    #[test]
    fn a_verdict_changes_only_after_several_equal_answers() {
        use Verdict::{Healthy as H, Unhealthy as U};
        assert_eq!(verdicts(&[true, false, false, true, false, false]), [H, H, H, H, H, H]);
        assert_eq!(verdicts(&[true, false, false, false, true, true]), [H, H, H, U, U, H]);
        assert_eq!(verdicts(&[false, true, false, true, true]), [U, U, U, U, H]);
    }

    #[test]
    fn the_time_of_a_verdict_is_that_of_its_change() {
        let judged = Judged::default().after(true, Thresholds::default(), 10);
        assert_eq!(judged.after(true, Thresholds::default(), 20).since, 10);
    }
}
