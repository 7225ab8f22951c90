//! When it is published again: at once where something else is wanted, now and then to renew the
//! lease and to see what others have done, and after trouble later and later.
//!
//! A round reads a whole zone, and a hub has news many times a second, most of which changes
//! nothing that is published. So news alone are no reason for a round, and where rounds fail they
//! do not bring the next one forward.

use std::time::Duration;

use limen_core::publish::Wanted;
use tokio::time::Instant;

use crate::publish::Round;

const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// The rounds so far, and the next.
pub(crate) struct Rounds {
    pub(crate) due: Instant,
    /// How often the zone is looked at when nothing happens.
    look: Duration,
    retry: Duration,
    failing: bool,
    /// What the last round was for.
    last: Option<Wanted>,
}

impl Rounds {
    /// Begins at once. `lease` is in seconds.
    pub(crate) fn new(lease: i64, now: Instant) -> Self {
        let look = Duration::from_secs(u64::try_from(lease / 6).unwrap_or(0).max(1));
        Self { due: now, look, retry: FIRST_RETRY, failing: false, last: None }
    }

    /// This is wanted from now on.
    pub(crate) fn hear(&mut self, wanted: &Wanted, now: Instant) {
        if !self.failing && self.last.as_ref() != Some(wanted) {
            self.due = self.due.min(now);
        }
    }

    /// A round was made for what is wanted.
    pub(crate) fn made(&mut self, round: &Round, wanted: &Wanted, now: Instant) {
        let next = match (round.failed.is_empty(), round.overtaken.is_empty()) {
            (true, true) => self.look,
            (true, false) => FIRST_RETRY,
            (false, _) => self.retry.min(self.look),
        };
        self.retry = if round.failed.is_empty() { FIRST_RETRY } else { later(self.retry) };
        (self.due, self.failing, self.last) = (now + next, false, Some(wanted.clone()));
    }

    /// A round could not be made. Returns how long the next one waits.
    pub(crate) fn failed(&mut self, now: Instant) -> Duration {
        let wait = self.retry;
        (self.due, self.failing, self.retry) = (now + wait, true, later(wait));
        wait
    }
}

fn later(retry: Duration) -> Duration {
    (retry * 2).min(LAST_RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn wanted(name: &str) -> Wanted {
        let names = [(name.to_owned(), [].into())].into();
        Wanted { names, ..Wanted::default() }
    }

    #[test]
    fn only_what_is_new_brings_a_round_forward() {
        let now = Instant::now();
        let mut rounds = Rounds::new(60, now);
        rounds.hear(&wanted("a"), now);
        assert_eq!(rounds.due, now);
        rounds.made(&Round::default(), &wanted("a"), now);
        assert_eq!(rounds.due, now + 10 * SECOND, "six times in a lease");
        rounds.hear(&wanted("a"), now + SECOND);
        assert_eq!(rounds.due, now + 10 * SECOND, "the same again");
        rounds.hear(&wanted("b"), now + SECOND);
        assert_eq!(rounds.due, now + SECOND);
        let overtaken = Round { overtaken: vec!["b".into()], ..Round::default() };
        rounds.made(&overtaken, &wanted("b"), now + SECOND);
        assert_eq!(rounds.due, now + 2 * SECOND, "somebody was faster");
    }

    #[test]
    fn news_do_not_hurry_a_server_in_trouble() {
        let now = Instant::now();
        let mut rounds = Rounds::new(6000, now);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(rounds.failed(now), seconds * SECOND);
            rounds.hear(&wanted("new"), now);
            assert_eq!(rounds.due, now + seconds * SECOND);
        }
        rounds.made(&Round::default(), &wanted("new"), now);
        assert_eq!(rounds.failed(now), SECOND, "it was well in between");
    }

    #[test]
    fn a_name_that_fails_is_tried_again_later_and_later_and_delays_no_other() {
        let now = Instant::now();
        let mut rounds = Rounds::new(6000, now);
        let partly = Round { failed: vec!["a".into()], ..Round::default() };
        for seconds in [1, 2, 4] {
            rounds.made(&partly, &wanted("a"), now);
            assert_eq!(rounds.due, now + seconds * SECOND);
        }
        rounds.hear(&wanted("b"), now + SECOND);
        assert_eq!(rounds.due, now + SECOND);
    }
}
