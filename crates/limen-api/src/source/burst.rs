//! When to act on changes that come in bursts.

use std::time::{Duration, Instant};

/// Changes that have been heard of and not been acted on.
///
/// They are due when nothing more has come for a while, or, if changes never end, when the first of
/// them has waited long enough.
#[derive(Debug)]
pub struct Burst {
    pause: Duration,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Burst {
    /// How many pauses the first change of a burst waits at most.
    const LONGEST: u32 = 10;

    /// A burst is over after so long a pause.
    pub fn new(pause: Duration) -> Self {
        Self { pause, first: None, last: None }
    }

    /// Notes whether something has changed at this moment.
    pub fn add(&mut self, changed: bool, now: Instant) {
        if changed {
            self.first.get_or_insert(now);
            self.last = Some(now);
        }
    }

    /// When to act, if there is anything to act on.
    pub fn due(&self) -> Option<Instant> {
        let (first, last) = (self.first?, self.last?);
        Some((last + self.pause).min(first + self.pause * Self::LONGEST))
    }

    /// Waits until it is time to act; for ever if there is nothing to act on.
    pub async fn over(&self) {
        match self.due() {
            Some(due) => tokio::time::sleep_until(due.into()).await,
            None => std::future::pending().await,
        }
    }

    /// All of them are being acted on.
    pub fn clear(&mut self) {
        (self.first, self.last) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_never_end_are_acted_on_all_the_same() {
        let (start, pause) = (Instant::now(), Duration::from_millis(5));
        let mut burst = Burst::new(pause);
        burst.add(false, start);
        assert_eq!(burst.due(), None);
        for change in 0..100 {
            burst.add(true, start + pause / 2 * change);
            let last = start + pause / 2 * change + pause;
            assert_eq!(burst.due(), Some(last.min(start + pause * 10)), "after {change}");
        }
        burst.clear();
        assert_eq!(burst.due(), None);
    }
}
