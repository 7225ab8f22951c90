//! How the file is laid out.
//!
//! ```text
//!   log     (revision, n)    ──► records from the n-th change of that revision on, with values
//!   index   (key, revision)  ──► n, and whether the key is there
//!   expiry  (deadline, revision, n) ──► ()
//!   meta    name             ──► number
//! ```
//!
//! A value is written once, at the end of the log, whatever its key: the log is both the history
//! that watches replay and the place that reads take values from. The index says which records
//! belong to a key. It follows the log at a distance: it has every record up to `indexed`, and
//! those after it are in memory (see [`super::delta`]), from where they are folded into the index
//! many at a time. They can always be read from the log again.

use redb::TableDefinition;

/// Where a record is: a revision, and which of that revision's changes.
pub(super) type Position = (u64, u32);

pub(super) const LOG: TableDefinition<'_, Position, &[u8]> = TableDefinition::new("log");
pub(super) const INDEX: TableDefinition<'_, (&[u8], u64), u32> = TableDefinition::new("index");
pub(super) const EXPIRY: TableDefinition<'_, (u64, u64, u32), ()> = TableDefinition::new("expiry");
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// The version of this layout. A file with another one is refused.
pub(super) const FORMAT: u64 = 2;

pub(super) const META_FORMAT: &str = "format";
/// The newest revision.
pub(super) const META_REVISION: &str = "revision";
/// The revision up to which the index has every record.
pub(super) const META_INDEXED: &str = "indexed";
/// The revision up to which superseded versions may be forgotten.
pub(super) const META_COMPACTED: &str = "compacted";
/// The revision up to which they have been removed from the file.
pub(super) const META_CLEANED: &str = "cleaned";

/// What the index says of one version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) position: Position,
    /// Whether the key is there since then; `false` for a deletion.
    pub(super) present: bool,
}

impl Version {
    /// The value of its index row.
    pub(super) fn pack(self) -> u32 {
        self.position.1 << 1 | u32::from(self.present)
    }

    pub(super) fn unpack(revision: u64, value: u32) -> Self {
        Self { position: (revision, value >> 1), present: value & 1 == 1 }
    }
}
