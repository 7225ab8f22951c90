//! That something does not exist: one NSEC record for just that name (RFC 9824).

use crate::wire::name::{self, LONGEST};

/// The name that directly follows another, in the order of RFC 4034.
pub(crate) fn next_name(bytes: &[u8], apex: &[u8]) -> Vec<u8> {
    if bytes.len() + 2 <= LONGEST {
        return [b"\x01\0", bytes].concat();
    }
    // There is no room below the longest names: the next sibling.
    let mut above = bytes;
    while let Some(parent) = name::parent(above).filter(|parent| parent.len() >= apex.len()) {
        let mut label = above[1..above.len() - parent.len()].to_vec();
        while label.last() == Some(&0xFF) {
            label.pop();
        }
        if let Some(last) = label.last_mut() {
            // Capital letters count as small ones, so they are no next.
            *last = if *last == b'@' { b'[' } else { *last + 1 };
            return [&[label.len() as u8], &label[..], parent].concat();
        }
        above = parent;
    }
    apex.to_vec()
}

/// The types that a name has, as NSEC records have them.
pub(crate) fn bitmap(kinds: &mut Vec<u16>) -> Vec<u8> {
    kinds.sort_unstable();
    kinds.dedup();
    let mut map = Vec::new();
    for window in kinds.chunk_by(|one, other| one >> 8 == other >> 8) {
        let mut bits = [0_u8; 32];
        for kind in window {
            let bit = usize::from(kind & 0xFF);
            bits[bit / 8] |= 0x80 >> (bit % 8);
        }
        let length = bits.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        map.extend_from_slice(&[(window[0] >> 8) as u8, length as u8]);
        map.extend_from_slice(&bits[..length]);
    }
    map
}
