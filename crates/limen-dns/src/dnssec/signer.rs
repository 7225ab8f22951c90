//! What signs the answers of one zone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::KEY_TTL;
use super::folder::{KeyState, ZoneKey};
use super::key::ALGORITHM;
use crate::wire::{IN, kind};
use crate::zone::RrSet;

/// A resolver's clock may be so far behind, in seconds.
const SKEW: u32 = 3600;
/// How long a signature is good for, in seconds, and by how much they differ, so that they do not
/// all have to be made again at once.
const GOOD_FOR: u32 = 7 * 24 * 3600;
const JITTER: u32 = 24 * 3600;
/// A signature that is not good for this long any more is made again. It has to be more than any
/// answer is remembered.
pub(super) const REST: u32 = 3 * 24 * 3600;

/// The keys of one zone at one moment.
pub(crate) struct Signer {
    /// No other has the same.
    id: u64,
    apex: Arc<[u8]>,
    keys: Vec<ZoneKey>,
    /// DNSKEY, CDS and CDNSKEY.
    pub(crate) sets: Vec<RrSet>,
}

/// The records of one name and type in the one order and spelling that signatures are made of
/// (RFC 4034, section 6).
#[derive(Default)]
pub(crate) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) kind: u16,
    ttl: u32,
    labels: u8,
}

/// Bytes in front of the records: whose they are.
const ID: usize = 8;

impl Content {
    /// Fills it anew. `owner` is in lower case, `data` in any order.
    pub(crate) fn set(
        &mut self,
        signer: &Signer,
        owner: &[u8],
        kind: u16,
        ttl: u32,
        data: &mut [&[u8]],
    ) {
        data.sort_unstable();
        self.bytes.clear();
        self.bytes.extend_from_slice(&signer.id.to_be_bytes());
        for (index, one) in data.iter().enumerate() {
            // Equal records are one.
            if index > 0 && data[index - 1] == *one {
                continue;
            }
            self.bytes.extend_from_slice(owner);
            self.bytes.extend_from_slice(&kind.to_be_bytes());
            self.bytes.extend_from_slice(&IN.to_be_bytes());
            self.bytes.extend_from_slice(&ttl.to_be_bytes());
            self.bytes.extend_from_slice(&(one.len() as u16).to_be_bytes());
            self.bytes.extend_from_slice(one);
        }
        (self.kind, self.ttl, self.labels) = (kind, ttl, labels(owner));
    }
}

/// Labels of a name, without the root and without a wildcard.
fn labels(name: &[u8]) -> u8 {
    let (mut at, mut count) = (0, 0);
    while let Some(length) = name.get(at).filter(|length| **length != 0) {
        count += 1;
        at += 1 + usize::from(*length);
    }
    if name.starts_with(b"\x01*") { count - 1 } else { count }
}

impl Signer {
    /// What signs for a zone with these keys. Nothing if none of them is active.
    pub(super) fn new(apex: Arc<[u8]>, keys: Vec<ZoneKey>) -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if !keys.iter().any(|key| key.state == KeyState::Active) {
            return None;
        }
        let set = |kind, data| RrSet { kind, ttl: KEY_TTL, data };
        let wanted = || keys.iter().filter(|key| key.state != KeyState::Retired);
        let sets = vec![
            set(kind::DNSKEY, keys.iter().map(|key| key.key.dnskey.clone()).collect()),
            set(kind::CDNSKEY, wanted().map(|key| key.key.dnskey.clone()).collect()),
            set(kind::CDS, wanted().map(|key| key.key.ds(&apex)).collect()),
        ];
        Some(Self { id: NEXT.fetch_add(1, Ordering::Relaxed), apex, keys, sets })
    }

    /// Whether it has the same keys as another, in the same states.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let keys = |signer: &Self| -> Vec<(Box<[u8]>, KeyState)> {
            signer.keys.iter().map(|key| (key.key.dnskey.clone(), key.state)).collect()
        };
        self.apex == other.apex && keys(self) == keys(other)
    }

    /// The DS records that the parent should have.
    pub(crate) fn ds(&self) -> impl Iterator<Item = Box<[u8]>> {
        let wanted = self.keys.iter().filter(|key| key.state != KeyState::Retired);
        wanted.map(|key| key.key.ds(&self.apex))
    }

    /// The data of RRSIG records for some records, and when they expire. `now` is in seconds.
    pub(super) fn sign(&self, content: &Content, now: u32) -> (Vec<Box<[u8]>>, u32) {
        // What is signed is as good as random.
        let seed = content
            .bytes
            .iter()
            .fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)));
        let expires = now.wrapping_add(GOOD_FOR + seed % JITTER);
        // Whoever has the DS of only one of the keys must be able to trust the others.
        let all = content.kind == kind::DNSKEY;
        let keys = self.keys.iter().filter(|key| all || key.state == KeyState::Active);
        let signatures = keys.filter_map(|key| {
            let mut data = Vec::with_capacity(18 + self.apex.len() + 64 + content.bytes.len());
            data.extend_from_slice(&content.kind.to_be_bytes());
            data.extend_from_slice(&[ALGORITHM, content.labels]);
            data.extend_from_slice(&content.ttl.to_be_bytes());
            data.extend_from_slice(&expires.to_be_bytes());
            data.extend_from_slice(&now.wrapping_sub(SKEW).to_be_bytes());
            data.extend_from_slice(&key.key.tag.to_be_bytes());
            data.extend_from_slice(&self.apex);
            let head = data.len();
            data.extend_from_slice(&content.bytes[ID..]);
            let signature = key.key.sign(&data)?;
            data.truncate(head);
            data.extend_from_slice(&signature);
            Some(data.into_boxed_slice())
        });
        (signatures.collect(), expires)
    }
}
