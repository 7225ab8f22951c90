//! The words of the store: revisions, entries, transactions, events.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;

use crate::{Error, Result};

/// The largest sum of keys and values in one transaction: the limit that etcd sets by default.
pub const MAX_TXN_BYTES: usize = 1_572_864;

/// A point in the history of the store. The empty store is at 1; each transaction that changes
/// something adds 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision of a store that was never written to.
    pub const FIRST: Self = Self(1);

    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key with its value, and when it came to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// The revision at which the key was last created.
    pub created: Revision,
    /// The revision at which the value was written.
    pub modified: Revision,
}

/// What a key must be like for a transaction to go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Anything, or nothing.
    Any,
    /// There is no such key.
    Absent,
    /// The key is there and was last modified at this revision.
    Modified(Revision),
}

/// What a [`Write`] does to its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOp {
    /// Sets the value. With a time to live, the store deletes the key once it has passed, unless
    /// the key is written again before. Times are rounded up to whole seconds by etcd.
    Put {
        /// The new value.
        value: Bytes,
        /// How long the key lives from now on; `None` is for ever.
        ttl: Option<Duration>,
    },
    /// Removes the key if it is there.
    Delete,
    /// Changes nothing: the write is there for its expectation.
    Check,
}

/// One key's part in a [`Txn`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: Bytes,
    /// What must hold of the key before.
    pub expect: Expect,
    /// What to do to it.
    pub op: WriteOp,
}

/// Writes that happen together or not at all. A key may occur once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// The writes; their order is the order of their events.
    pub writes: Vec<Write>,
}

impl Txn {
    /// A transaction with one write.
    pub fn one(key: impl Into<Bytes>, expect: Expect, op: WriteOp) -> Self {
        Self::default().and(key, expect, op)
    }

    /// Sets a key that must not be there yet.
    pub fn create(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self::one(key, Expect::Absent, WriteOp::Put { value: value.into(), ttl: None })
    }

    /// Sets a key that must be as it was at `modified`.
    pub fn update(key: impl Into<Bytes>, value: impl Into<Bytes>, modified: Revision) -> Self {
        Self::one(key, Expect::Modified(modified), WriteOp::Put { value: value.into(), ttl: None })
    }

    /// Sets a key whatever it was.
    pub fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self::one(key, Expect::Any, WriteOp::Put { value: value.into(), ttl: None })
    }

    /// Removes a key under a condition.
    pub fn delete(key: impl Into<Bytes>, expect: Expect) -> Self {
        Self::one(key, expect, WriteOp::Delete)
    }

    /// Adds a write.
    #[must_use]
    pub fn and(mut self, key: impl Into<Bytes>, expect: Expect, op: WriteOp) -> Self {
        self.writes.push(Write { key: key.into(), expect, op });
        self
    }

    /// The sum of keys and values.
    pub(crate) fn bytes(&self) -> usize {
        let value = |write: &Write| match &write.op {
            WriteOp::Put { value, .. } => value.len(),
            WriteOp::Delete | WriteOp::Check => 0,
        };
        self.writes.iter().map(|write| write.key.len() + value(write)).sum()
    }

    /// Refuses what neither backend could carry out, with the same words on both.
    pub(crate) fn validate(&self) -> Result<()> {
        let size = self.bytes();
        if size > MAX_TXN_BYTES {
            return Err(Error::TooLarge { size, limit: MAX_TXN_BYTES });
        }
        let mut keys: Vec<&[u8]> = self.writes.iter().map(|write| &*write.key).collect();
        keys.sort_unstable();
        if keys.first().is_some_and(|key| key.is_empty()) {
            return Err(Error::InvalidTxn("a key is empty".to_owned()));
        }
        if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::InvalidTxn(format!(
                "key {} occurs twice",
                String::from_utf8_lossy(pair[0])
            )));
        }
        Ok(())
    }
}

/// Which entries to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Entries whose key starts with this; empty is all.
    pub prefix: Bytes,
    /// Only keys after this one: the last key of the page before.
    pub after: Option<Bytes>,
    /// At most this many entries.
    pub limit: Option<usize>,
    /// As of this revision; the newest if `None`. Pages of one listing pass the first page's.
    pub at: Option<Revision>,
}

impl Range {
    /// Everything under a prefix, now.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }
}

/// What a [`Range`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The revision that the entries are the state of.
    pub revision: Revision,
    /// The entries, in key order.
    pub entries: Vec<Entry>,
    /// Whether entries follow that did not fit the limit.
    pub more: bool,
}

/// Where a watch begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchFrom {
    /// Changes of keys that start with this; empty is all.
    pub prefix: Bytes,
    /// Changes later than this revision: that of the range read before.
    pub after: Revision,
    /// How often to say how far the watch has come when nothing under the prefix changes.
    pub progress: Option<Duration>,
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The key.
    pub key: Bytes,
    /// When it changed.
    pub revision: Revision,
    /// What it is since then; `None` if it was deleted.
    pub current: Option<Entry>,
    /// What it was before; `None` if it was created.
    pub previous: Option<Entry>,
}

/// Some events of a watch, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchBatch {
    /// Events in order. The events of one revision are never split over two batches. Empty in a
    /// progress mark.
    pub events: Vec<Arc<Event>>,
    /// Every change under the prefix up to this revision has now been delivered: a watch that is
    /// started anew after it misses nothing and repeats nothing.
    pub revision: Revision,
}

/// A running watch; dropping it ends it.
pub type Watch = BoxStream<'static, Result<WatchBatch>>;
