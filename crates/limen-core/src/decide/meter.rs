//! How fast requests may go somewhere.

/// The part of a second that a rate may run ahead of itself. Clients that ask at the same moment
/// and are few on average find room together, and a second never brings more than a quarter too
/// many.
const BURST_NANOSECONDS: u64 = 250_000_000;
const SECOND: f64 = 1e9;

/// One more request at a rate, by the generic cell rate algorithm.
///
/// `next` is when the next request would be on time, in nanoseconds; the answer is its new value,
/// or nothing if there is no room. It is one number, so that many threads can share it by
/// compare-and-swap.
pub fn meter(next: u64, now: u64, requests_per_second: f64) -> Option<u64> {
    meter_with(next, now, requests_per_second, BURST_NANOSECONDS)
}

/// The same, where the rate may run ahead of itself by a time of the caller's choice.
pub fn meter_with(next: u64, now: u64, requests_per_second: f64, ahead: u64) -> Option<u64> {
    // Also what is no number has no room.
    if requests_per_second.is_nan() || requests_per_second <= 0.0 {
        return None;
    }
    let next = next.max(now);
    // Asked before the division, which is what costs most here.
    if next - now > ahead {
        return None;
    }
    // The conversion saturates: a rate next to nothing is one request in a very long time.
    let apart = (SECOND / requests_per_second) as u64;
    Some(next.saturating_add(apart))
}

/// When the next request would be on time, after the rate has changed. What was taken at a rate
/// next to nothing is not owed for minutes at one with room: no more is owed than one request at
/// the rate that holds now.
pub fn remeter(next: u64, now: u64, requests_per_second: f64) -> u64 {
    if requests_per_second.is_nan() || requests_per_second <= 0.0 {
        return next;
    }
    let apart = (SECOND / requests_per_second) as u64;
    next.min(now.saturating_add(BURST_NANOSECONDS).saturating_add(apart))
}

/// An allowance goes down at once and comes back slowly, and not for a trifle.
///
/// `full` is what it would be at most, and a quarter of that comes back in a second. A twentieth
/// of what is wanted is a trifle.
pub fn ramp(before: f64, wanted: f64, full: f64, seconds: f64) -> f64 {
    if wanted <= before {
        return wanted;
    }
    if wanted - before < wanted / 20.0 && wanted < full {
        return before;
    }
    wanted.min(before + full / 4.0 * seconds.max(0.0))
}
