//! How much probing goes on at once.
//!
//! What somebody asks for is done as it is written, as long as no more than [`AT_ONCE`] probes are
//! under way. Usual checks have room of their own, so that they delay nothing that was asked for,
//! and together ask no more than [`A_SECOND`] questions in a second: with very many addresses each
//! is asked less often.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::Question;
use crate::upstream::random;

/// Probes under way, each of the two sorts for itself. Each has a socket open.
const AT_ONCE: usize = 128;
/// Usual checks in a second.
const A_SECOND: u64 = 500;
/// How soon a usual check is repeated that says something else than before.
const IN_DOUBT: u32 = 1000;

/// What all probers of a gateway share.
#[derive(Debug)]
pub(crate) struct Pace {
    asked: Semaphore,
    usual: Semaphore,
    /// Probers of usual checks.
    probers: AtomicU32,
}

impl Default for Pace {
    fn default() -> Self {
        let [asked, usual] = [AT_ONCE; 2].map(Semaphore::new);
        Self { asked, usual, probers: AtomicU32::new(0) }
    }
}

impl Pace {
    /// Waits for a turn, which lasts for as long as what is returned.
    pub(super) async fn turn(&self, question: &Question) -> Option<SemaphorePermit<'_>> {
        let turns = if question.usual { &self.usual } else { &self.asked };
        // They are never closed.
        turns.acquire().await.ok()
    }

    /// How long after one probe the next is due, and how soon it may be if somebody is in a hurry.
    pub(super) fn interval(&self, question: &Question) -> (Duration, Duration) {
        let interval = u64::from(question.interval);
        if !question.usual {
            let interval = jittered(interval);
            return (interval, interval);
        }
        let probers = u64::from(self.probers.load(Ordering::Relaxed));
        let interval = interval.max(probers * 1000 / A_SECOND);
        let soon = jittered(u64::from(IN_DOUBT.min(question.interval)));
        (jittered(interval).max(soon), soon)
    }
}

/// A tenth more or less, so that probers that started together do not stay together.
fn jittered(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds * 9 / 10 + random() % (milliseconds / 5 + 1))
}

/// Counts a prober of usual checks for as long as it runs.
pub(super) struct Counted(Arc<Pace>);

impl Counted {
    pub(super) fn new(pace: &Arc<Pace>) -> Self {
        pace.probers.fetch_add(1, Ordering::Relaxed);
        Self(pace.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.probers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Destination;

    #[test]
    fn very_many_addresses_are_each_asked_less_often() {
        let destination = Destination::Ip("192.0.2.1:80".parse().unwrap());
        let question = Question::usual(destination);
        let pace = Arc::new(Pace::default());
        let (few, _) = pace.interval(&question);
        let all: Vec<_> = (0..10_000).map(|_| Counted::new(&pace)).collect();
        let (many, soon) = pace.interval(&question);
        assert!((4500..=5500).contains(&few.as_millis()), "{few:?}");
        assert!((18_000..=22_000).contains(&many.as_millis()), "{many:?}");
        assert!(soon.as_millis() <= 1100, "what is in doubt is settled soon: {soon:?}");
        drop(all);
        assert!(
            pace.interval(&question).0.as_millis() <= 5500,
            "those that are gone count no more"
        );
    }
}
