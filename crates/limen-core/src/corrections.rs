//! How often a leaf that others change in a member is put right.
//!
//! ```text
//! drift ──► at once ──► 1 s ──► 5 s ──► 30 s ──► 30 s ──► yield until the desired leaf changes
//! ```
//!
//! A leaf that stays as desired for ten minutes starts over.

use std::time::Duration;

/// The pause before each correction; the last one repeats.
const PAUSES: [Duration; 4] =
    [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30)];
/// The corrections of a leaf that never becomes stable.
const LIMIT: u8 = 5;
/// The time without drift after which a leaf counts as stable.
const STABLE: Duration = Duration::from_secs(600);

/// The corrections of one leaf. Times are durations since any fixed instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Corrections {
    count: u8,
    last: Duration,
    /// When it was first seen as desired after its last drift; `None` while it drifts.
    stable_since: Option<Duration>,
}

/// The answer to drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// Correct it immediately.
    Now,
    /// Correct it at this time.
    At(Duration),
    /// Leave the fields to the other manager.
    Yield,
}

impl Corrections {
    /// Drift is seen at `now`.
    pub fn drifted(&mut self, now: Duration) -> Correction {
        if let Some(since) = self.stable_since.take()
            && now.saturating_sub(since) >= STABLE
        {
            self.count = 0;
        }
        if self.count >= LIMIT {
            return Correction::Yield;
        }
        let pause = PAUSES[usize::from(self.count).min(PAUSES.len() - 1)];
        match self.last + pause {
            due if self.count > 0 && due > now => Correction::At(due),
            _ => Correction::Now,
        }
    }

    /// A correction is sent at `now`.
    pub fn sent(&mut self, now: Duration) {
        (self.count, self.last) = (self.count.saturating_add(1).min(LIMIT), now);
    }

    /// The leaf is as desired at `now`.
    pub fn settled(&mut self, now: Duration) {
        self.stable_since.get_or_insert(now);
    }

    /// The desired leaf has changed. A leaf that was yielded is corrected once more at most.
    pub fn desired_changed(&mut self) {
        self.count = if self.count >= LIMIT { LIMIT - 1 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Corrects as soon as the rules allow, against a rival that changes the leaf at once, and
    /// returns the times of the corrections.
    fn against_rival(corrections: &mut Corrections, mut now: Duration) -> Vec<Duration> {
        let mut sent = Vec::new();
        loop {
            match corrections.drifted(now) {
                Correction::Now => {
                    corrections.sent(now);
                    corrections.settled(now);
                    sent.push(now);
                }
                Correction::At(due) => now = due,
                Correction::Yield => return sent,
            }
        }
    }

    #[test]
    fn corrections_back_off_and_then_yield() {
        let mut corrections = Corrections::default();
        let sent = against_rival(&mut corrections, seconds(100));
        assert_eq!(sent, [100, 101, 106, 136, 166].map(seconds));
        assert_eq!(corrections.drifted(seconds(400)), Correction::Yield);
    }

    #[test]
    fn a_yielded_leaf_gets_one_correction_for_every_change_of_the_desired_leaf() {
        let mut corrections = Corrections::default();
        against_rival(&mut corrections, seconds(0));
        for n in 1..4 {
            corrections.desired_changed();
            let sent = against_rival(&mut corrections, seconds(100 * n));
            assert_eq!(sent.len(), 1, "{sent:?}");
        }
    }

    #[test]
    fn a_change_of_the_desired_leaf_before_it_is_yielded_starts_over() {
        let mut corrections = Corrections::default();
        corrections.sent(seconds(1));
        corrections.sent(seconds(2));
        corrections.desired_changed();
        assert_eq!(corrections.drifted(seconds(3)), Correction::Now);
    }

    #[test]
    fn ten_minutes_without_drift_start_over() {
        let mut corrections = Corrections::default();
        against_rival(&mut corrections, seconds(0));
        assert_eq!(corrections.drifted(seconds(5000)), Correction::Yield, "it drifts all the time");
        corrections.settled(seconds(5000));
        assert_eq!(corrections.drifted(seconds(5599)), Correction::Yield);
        corrections.settled(seconds(5599));
        corrections.settled(seconds(6000));
        assert_eq!(corrections.drifted(seconds(6199)), Correction::Now);
        corrections.sent(seconds(6199));
        assert_eq!(corrections.drifted(seconds(6199)), Correction::At(seconds(6200)));
    }
}
