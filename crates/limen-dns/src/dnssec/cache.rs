//! Signatures that a worker remembers.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::signer::{Content, REST, Signer};

/// Signatures in each of the two halves of the memory: some 40 MB in all.
const MOST: usize = 1 << 16;

/// How far back a clock may be set before signatures are made again, in seconds: far less than
/// they are dated back, so that they are good for clocks that are behind as well.
const AHEAD: i32 = 60;

/// Signatures by what they sign. When the younger half is full it becomes the older one, and what
/// nobody has asked for since then is forgotten.
#[derive(Default)]
pub(crate) struct Signatures {
    young: Half,
    old: Half,
    most: Option<usize>,
}

type Half = HashMap<Box<[u8]>, Entry, RandomState>;

struct Entry {
    signatures: Vec<Box<[u8]>>,
    made: u32,
    expires: u32,
}

impl Signatures {
    /// The data of the RRSIG records for some records. `now` is in seconds since 1970.
    pub(crate) fn of(&mut self, signer: &Signer, content: &Content, now: u32) -> &[Box<[u8]>] {
        // What was made while the clock was ahead is not good yet.
        let good = |entry: &Entry| {
            entry.expires.wrapping_sub(now) as i32 > REST as i32
                && entry.made.wrapping_sub(now) as i32 <= AHEAD
        };
        let key = &content.bytes[..];
        if !self.young.get(key).is_some_and(good) {
            let kept = self.old.remove(key).filter(good);
            let entry = kept.unwrap_or_else(|| {
                let (signatures, expires) = signer.sign(content, now);
                Entry { signatures, made: now, expires }
            });
            if self.young.len() >= self.most.unwrap_or(MOST) {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(key.into(), entry);
        }
        self.young.get(key).map_or(&[], |entry| &entry.signatures)
    }

    #[cfg(test)]
    pub(super) fn with_most(most: usize) -> Self {
        Self { most: Some(most), ..Self::default() }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}
