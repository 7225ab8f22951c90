//! How much this gateway sends to one target of one backend.
//!
//! The control thread writes what may be sent, computed from what all edges want; workers take
//! their requests out of it. One number is shared by all workers, and no lock.

use std::sync::atomic::{AtomicU64, Ordering};

use limen_core::decide::meter;

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
}

impl Flow {
    pub(crate) fn new(capacity: Option<f64>) -> Self {
        Self {
            allowed: Number::new(capacity.unwrap_or(f64::INFINITY)),
            open: Number::new(1.0),
            next: AtomicU64::new(0),
            utilisation: Number::new(f64::NAN),
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
        self.allowed.set(allowed);
        self.open.set(open);
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
        let before = self.utilisation.get();
        let smooth = if before.is_nan() { utilisation } else { before * 0.9 + utilisation * 0.1 };
        self.utilisation.set(smooth);
    }

    /// How busy the target says it is.
    pub(crate) fn utilisation(&self) -> Option<f64> {
        Some(self.utilisation.get()).filter(|value| !value.is_nan())
    }
}
