//! Hashes that every edge computes alike, and choices by them that move little.

/// A stable hash of some text.
pub fn hash(text: &[u8]) -> u64 {
    // FNV-1a, mixed: alone it is too regular for short texts.
    let folded = text.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mix(folded)
}

/// Spreads the bits of a number over all of it.
pub(super) fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Where a key lies between 0 and 1 as one candidate sees it.
pub(super) fn fraction(key: u64, candidate: u64) -> f64 {
    (mix(key ^ mix(candidate)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// One of the candidates by weighted rendezvous: each gets its share of keys, and when one goes
/// only its keys move. A candidate is its number, its hash and its weight.
pub fn rendezvous(
    key: u64,
    candidates: impl IntoIterator<Item = (usize, u64, f64)>,
) -> Option<usize> {
    let mut best = None;
    for (index, hash, weight) in candidates {
        if weight <= 0.0 {
            continue;
        }
        let distance = -fraction(key, hash).max(f64::MIN_POSITIVE).ln() / weight;
        if best.is_none_or(|(_, least)| distance < least) {
            best = Some((index, distance));
        }
    }
    best.map(|(index, _)| index)
}
