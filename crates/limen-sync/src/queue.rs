//! What is still to be done in a member: each leaf at most once, failures later and later.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(60);

/// What is still to be done. A key that is being worked on is not handed out again until it is
/// done, whatever happens meanwhile.
pub struct Queue<K> {
    ready: BTreeSet<K>,
    later: BTreeSet<(Instant, K)>,
    waiting: BTreeSet<K>,
    working: BTreeSet<K>,
    again: BTreeSet<K>,
    failures: BTreeMap<K, u32>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            ready: BTreeSet::new(),
            later: BTreeSet::new(),
            waiting: BTreeSet::new(),
            working: BTreeSet::new(),
            again: BTreeSet::new(),
            failures: BTreeMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    /// Something is to be looked at now.
    pub fn push(&mut self, key: K) {
        match self.working.contains(&key) {
            true => drop(self.again.insert(key)),
            false => drop(self.ready.insert(key)),
        }
    }

    /// Something is to be looked at, but not at once: more may come.
    pub fn push_later(&mut self, key: K, due: Instant) {
        if !self.ready.contains(&key) && !self.waiting.contains(&key) {
            self.waiting.insert(key.clone());
            self.later.insert((due, key));
        }
    }

    /// What to work on next.
    pub fn pop(&mut self, now: Instant) -> Option<K> {
        while let Some((due, _)) = self.later.first()
            && *due <= now
            && let Some((_, key)) = self.later.pop_first()
        {
            self.waiting.remove(&key);
            self.push(key);
        }
        let key = self.ready.pop_first()?;
        self.working.insert(key.clone());
        Some(key)
    }

    /// When something will be ready, if nothing is now.
    pub fn next_due(&self) -> Option<Instant> {
        self.later.first().map(|(due, _)| *due)
    }

    /// The work on a key is over; a failure is tried again later.
    pub fn done(&mut self, key: K, failed: bool, now: Instant) {
        self.working.remove(&key);
        let again = self.again.remove(&key);
        if failed {
            let failures = self.failures.entry(key.clone()).or_default();
            let pause = FIRST.saturating_mul(1 << (*failures).min(10)).min(LONGEST);
            *failures += 1;
            self.push_later(key, now + pause);
        } else {
            self.failures.remove(&key);
            if again {
                self.ready.insert(key);
            }
        }
    }

    /// Whether a key is being worked on.
    pub fn working(&self, key: &K) -> bool {
        self.working.contains(key)
    }

    /// What failed is worth another try right now.
    pub fn retry_all(&mut self) {
        self.waiting.clear();
        for (_, key) in std::mem::take(&mut self.later) {
            self.push(key);
        }
        self.failures.clear();
    }

    /// How much is ready or being worked on.
    pub fn busy(&self) -> usize {
        self.ready.len() + self.working.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_worked_on_once_at_a_time() {
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.push(1);
        queue.push(1);
        assert_eq!(queue.pop(now), Some(1));
        queue.push(1);
        assert_eq!(queue.pop(now), None);
        queue.done(1, false, now);
        assert_eq!(queue.pop(now), Some(1));
        queue.done(1, false, now);
        assert_eq!(queue.pop(now), None);
    }

    #[test]
    fn failures_come_back_later_and_later() {
        let mut queue = Queue::default();
        let mut now = Instant::now();
        queue.push(1);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            assert_eq!(queue.pop(now), Some(1));
            queue.done(1, true, now);
            assert_eq!(queue.pop(now), None);
            let due = queue.next_due().unwrap();
            pauses.push(due - now);
            now = due;
        }
        assert_eq!(pauses[..3], [FIRST, FIRST * 2, FIRST * 4]);
        assert_eq!(pauses[11], LONGEST);
        queue.retry_all();
        assert_eq!(queue.pop(Instant::now()), Some(1));
    }
}
