//! Index rows that are in the log but not in the index yet.
//!
//! ```text
//!   a group commits      rows ─► delta, before the commit
//!   the delta is full    delta ─► index, in key order, inside the transaction of that group
//!                        a new delta takes its place, after the commit
//!   a read               the delta that goes with its snapshot, then the index
//!   a start              log after `indexed` ─► delta
//! ```
//!
//! Names of objects come in no order, so that nearly each row goes to another page of the index:
//! a page copied and written per write. Many rows sorted share those pages.
//!
//! A delta may hold more than a reader's snapshot has, since rows come before their commit, and
//! it may hold rows that the snapshot's index has too. Neither matters: a reader asks for
//! versions up to a revision, and both places say the same of a version. It never holds less; see
//! [`super::view::View::open`].

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::layout::Version;

/// Versions of keys by key and revision, like the rows of the index.
#[derive(Default)]
pub(super) struct Delta {
    rows: RwLock<BTreeMap<(Bytes, u64), Version>>,
    bytes: AtomicUsize,
}

/// What a row takes beside its key, about: its part of the tree, and the key's allocation.
const ROW: usize = 80;

/// How many rows an iterator copies at a time, so that it never keeps the writer waiting long.
const STEP: usize = 256;

impl Delta {
    pub(super) fn insert(&self, key: &[u8], version: Version) {
        // The caller's key may be a part of something large.
        let key = Bytes::copy_from_slice(key);
        self.bytes.fetch_add(key.len() + ROW, Ordering::Relaxed);
        let mut rows = self.rows.write().expect("no holder panics");
        rows.insert((key, version.position.0), version);
    }

    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn len(&self) -> usize {
        self.rows.read().expect("no holder panics").len()
    }

    /// The newest version of `key` at or before a revision.
    pub(super) fn latest(&self, key: &[u8], at: u64) -> Option<Version> {
        let key = Bytes::copy_from_slice(key);
        let rows = self.rows.read().expect("no holder panics");
        let range = (key.clone(), 0)..=(key, at);
        rows.range(range).next_back().map(|(_, version)| *version)
    }

    /// All versions from a bound on whose key starts with `prefix`, in order.
    pub(super) fn versions<'a>(
        &'a self,
        start: Bound<(&[u8], u64)>,
        prefix: &'a [u8],
    ) -> impl Iterator<Item = (Bytes, Version)> + 'a {
        let mut next = start.map(|(key, revision)| (Bytes::copy_from_slice(key), revision));
        let mut copied = VecDeque::new();
        let mut ended = false;
        std::iter::from_fn(move || {
            if copied.is_empty() && !ended {
                let rows = self.rows.read().expect("no holder panics");
                let range = rows.range((next.clone(), Bound::Unbounded));
                let matching = range.take_while(|((key, _), _)| key.starts_with(prefix));
                copied
                    .extend(matching.take(STEP).map(|((key, _), version)| (key.clone(), *version)));
                ended = copied.len() < STEP;
                if let Some((key, version)) = copied.back() {
                    next = Bound::Excluded((key.clone(), version.position.0));
                }
            }
            copied.pop_front()
        })
    }
}
