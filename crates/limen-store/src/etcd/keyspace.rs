//! Where in etcd's keys the store is: everything under one prefix.

use bytes::Bytes;

use super::wire::KeyValue;
use crate::{Entry, Revision};

pub(super) struct Keyspace {
    prefix: Bytes,
}

/// The keys from `start` up to but without `end`, in the way that etcd wants them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: Bytes,
    pub(super) end: Bytes,
}

/// etcd's smallest key, and its sign for "no end".
const ZERO: Bytes = Bytes::from_static(&[0]);

impl Keyspace {
    pub(super) fn new(prefix: Bytes) -> Self {
        Self { prefix }
    }

    /// A key as etcd knows it. It is never empty, as etcd refuses that.
    pub(super) fn place(&self, key: &[u8]) -> Bytes {
        let whole = [&self.prefix, key].concat();
        if whole.is_empty() { ZERO } else { whole.into() }
    }

    /// All keys that start with `prefix`.
    pub(super) fn span(&self, prefix: &[u8]) -> Span {
        let mut end = [&self.prefix, prefix].concat();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let end = match end.last_mut() {
            Some(last) => {
                *last += 1;
                end.into()
            }
            None => ZERO,
        };
        Span { start: self.place(prefix), end }
    }

    /// The first key after `key`.
    pub(super) fn after(&self, key: &[u8]) -> Bytes {
        [&self.prefix, key, &[0]].concat().into()
    }

    /// A key as callers of the store know it.
    pub(super) fn strip(&self, key: Vec<u8>) -> Bytes {
        Bytes::from(key).split_off(self.prefix.len())
    }

    pub(super) fn entry(&self, kv: KeyValue) -> Entry {
        Entry {
            key: self.strip(kv.key),
            value: kv.value.into(),
            created: revision(kv.create_revision),
            modified: revision(kv.mod_revision),
        }
    }
}

/// etcd's revisions are signed, and never negative.
pub(super) fn revision(number: i64) -> Revision {
    Revision(number.unsigned_abs())
}

/// A revision beyond what etcd can count is in the future, as is the largest that it can.
pub(super) fn number(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_all_keys_with_a_prefix_and_no_others() {
        let cases: [[&[u8]; 4]; 7] = [
            [b"", b"", b"\0", b"\0"],
            [b"", b"a", b"a", b"b"],
            [b"/l/", b"", b"/l/", b"/l0"],
            [b"/l/", b"a", b"/l/a", b"/l/b"],
            [b"/l/", b"a\xff", b"/l/a\xff", b"/l/b"],
            [b"", b"\xff\xff", b"\xff\xff", b"\0"],
            [b"a", b"\xff", b"a\xff", b"b"],
        ];
        for [prefix, under, start, end] in cases {
            let span = Keyspace::new(Bytes::from_static(prefix)).span(under);
            assert_eq!(span, Span { start: start.into(), end: end.into() }, "{prefix:?} {under:?}");
        }
    }

    #[test]
    fn the_prefix_does_not_show() {
        let keys = Keyspace::new(Bytes::from_static(b"/l/"));
        let kv = KeyValue {
            key: keys.place(b"k").to_vec(),
            create_revision: 2,
            mod_revision: 3,
            value: b"v".to_vec(),
        };
        let entry = Entry {
            key: "k".into(),
            value: "v".into(),
            created: Revision(2),
            modified: Revision(3),
        };
        assert_eq!(keys.entry(kv), entry);
    }
}
