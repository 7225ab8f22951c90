//! The wall clock of hub and syncers.
//!
//! Timers and ages use tokio's clock, which a test can pause. Timestamps that people read, and ages
//! that must survive a restart, come from here, so that a simulated hub sees simulated time only.

use std::cell::Cell;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

thread_local! {
    /// Wall time at an instant of tokio's clock, on a thread that simulates.
    static SIMULATED: Cell<Option<(Timestamp, Instant)>> = const { Cell::new(None) };
}

/// The current time.
pub fn now() -> Timestamp {
    match SIMULATED.get() {
        None => Timestamp::now(),
        Some((base, since)) => {
            let passed = SignedDuration::try_from(since.elapsed()).unwrap_or_default();
            base.checked_add(passed).unwrap_or(base)
        }
    }
}

/// Seconds since 1970.
pub fn now_seconds() -> i64 {
    now().as_second()
}

/// Nanoseconds since the machine started, suspension included.
pub fn boot_nanos() -> u64 {
    match SIMULATED.get() {
        None => {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
            let nanos = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
            u64::try_from(nanos).unwrap_or_default()
        }
        Some((_, since)) => u64::try_from(since.elapsed().as_nanos()).unwrap_or_default(),
    }
}

/// Sets the simulated wall clock of this thread forwards or back. Timers, and the time since the
/// machine started, go on as before.
pub fn jump(by: SignedDuration) {
    if let Some((base, since)) = SIMULATED.get() {
        SIMULATED.set(Some((base.checked_add(by).unwrap_or(base), since)));
    }
}

/// From here on, wall time on this thread starts at `base` and advances with tokio's clock. Needs a
/// runtime whose clock is paused, and exactly one thread.
pub fn simulate(base: Timestamp) {
    SIMULATED.set(Some((base, Instant::now())));
}
