//! Whether a file is another than it was.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Something that is another whenever a file is: by its content, its name, its owner or its mode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp {
    inode: u64,
    size: u64,
    mode: u32,
    modified: (i64, i64),
    /// The time that no tool can set, and that a new mode changes too.
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of what is at a path now. Nothing if nothing is. It is taken before a file is read,
    /// so that what changes meanwhile is seen the next time.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self {
            inode: found.ino(),
            size: found.size(),
            mode: found.mode(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}
