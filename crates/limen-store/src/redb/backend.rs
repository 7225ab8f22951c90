//! The file as redb sees it, with room made ahead of its writes.
//!
//! redb lengthens the file in large steps, which leaves a hole. A write into a hole makes the file
//! system find blocks and write down where they are, and a sync then waits for its journal too:
//! twice as long as a sync of a block that is there already. So the hole is filled with zeros a
//! stretch at a time, just before the writes reach it. A hole reads as zeros: to redb the file is
//! the same.

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};
use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// How much room is made at a time.
pub(super) const STRETCH: u64 = 4 << 20;

/// Between two syncs that have more than this to write, no room is made ahead: they wait for the
/// disk rather than for the journal, and would only write everything twice.
const BULK: u64 = 256 << 10;

#[derive(Debug)]
pub(super) struct Backend {
    file: FileBackend,
    growth: Mutex<Growth>,
}

#[derive(Debug)]
struct Growth {
    /// Nothing was ever written from here to the end of the file.
    untouched: u64,
    /// How much was written since the last sync.
    unsynced: u64,
    /// Whether the last sync had much to write.
    bulk: bool,
}

impl Backend {
    pub(super) fn new(file: File) -> Result<Self, redb::DatabaseError> {
        let growth = Growth { untouched: end_of_data(&file)?, unsynced: 0, bulk: false };
        Ok(Self { file: FileBackend::new(file)?, growth: Mutex::new(growth) })
    }

    fn growth(&self) -> MutexGuard<'_, Growth> {
        self.growth.lock().expect("no holder panics")
    }

    /// Makes room for a write, and for some that follow.
    fn prepare(&self, offset: u64, length: usize) -> io::Result<()> {
        let mut growth = self.growth();
        let end = offset + length as u64;
        growth.unsynced += length as u64;
        if end > growth.untouched {
            if !growth.bulk {
                let upto = end.next_multiple_of(STRETCH).min(self.file.len()?);
                // This only saves time: if there is no room, the write itself will tell.
                let _ = self.fill(growth.untouched, upto);
                growth.untouched = upto;
            }
            growth.untouched = growth.untouched.max(end);
        }
        Ok(())
    }

    fn fill(&self, mut from: u64, upto: u64) -> io::Result<()> {
        let zeros = [0; 64 << 10];
        while from < upto {
            let length = zeros.len().min(usize::try_from(upto - from).unwrap_or(usize::MAX));
            self.file.write(from, &zeros[..length])?;
            from += length as u64;
        }
        Ok(())
    }
}

/// Where the last stretch of data ends: after it there are only holes, up to the end of the file.
/// If the file system does not tell, the end of the file.
fn end_of_data(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let mut end = 0;
    while end < length {
        let data = match rustix::fs::seek(file, SeekFrom::Data(end)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(end),
            Err(_) => return Ok(length),
        };
        end = match rustix::fs::seek(file, SeekFrom::Hole(data)) {
            Ok(hole) if hole > end => hole,
            _ => return Ok(length),
        };
    }
    Ok(length)
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut growth = self.growth();
        growth.untouched = growth.untouched.min(length);
        self.file.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        {
            let mut growth = self.growth();
            growth.bulk = growth.unsynced > BULK;
            growth.unsynced = 0;
        }
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.prepare(offset, data.len())?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, MetadataExt};

    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn room_is_made_where_nothing_was_written_only() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; PAGE], 0).unwrap();
        // After a hole, as a copy of a file may have.
        file.write_all_at(&[2; PAGE], STRETCH / 2).unwrap();
        file.set_len(8 * STRETCH).unwrap();
        let backend = Backend::new(file.try_clone().unwrap()).unwrap();
        let allocated = |file: &File| file.metadata().unwrap().blocks() * 512;

        let before = allocated(&file);
        backend.write(STRETCH, &[3; PAGE]).unwrap();
        backend.sync_data().unwrap();
        assert!(allocated(&file) >= before + STRETCH, "no room was made");

        let mut expected = vec![0; usize::try_from(8 * STRETCH).unwrap()];
        for (offset, byte) in [(0, 1), (STRETCH / 2, 2), (STRETCH, 3)] {
            let offset = usize::try_from(offset).unwrap();
            expected[offset..offset + PAGE].fill(byte);
        }
        let mut found = vec![9; expected.len()];
        backend.read(0, &mut found).unwrap();
        assert!(found == expected, "the file reads as if nothing had been done");
    }

    #[test]
    fn a_file_that_was_cut_and_grown_again_keeps_what_is_written() {
        let backend = Backend::new(tempfile::tempfile().unwrap()).unwrap();
        for (length, offset) in [(4, 3), (2, 1), (6, 5), (6, 2)] {
            backend.set_len(length * STRETCH).unwrap();
            backend.write(offset * STRETCH, &[7; PAGE]).unwrap();
        }
        let mut found = [0; PAGE];
        for offset in [1, 2, 5] {
            backend.read(offset * STRETCH, &mut found).unwrap();
            assert_eq!(found, [7; PAGE], "at {offset}");
        }
    }

    #[test]
    fn much_at_once_is_written_once() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(16 * STRETCH).unwrap();
        let backend = Backend::new(file.try_clone().unwrap()).unwrap();
        let much = vec![5; usize::try_from(2 * BULK).unwrap()];
        backend.write(0, &much).unwrap();
        backend.sync_data().unwrap();
        backend.write(8 * STRETCH, &much).unwrap();
        backend.sync_data().unwrap();
        let allocated = file.metadata().unwrap().blocks() * 512;
        assert!(allocated < 2 * STRETCH, "{allocated} bytes are allocated");
    }
}
