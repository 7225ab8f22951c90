//! What can go wrong, named after what the caller can do about it.

use std::path::PathBuf;

use crate::{Entry, Revision};

/// The result of a store operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store operation failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A key was not as the transaction expected it. Nothing was written.
    #[error("key {} {}", String::from_utf8_lossy(key), match current {
        Some(entry) => format!("was modified at revision {}", entry.modified),
        None => "does not exist".to_owned(),
    })]
    Conflict {
        /// The first key whose expectation failed.
        key: bytes::Bytes,
        /// What is there instead.
        current: Option<Entry>,
    },

    /// The revision asked for was compacted away. Read the range anew.
    #[error("revision {requested} was compacted: the oldest one kept is {oldest}")]
    Compacted {
        /// The revision asked for.
        requested: Revision,
        /// The oldest revision that can be read, and that a watch can follow.
        oldest: Revision,
    },

    /// The revision asked for has not come about yet.
    #[error("revision {requested} is in the future: the newest one is {newest}")]
    FutureRevision {
        /// The revision asked for.
        requested: Revision,
        /// The newest revision.
        newest: Revision,
    },

    /// The transaction is larger than both backends take. Nothing was written.
    #[error("the transaction has {size} bytes of keys and values, and the limit is {limit}")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },

    /// The transaction makes no sense. Nothing was written.
    #[error("invalid transaction: {0}")]
    InvalidTxn(String),

    /// The disk has no room for the write. Nothing was written, and reads go on; writes go on by
    /// themselves once there is room.
    #[error("no room to write to {}: {available} bytes are free and about {needed} are needed; free some space on that disk", path.display())]
    DiskFull {
        /// The file that could not grow.
        path: PathBuf,
        /// Free bytes on its disk.
        available: u64,
        /// Free bytes that the write asked for.
        needed: u64,
    },

    /// The file has contents that this store did not write.
    #[error("{} is damaged: {detail}; restore it from a backup, or move it away to start with an empty store", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },

    /// Another process, or another handle in this one, has the file open.
    #[error("{} is in use by another process; stop that one first, or choose another folder", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },

    /// The file could not be opened or created.
    #[error("cannot open {}: {reason}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },

    /// The store could not be reached. Nothing was written; the call may be made again.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),

    /// The connection or the disk failed in the middle of a write, which may or may not have
    /// happened. Read before trying again.
    #[error("it is unknown whether the write took place: {0}")]
    Unknown(String),
}
