//! One change of one key, as the log keeps it.
//!
//! A record starts with a checksum and says where it belongs, so that damage to the file surfaces
//! as an error and not as a wrong answer; it ends with nothing but its value.

use bytes::Bytes;

use super::layout::Position;
use crate::{Entry, Event, Revision};

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
const LENGTH: usize = 4;
const POSITION: usize = 8 + 4;
const FIXED: usize = CHECKSUM + LENGTH + POSITION + 1 + 8 + POSITION + 8 + 4;

impl Record {
    pub(super) fn encoded_len(&self) -> usize {
        FIXED + self.key.len() + self.value.as_ref().map_or(0, Bytes::len)
    }

    /// Appends the record to `out`.
    pub(super) fn encode(&self, position: Position, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; CHECKSUM]);
        let length = u32::try_from(self.encoded_len()).expect("a transaction is small");
        out.extend_from_slice(&length.to_le_bytes());
        put_position(position, out);
        out.push(u8::from(self.value.is_some()));
        out.extend_from_slice(&self.created.to_le_bytes());
        put_position(self.previous.unwrap_or_default(), out);
        out.extend_from_slice(&self.deadline.unwrap_or_default().to_le_bytes());
        let key_len = u32::try_from(self.key.len()).expect("a transaction is small");
        out.extend_from_slice(&key_len.to_le_bytes());
        out.extend_from_slice(&self.key);
        out.extend_from_slice(self.value.as_deref().unwrap_or_default());
        let checksum = crc32fast::hash(&out[start + CHECKSUM..]);
        out[start..start + CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    }

    /// `None` if the bytes are not what [`Record::encode`] made.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Position, Self)> {
        if bytes.len() < FIXED {
            return None;
        }
        let mut fields = Fields(bytes);
        if fields.u32() != crc32fast::hash(&bytes[CHECKSUM..])
            || fields.u32() as usize != bytes.len()
        {
            return None;
        }
        let position = fields.position();
        let present = fields.take::<1>() == [1];
        let created = fields.u64();
        let previous = fields.position();
        let deadline = fields.u64();
        let key_len = fields.u32() as usize;
        // One allocation for key and value, which outlive the page they were read from.
        let tail = Bytes::copy_from_slice(fields.0);
        if key_len > tail.len() {
            return None;
        }
        let record = Self {
            key: tail.slice(..key_len),
            value: present.then(|| tail.slice(key_len..)),
            created,
            previous: (previous.0 != 0).then_some(previous),
            deadline: (deadline != 0).then_some(deadline),
        };
        Some((position, record))
    }

    /// Where the record at the front of `bytes` belongs and how long it is, without a look at its
    /// checksum. `None` if there cannot be one.
    pub(super) fn peek(bytes: &[u8]) -> Option<(Position, usize)> {
        if bytes.len() < FIXED {
            return None;
        }
        let mut fields = Fields(&bytes[CHECKSUM..]);
        let length = fields.u32() as usize;
        (FIXED..=bytes.len()).contains(&length).then(|| (fields.position(), length))
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

    pub(super) fn event(&self, position: Position, previous: Option<Entry>) -> Event {
        Event {
            key: self.key.clone(),
            revision: Revision(position.0),
            current: self.entry(position),
            previous,
        }
    }
}

fn put_position((revision, n): Position, out: &mut Vec<u8>) {
    out.extend_from_slice(&revision.to_le_bytes());
    out.extend_from_slice(&n.to_le_bytes());
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

    fn position(&mut self) -> Position {
        (self.u64(), self.u32())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record() -> impl Strategy<Value = (Position, Record)> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
        let previous = prop::option::of((1..u64::MAX, any::<u32>()));
        let deadline = prop::option::of(1..u64::MAX);
        let record = (bytes(), prop::option::of(bytes()), any::<u64>(), previous, deadline)
            .prop_map(|(key, value, created, previous, deadline)| Record {
                key,
                value,
                created,
                previous,
                deadline,
            });
        (any::<Position>(), record)
    }

    fn encoded((position, record): &(Position, Record)) -> Vec<u8> {
        let mut bytes = Vec::new();
        record.encode(*position, &mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(record in record()) {
            let bytes = encoded(&record);
            prop_assert_eq!(bytes.len(), record.1.encoded_len());
            prop_assert_eq!(Record::peek(&bytes), Some((record.0, bytes.len())));
            prop_assert_eq!(Record::decode(&bytes), Some(record));
        }

        #[test]
        fn a_flipped_bit_is_noticed(record in record(), at in any::<prop::sample::Index>(), bit in 0..8) {
            let mut bytes = encoded(&record);
            let at = at.index(bytes.len());
            bytes[at] ^= 1u8 << bit;
            prop_assert_eq!(Record::decode(&bytes), None);
        }

        #[test]
        fn any_bytes_decode_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Record::peek(&bytes);
            if let Some(record) = Record::decode(&bytes) {
                prop_assert_eq!(encoded(&record).len(), bytes.len());
            }
        }
    }
}
