//! How the file is laid out.
//!
//! ```text
//!   log     (revision, n)    ──► record: the n-th change of that revision, with its value
//!   index   (key, revision)  ──► n, and whether the key is there
//!   expiry  (deadline, revision, n) ──► ()
//!   meta    name             ──► number
//! ```
//!
//! A value is written once, at the end of the log, whatever its key: the log is both the history
//! that watches replay and the place that reads take values from. The index says which records
//! belong to a key. A record ends with nothing but its value, and starts with a checksum, so that
//! damage to the file surfaces as an error and not as a wrong answer.

use bytes::Bytes;
use redb::TableDefinition;

use crate::{Entry, Revision};

/// Where a record is: a revision, and which of that revision's changes.
pub(super) type Position = (u64, u32);

pub(super) const LOG: TableDefinition<'_, Position, &[u8]> = TableDefinition::new("log");
pub(super) const INDEX: TableDefinition<'_, (&[u8], u64), u32> = TableDefinition::new("index");
pub(super) const EXPIRY: TableDefinition<'_, (u64, u64, u32), ()> = TableDefinition::new("expiry");
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// The value of an index row: which change of the revision it is, and whether that change left the
/// key there.
pub(super) mod index_value {
    pub(in super::super) fn pack(n: u32, present: bool) -> u32 {
        n << 1 | u32::from(present)
    }

    pub(in super::super) fn unpack(value: u32) -> (u32, bool) {
        (value >> 1, value & 1 == 1)
    }
}

/// The version of this layout. A file with another one is refused.
pub(super) const FORMAT: u64 = 1;

pub(super) const META_FORMAT: &str = "format";
/// The newest revision.
pub(super) const META_REVISION: &str = "revision";
/// The revision up to which superseded versions may be forgotten.
pub(super) const META_COMPACTED: &str = "compacted";
/// The revision up to which they have been removed from the file.
pub(super) const META_CLEANED: &str = "cleaned";

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) key: Bytes,
    /// `None` if the key was deleted.
    pub(super) value: Option<Bytes>,
    /// The revision at which the key was created.
    pub(super) created: u64,
    /// The record that this one supersedes, unless that one is a deletion.
    pub(super) previous: Option<Position>,
    /// When the key is to be deleted, in milliseconds of Unix time.
    pub(super) deadline: Option<u64>,
}

const CHECKSUM: usize = 4;
const FIXED: usize = CHECKSUM + 1 + 8 + 8 + 4 + 8 + 4;

impl Record {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&[0; CHECKSUM]);
        out.push(u8::from(self.value.is_some()));
        out.extend_from_slice(&self.created.to_le_bytes());
        let (revision, n) = self.previous.unwrap_or_default();
        out.extend_from_slice(&revision.to_le_bytes());
        out.extend_from_slice(&n.to_le_bytes());
        out.extend_from_slice(&self.deadline.unwrap_or_default().to_le_bytes());
        let key_len = u32::try_from(self.key.len()).expect("a transaction is smaller than 4 GiB");
        out.extend_from_slice(&key_len.to_le_bytes());
        out.extend_from_slice(&self.key);
        out.extend_from_slice(self.value.as_deref().unwrap_or_default());
        let checksum = crc32fast::hash(&out[CHECKSUM..]);
        out[..CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    }

    /// `None` if the bytes are not what [`Record::encode`] made.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < FIXED {
            return None;
        }
        let mut fields = Fields(bytes);
        if fields.u32() != crc32fast::hash(&bytes[CHECKSUM..]) {
            return None;
        }
        let present = fields.take::<1>() == [1];
        let created = fields.u64();
        let previous = (fields.u64(), fields.u32());
        let deadline = fields.u64();
        let key_len = fields.u32() as usize;
        // One allocation for key and value, which outlive the page they were read from.
        let tail = Bytes::copy_from_slice(fields.0);
        if key_len > tail.len() {
            return None;
        }
        Some(Self {
            key: tail.slice(..key_len),
            value: present.then(|| tail.slice(key_len..)),
            created,
            previous: (previous.0 != 0).then_some(previous),
            deadline: (deadline != 0).then_some(deadline),
        })
    }

    /// The entry that this record is, `None` for a deletion.
    pub(super) fn entry(&self, (revision, _): Position) -> Option<Entry> {
        Some(Entry {
            key: self.key.clone(),
            value: self.value.clone()?,
            created: Revision(self.created),
            modified: Revision(revision),
        })
    }
}

/// Takes numbers off the front of bytes whose length was checked.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_first_chunk().expect("length was checked");
        self.0 = rest;
        *head
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record() -> impl Strategy<Value = Record> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
        let previous = prop::option::of((1..u64::MAX, any::<u32>()));
        let deadline = prop::option::of(1..u64::MAX);
        (bytes(), prop::option::of(bytes()), any::<u64>(), previous, deadline).prop_map(
            |(key, value, created, previous, deadline)| Record {
                key,
                value,
                created,
                previous,
                deadline,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(record in record()) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            prop_assert_eq!(Record::decode(&bytes), Some(record));
        }

        #[test]
        fn a_flipped_bit_is_noticed(record in record(), at in any::<prop::sample::Index>(), bit in 0..8) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let at = at.index(bytes.len());
            bytes[at] ^= 1u8 << bit;
            prop_assert_eq!(Record::decode(&bytes), None);
        }

        #[test]
        fn any_bytes_decode_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(record) = Record::decode(&bytes) {
                let mut again = Vec::new();
                record.encode(&mut again);
                prop_assert_eq!(again.len(), bytes.len());
            }
        }
    }
}
