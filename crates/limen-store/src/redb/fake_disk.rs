//! A disk for tests that can lose power, fill up and fail.
//!
//! What was written but not synced is kept apart from what was: when the power goes, each unsynced
//! write may have reached the disk or not, in any combination, and torn at sector boundaries.

use std::io;
use std::sync::{Arc, Mutex};

use redb::StorageBackend;

const SECTOR: usize = 512;

/// A handle on the disk; clones are the same disk.
#[derive(Clone, Debug, Default)]
pub(super) struct FakeDisk(Arc<Mutex<Platter>>);

#[derive(Debug, Default)]
struct Platter {
    /// What is certainly on the disk.
    synced: Vec<u8>,
    /// What reads see.
    seen: Vec<u8>,
    /// Writes since the last sync.
    pending: Vec<Pending>,
    /// Writes and syncs that succeed before the disk starts to fail; `None` is for ever.
    operations_left: Option<usize>,
    available: Option<u64>,
    /// Counts power losses: a backend attached before one is dead.
    boots: usize,
}

#[derive(Debug)]
enum Pending {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

impl FakeDisk {
    pub(super) fn attach(&self) -> Attached {
        Attached { disk: self.clone(), boot: self.0.lock().unwrap().boots }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().unwrap().seen.is_empty()
    }

    pub(super) fn available(&self) -> Option<u64> {
        self.0.lock().unwrap().available
    }

    pub(super) fn set_available(&self, bytes: Option<u64>) {
        self.0.lock().unwrap().available = bytes;
    }

    /// Lets `operations` more writes and syncs through, and fails from then on.
    pub(super) fn fail_after(&self, operations: Option<usize>) {
        self.0.lock().unwrap().operations_left = operations;
    }

    /// Everything that was attached is dead; `survives` says of each unsynced sector whether it
    /// made it to the disk.
    pub(super) fn lose_power(&self, mut survives: impl FnMut() -> bool) {
        let mut platter = self.0.lock().unwrap();
        let mut after = std::mem::take(&mut platter.synced);
        for pending in std::mem::take(&mut platter.pending) {
            match pending {
                Pending::Length(length) if survives() => after.resize(length, 0),
                Pending::Length(_) => {}
                Pending::Write { offset, bytes } => {
                    for (n, sector) in bytes.chunks(SECTOR).enumerate() {
                        let at = offset + n * SECTOR;
                        if survives() && at + sector.len() <= after.len() {
                            after[at..at + sector.len()].copy_from_slice(sector);
                        }
                    }
                }
            }
        }
        platter.synced = after.clone();
        platter.seen = after;
        platter.boots += 1;
    }
}

#[derive(Debug)]
pub(super) struct Attached {
    disk: FakeDisk,
    boot: usize,
}

impl Attached {
    fn with<T>(&self, work: impl FnOnce(&mut Platter) -> io::Result<T>) -> io::Result<T> {
        let mut platter = self.disk.0.lock().unwrap();
        if platter.boots != self.boot {
            return Err(io::Error::other("the power went"));
        }
        work(&mut platter)
    }

    fn change<T>(&self, work: impl FnOnce(&mut Platter) -> T) -> io::Result<T> {
        self.with(|platter| {
            match &mut platter.operations_left {
                Some(0) => return Err(io::ErrorKind::StorageFull.into()),
                Some(left) => *left -= 1,
                None => {}
            }
            Ok(work(platter))
        })
    }
}

impl StorageBackend for Attached {
    fn len(&self) -> io::Result<u64> {
        self.with(|platter| Ok(platter.seen.len() as u64))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|platter| {
            let offset = usize::try_from(offset).unwrap();
            let bytes = platter.seen.get(offset..offset + out.len());
            out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.change(|platter| {
            let length = usize::try_from(length).unwrap();
            platter.seen.resize(length, 0);
            platter.pending.push(Pending::Length(length));
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(|platter| {
            platter.synced = platter.seen.clone();
            platter.pending.clear();
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(|platter| {
            let offset = usize::try_from(offset).unwrap();
            platter.seen[offset..offset + data.len()].copy_from_slice(data);
            platter.pending.push(Pending::Write { offset, bytes: data.to_vec() });
        })
    }
}
