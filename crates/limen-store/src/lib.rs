//! A revisioned, ordered key-value store with watch and compare-and-swap.
//!
//! This is what a Kubernetes API needs from etcd, and no more than that:
//!
//! ```text
//!            commit(txn) ──► one revision for all its writes, or a conflict and nothing
//!   caller   get, range  ──► the state at the newest revision, or at an older one
//!            watch       ──► every later change under a prefix, in order, none skipped
//!            compact     ──► forget versions older than a revision
//! ```
//!
//! Revisions count up over all keys together, from 1 for the empty store. A write that was
//! acknowledged is on disk. A change is seen by reads and watches only once it is on disk.
//!
//! There are two backends with the same semantics, held to them by one conformance suite:
//! [`RedbStore`] keeps everything in one file of this process; [`EtcdStore`] talks to etcd 3.5 or
//! later, so that several hubs can share a state.

mod error;
mod etcd;
mod model;
mod redb;

pub use error::{Error, Result};
pub use etcd::{EtcdOptions, EtcdStore, EtcdTls};
pub use model::{
    Entry, Event, Expect, MAX_TXN_BYTES, Page, Range, Revision, Txn, Watch, WatchBatch, WatchFrom,
    Write, WriteOp,
};
pub use redb::{RedbOptions, RedbStore};

use async_trait::async_trait;

/// The operations that both backends offer.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The newest revision. Every write acknowledged before the call is at or below it.
    async fn revision(&self) -> Result<Revision>;

    /// The entry under `key`, as of the newest revision or of an older one.
    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Option<Entry>>;

    /// One page of the entries under a prefix, in key order.
    async fn range(&self, range: Range) -> Result<Page>;

    /// Carries out all writes of `txn` at one new revision, or none of them.
    ///
    /// Returns the revision at which the writes are visible. A transaction that changes nothing
    /// (checks only, or deletions of keys that are not there) returns the newest revision.
    async fn commit(&self, txn: Txn) -> Result<Revision>;

    /// Every change under a prefix after a revision, in order.
    ///
    /// The stream ends with an error and never just stops; after [`Error::Compacted`] the caller
    /// has to read the range anew.
    async fn watch(&self, from: WatchFrom) -> Result<Watch>;

    /// Forgets versions that were superseded at or before `revision`.
    ///
    /// Afterwards reads below it and watches from below it fail with [`Error::Compacted`].
    async fn compact(&self, revision: Revision) -> Result<()>;
}
