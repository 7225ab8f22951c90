//! Power of two choices: two addresses at random, and the one with less to do.

/// One of `count` addresses; `load` says how busy each is, and nothing for those that must not be
/// chosen. Nothing when none may be.
pub fn two_choices(
    count: usize,
    random: u64,
    load: impl Fn(usize) -> Option<u32>,
) -> Option<usize> {
    if count <= 1 {
        return (count == 1 && load(0).is_some()).then_some(0);
    }
    // The halves of one random number; the bias of a remainder of 2^32 is of no account.
    let first = (random as u32) as usize % count;
    let second = (first + 1 + (random >> 32) as usize % (count - 1)) % count;
    match (load(first), load(second)) {
        (Some(one), Some(other)) => Some(if other < one { second } else { first }),
        (Some(_), None) => Some(first),
        (None, Some(_)) => Some(second),
        // Most are unavailable: look at all of them.
        (None, None) => (0..count)
            .map(|step| (first + step) % count)
            .filter_map(|index| Some((load(index)?, index)))
            .min_by_key(|(load, _)| *load)
            .map(|(_, index)| index),
    }
}

/// How much of its share, in percent, an address gets that has been well for `age` of a
/// slow start of `window`.
pub fn slow_start_share(age: u64, window: u64) -> u32 {
    if age >= window {
        return 100;
    }
    u32::try_from(age * 100 / window).unwrap_or(100).max(10)
}
