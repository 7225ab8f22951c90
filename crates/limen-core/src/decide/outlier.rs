//! When an address that keeps failing is left alone, and how it comes back.
//!
//! ```text
//!            failures in a row            time is up, or seen well
//! trusted ───────────────────────► ejected ───────────────► on probation
//!    ▲                                ▲                          │    │
//!    │                                └── any failure, longer ───┘    │
//!    └────────────────── successes in a row ──────────────────────────┘
//! ```
//!
//! Times are milliseconds of any clock that only goes forward.

use crate::global::Outliers;

/// Successes on probation that make an address trusted again.
const PROBATION: u32 = 3;

/// An address is never left alone for longer than this many times the first time.
const LONGEST: u32 = 10;

/// What is remembered of one address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlier {
    failures: u32,
    /// How often it was ejected since it was last trusted.
    ejections: u32,
    /// Successes since the last ejection.
    successes: u32,
    /// When it may be tried again.
    until: u64,
}

impl Outlier {
    /// A request to it failed. Whether that ejects it; `may_eject` is asked only if it should.
    pub fn failed(&mut self, rules: &Outliers, now: u64, may_eject: impl FnOnce() -> bool) -> bool {
        if now < self.until {
            // Requests that were on their way when it was ejected say nothing new.
            return false;
        }
        self.failures += 1;
        self.successes = 0;
        let enough = self.on_probation() || self.failures >= rules.consecutive_failures.max(1);
        if !enough || !may_eject() {
            return false;
        }
        self.failures = 0;
        self.ejections += 1;
        let times = u64::from(self.ejections.min(LONGEST));
        self.until = now + u64::from(rules.eject_seconds) * 1000 * times;
        true
    }

    /// A request to it succeeded.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        if self.on_probation() {
            self.successes += 1;
            if self.successes >= PROBATION {
                *self = Self::default();
            }
        }
    }

    /// It was seen to be well, otherwise than by a request. Whether it may be tried again at once:
    /// only the first time, as one that fails requests all the same has shown how little that says.
    pub fn seen_well(&mut self, now: u64) -> bool {
        let early = self.ejections == 1 && now < self.until;
        if early {
            self.until = now;
        }
        early
    }

    /// When it may be tried again; in the past if it may be now.
    pub fn ejected_until(&self) -> u64 {
        self.until
    }

    /// Whether it was ejected and has not been trusted since.
    pub fn on_probation(&self) -> bool {
        self.ejections > 0
    }

    /// Whether there is nothing to hold against it.
    pub fn is_trusted(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether one more of `total` addresses may be ejected beside the `ejected`.
///
/// Where there is a choice, one may always be; where there is none, ejecting helps nobody.
pub fn may_eject(rules: &Outliers, ejected: usize, total: usize) -> bool {
    let most = total * usize::from(rules.max_ejected_percent.min(100)) / 100;
    total > 1 && rules.max_ejected_percent > 0 && ejected < most.max(1)
}
