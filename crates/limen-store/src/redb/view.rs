//! Reading: one consistent state of the file.

use std::ops::Bound;
use std::sync::Arc;

use redb::{ReadOnlyTable, ReadableDatabase};

use super::delta::Delta;
use super::disk::{Fault, Outcome};
use super::file::StoreFile;
use super::layout::{INDEX, LOG, META, META_COMPACTED, META_REVISION, Position};
use super::window::Slice;
use super::{log, versions};
use crate::{Entry, Error, Page, Range, Revision};

/// A snapshot of everything, as of the newest commit when it was opened.
pub(super) struct View {
    index: ReadOnlyTable<(&'static [u8], u64), u32>,
    log: ReadOnlyTable<Position, &'static [u8]>,
    delta: Arc<Delta>,
    revision: Revision,
    oldest: Revision,
}

/// How many records of other prefixes a watch reads for each one it wants, before it pauses.
const SCAN_FACTOR: usize = 16;

impl View {
    pub(super) fn open(file: &StoreFile) -> Outcome<Self> {
        // A delta that is in use both before and after the snapshot is taken has all that the
        // snapshot's index lacks: its predecessor was folded into the index before it came into
        // use, and every later row was put into it before the commit.
        let (delta, txn) = loop {
            let delta = file.delta();
            let txn = file.database.begin_read()?;
            if Arc::ptr_eq(&delta, &file.delta()) {
                break (delta, txn);
            }
        };
        let meta = txn.open_table(META)?;
        let number = |name| -> Outcome<u64> {
            Ok(meta.get(name)?.ok_or_else(|| Fault::lacks(name))?.value())
        };
        Ok(Self {
            revision: Revision(number(META_REVISION)?),
            oldest: Revision(number(META_COMPACTED)?),
            index: txn.open_table(INDEX)?,
            log: txn.open_table(LOG)?,
            delta,
        })
    }

    /// The revision to read at, if it can be read.
    pub(super) fn resolve(&self, at: Option<Revision>) -> Result<Revision, Error> {
        let requested = at.unwrap_or(self.revision);
        if requested > self.revision {
            return Err(Error::FutureRevision { requested, newest: self.revision });
        }
        self.check_kept(requested)?;
        Ok(requested)
    }

    pub(super) fn check_kept(&self, requested: Revision) -> Result<(), Error> {
        if requested < self.oldest {
            return Err(Error::Compacted { requested, oldest: self.oldest });
        }
        Ok(())
    }

    pub(super) fn get(&self, key: &[u8], at: Revision) -> Outcome<Option<Entry>> {
        match versions::latest(&self.index, &self.delta, key, at.0)? {
            Some(version) if version.present => self.entry(version.position),
            _ => Ok(None),
        }
    }

    fn entry(&self, position: Position) -> Outcome<Option<Entry>> {
        Ok(log::record(&self.log, position)?.entry(position))
    }

    pub(super) fn range(&self, range: &Range, at: Revision) -> Outcome<Page> {
        let mut page = Page { revision: at, entries: Vec::new(), more: false };
        let start = match &range.after {
            Some(key) if **key >= *range.prefix => Bound::Excluded((&**key, u64::MAX)),
            _ => Bound::Included((&*range.prefix, 0)),
        };
        let limit = range.limit.unwrap_or(usize::MAX);

        // Versions of a key are neighbours, oldest first: the last one at or before the revision
        // counts, and is known when the next key begins.
        let mut key = Vec::new();
        let mut found: Option<Position> = None;
        versions::scan(&self.index, &self.delta, start, &range.prefix, |next_key, version| {
            if next_key != key {
                if !self.add(found.take(), limit, &mut page)? {
                    return Ok(false);
                }
                key.clear();
                key.extend_from_slice(next_key);
            }
            if version.position.0 <= at.0 {
                found = version.present.then_some(version.position);
            }
            Ok(true)
        })?;
        self.add(found, limit, &mut page)?;
        Ok(page)
    }

    /// Adds a found entry to the page; `false` if it was full.
    fn add(&self, found: Option<Position>, limit: usize, page: &mut Page) -> Outcome<bool> {
        let Some(position) = found else { return Ok(true) };
        if page.entries.len() >= limit {
            page.more = true;
            return Ok(false);
        }
        page.entries.extend(self.entry(position)?);
        Ok(true)
    }

    /// About `limit` events under `prefix` after a revision, never part of a revision.
    pub(super) fn events(&self, prefix: &[u8], after: Revision, limit: usize) -> Outcome<Slice> {
        let mut slice = Slice { events: Vec::new(), upto: after };
        for (scanned, row) in log::records(&self.log, (after.0 + 1, 0))?.enumerate() {
            let (position, record) = row?;
            let revision = Revision(position.0);
            if revision > slice.upto {
                let full = slice.events.len() >= limit || scanned >= limit * SCAN_FACTOR;
                if full && scanned > 0 {
                    return Ok(slice);
                }
                slice.upto = revision;
            }
            if record.key.starts_with(prefix) {
                let previous = match record.previous {
                    Some(position) => self.entry(position)?,
                    None => None,
                };
                slice.events.push(Arc::new(record.event(position, previous)));
            }
        }
        slice.upto = self.revision.max(after);
        Ok(slice)
    }
}
