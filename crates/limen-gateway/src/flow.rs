//! How much this gateway sends to one target of one backend.
//!
//! The control thread writes what may be sent, computed from what all edges want; workers take
//! their requests out of it. One number is shared by all workers, and no lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use limen_core::decide::{meter, remeter};

use crate::upstream::milliseconds;

/// What a target said of itself so many milliseconds ago says nothing of now: it may have been busy
/// with what goes elsewhere since.
const REMEMBERED: u64 = 3000;

/// A number that is written by one and read by many.
#[derive(Debug)]
struct Number(AtomicU64);

impl Number {
    fn new(value: f64) -> Self {
        Self(AtomicU64::new(value.to_bits()))
    }

    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
}

/// What may be sent to a target.
#[derive(Debug)]
pub(crate) struct Flow {
    allowed: Number,
    open: Number,
    /// When the next request would be on time, in nanoseconds since the process started.
    next: AtomicU64,
    /// How busy the target says it is; not a number if it says nothing.
    utilisation: Number,
    /// When it last said so, in milliseconds since the process started.
    reported_at: AtomicU64,
    /// Whether it has said so since this was last looked at.
    news: AtomicBool,
    /// What it can take, as that follows from what it said; not a number if nothing does.
    learned: Number,
}

impl Flow {
    pub(crate) fn new(capacity: Option<f64>) -> Self {
        Self {
            allowed: Number::new(capacity.unwrap_or(f64::INFINITY)),
            open: Number::new(1.0),
            next: AtomicU64::new(0),
            utilisation: Number::new(f64::NAN),
            reported_at: AtomicU64::new(0),
            news: AtomicBool::new(false),
            learned: Number::new(f64::NAN),
        }
    }

    /// Requests in a second that may go there; nothing means as many as come.
    pub(crate) fn allowed(&self) -> Option<f64> {
        Some(self.allowed.get()).filter(|allowed| allowed.is_finite())
    }

    /// The part of clients that there is room for.
    pub(crate) fn open(&self) -> f64 {
        self.open.get()
    }

    pub(crate) fn allow(&self, allowed: f64, open: f64) {
        self.allow_then(allowed, open, milliseconds(Instant::now()));
    }

    fn allow_then(&self, allowed: f64, open: f64, milliseconds: u64) {
        self.allowed.set(allowed);
        self.open.set(open);
        let now = milliseconds.saturating_mul(1_000_000);
        self.next.fetch_min(remeter(u64::MAX, now, allowed), Ordering::Relaxed);
    }

    /// Room for one more request, if there is any.
    pub(crate) fn take(&self, milliseconds: u64) -> bool {
        let allowed = self.allowed.get();
        if allowed == f64::INFINITY {
            return true;
        }
        let now = milliseconds.saturating_mul(1_000_000);
        let later = |next| meter(next, now, allowed);
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).is_ok()
    }

    /// The target said how busy it is. What it said before fades away.
    pub(crate) fn reported(&self, utilisation: f64) {
        self.reported_then(utilisation, milliseconds(Instant::now()));
    }

    fn reported_then(&self, utilisation: f64, now: u64) {
        let before = self.utilisation_then(now);
        let smooth = before.map_or(utilisation, |before| before * 0.9 + utilisation * 0.1);
        self.utilisation.set(smooth);
        self.reported_at.store(now, Ordering::Relaxed);
        self.news.store(true, Ordering::Relaxed);
    }

    /// How busy the target says it is; nothing if it has said nothing lately.
    pub(crate) fn utilisation(&self) -> Option<f64> {
        self.utilisation_then(milliseconds(Instant::now()))
    }

    /// What the target can take, by what it says of itself. `learn` is asked when it has said
    /// something since the last time: how busy it was has to do with what it got then, and not
    /// with how little it gets when requests go elsewhere.
    pub(crate) fn capacity(&self, learn: impl FnOnce(f64) -> Option<f64>) -> Option<f64> {
        let utilisation = self.utilisation()?;
        if self.news.swap(false, Ordering::Relaxed) {
            self.learned.set(learn(utilisation).unwrap_or(f64::NAN));
        }
        Some(self.learned.get()).filter(|capacity| !capacity.is_nan())
    }

    fn utilisation_then(&self, now: u64) -> Option<f64> {
        let old = now.saturating_sub(self.reported_at.load(Ordering::Relaxed)) > REMEMBERED;
        Some(self.utilisation.get()).filter(|value| !value.is_nan() && !old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_target_said_of_itself_is_forgotten() {
        let flow = Flow::new(None);
        assert_eq!(flow.utilisation_then(0), None);
        flow.reported_then(1.0, 1000);
        flow.reported_then(0.5, 1000 + REMEMBERED);
        let faded = flow.utilisation_then(1000 + 2 * REMEMBERED).unwrap();
        assert!((faded - 0.95).abs() < 1e-9, "it fades away: {faded}");
        assert_eq!(flow.utilisation_then(1001 + 2 * REMEMBERED), None);
        flow.reported_then(0.2, 1001 + 2 * REMEMBERED);
        assert_eq!(flow.utilisation_then(1001 + 2 * REMEMBERED), Some(0.2), "it starts again");
    }

    #[test]
    fn a_request_at_a_tiny_allowance_does_not_close_a_target_that_gets_room() {
        let flow = Flow::new(Some(0.005));
        assert!(flow.take(1000));
        assert!(!flow.take(2000), "one in two hundred seconds");
        flow.allow_then(100.0, 1.0, 3000);
        assert!(flow.take(4000), "there is room for a hundred");
    }

    #[test]
    fn a_capacity_is_learned_only_from_news() {
        let flow = Flow::new(None);
        assert_eq!(flow.capacity(|_| Some(1.0)), None);
        flow.reported(0.5);
        assert_eq!(flow.capacity(|busy| Some(50.0 / busy)), Some(100.0));
        assert_eq!(
            flow.capacity(|busy| Some(1.0 / busy)),
            Some(100.0),
            "hardly anything went there"
        );
        flow.reported(0.5);
        assert_eq!(flow.capacity(|_| None), None);
    }
}
