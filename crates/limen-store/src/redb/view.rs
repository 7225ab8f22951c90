//! Reading: one consistent state of the file.

use std::ops::Bound;
use std::sync::Arc;

use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable};

use super::disk::{Fault, Outcome};
use super::layout::{
    INDEX, LOG, META, META_COMPACTED, META_REVISION, Position, Record, index_value,
};
use super::window::Slice;
use crate::{Entry, Error, Event, Page, Range, Revision};

/// A snapshot of everything, as of the newest commit when it was opened.
pub(super) struct View {
    index: ReadOnlyTable<(&'static [u8], u64), u32>,
    log: ReadOnlyTable<Position, &'static [u8]>,
    revision: Revision,
    oldest: Revision,
}

/// How many records of other prefixes a watch reads for each one it wants, before it pauses.
const SCAN_FACTOR: usize = 16;

impl View {
    pub(super) fn open(database: &Database) -> Outcome<Self> {
        let txn = database.begin_read()?;
        let meta = txn.open_table(META)?;
        let number = |name| -> Outcome<u64> {
            let value = meta.get(name)?;
            Ok(value.ok_or_else(|| Fault::Unreadable(format!("it has no {name}")))?.value())
        };
        Ok(Self {
            revision: Revision(number(META_REVISION)?),
            oldest: Revision(number(META_COMPACTED)?),
            index: txn.open_table(INDEX)?,
            log: txn.open_table(LOG)?,
        })
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
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
        match latest(&self.index, key, at)? {
            Some((position, true)) => Ok(record(&self.log, position)?.entry(position)),
            _ => Ok(None),
        }
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
        for row in self.index.range((start, Bound::Unbounded))? {
            let (row_key, value) = row?;
            let (next_key, revision) = row_key.value();
            if !next_key.starts_with(&range.prefix) {
                break;
            }
            if next_key != key {
                if !self.add(found.take(), limit, &mut page)? {
                    return Ok(page);
                }
                key.clear();
                key.extend_from_slice(next_key);
            }
            if revision <= at.0 {
                let (n, present) = index_value::unpack(value.value());
                found = present.then_some((revision, n));
            }
        }
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
        page.entries.extend(record(&self.log, position)?.entry(position));
        Ok(true)
    }

    /// About `limit` events under `prefix` after a revision, never part of a revision.
    pub(super) fn events(&self, prefix: &[u8], after: Revision, limit: usize) -> Outcome<Slice> {
        let mut slice = Slice { events: Vec::new(), upto: after };
        for (scanned, row) in self.log.range((after.0 + 1, 0)..)?.enumerate() {
            let (position, bytes) = row?;
            let position = position.value();
            let revision = Revision(position.0);
            if revision > slice.upto {
                let full = slice.events.len() >= limit || scanned >= limit * SCAN_FACTOR;
                if full && scanned > 0 {
                    return Ok(slice);
                }
                slice.upto = revision;
            }
            let record = decode(bytes.value(), position)?;
            if record.key.starts_with(prefix) {
                let previous = match record.previous {
                    Some(position) => super::view::record(&self.log, position)?.entry(position),
                    None => None,
                };
                slice.events.push(Arc::new(event(&record, position, previous)));
            }
        }
        slice.upto = self.revision.max(after);
        Ok(slice)
    }
}

/// Where the version of `key` at a revision is, and whether the key is there then.
pub(super) fn latest(
    index: &impl ReadableTable<(&'static [u8], u64), u32>,
    key: &[u8],
    at: Revision,
) -> Outcome<Option<(Position, bool)>> {
    let Some(row) = index.range((key, 0)..=(key, at.0))?.next_back() else { return Ok(None) };
    let (row_key, value) = row?;
    let (n, present) = index_value::unpack(value.value());
    Ok(Some(((row_key.value().1, n), present)))
}

pub(super) fn record(
    log: &impl ReadableTable<Position, &'static [u8]>,
    position: Position,
) -> Outcome<Record> {
    let bytes = log.get(position)?.ok_or(Fault::BadRecord(position))?;
    decode(bytes.value(), position)
}

fn decode(bytes: &[u8], position: Position) -> Outcome<Record> {
    Record::decode(bytes).ok_or(Fault::BadRecord(position))
}

pub(super) fn event(record: &Record, position: Position, previous: Option<Entry>) -> Event {
    Event {
        key: record.key.clone(),
        revision: Revision(position.0),
        current: record.entry(position),
        previous,
    }
}
