//! The log: records in the order of their revisions, several to a row.
//!
//! ```text
//!   row key (7, 0)    (7, 0) (7, 1) (8, 0) (9, 0)
//!   row key (10, 0)   (10, 0)
//!   row key (11, 0)   (11, 0) (12, 0) ...
//! ```
//!
//! What one group of commits writes is packed into rows that fill redb's pages well: a row of its
//! own for each record would leave half a page empty behind a value of 2 KB, and cost a page write
//! for each. A row's key is at or before its first record and after the last one of the row
//! before; removing records leaves it as it is.

use redb::{ReadableTable, Table};

use super::disk::{Fault, Outcome};
use super::layout::Position;
use super::record::Record;

/// About how many bytes of records share a row, if a group has that many. Together with redb's
/// own header a row fills a page of 16 KB; larger ones would make reads of one record dearer.
const ROW: usize = (16 << 10) - 64;

/// Appends records, which come after all that are there.
pub(super) fn append(
    log: &mut Table<'_, Position, &'static [u8]>,
    records: &[(Position, Record)],
) -> Outcome<()> {
    let mut row = Vec::with_capacity(ROW);
    let mut first = None;
    for (position, record) in records {
        if let Some(key) = first
            && row.len() + record.encoded_len() > ROW
        {
            log.insert(key, row.as_slice())?;
            row.clear();
            first = None;
        }
        first.get_or_insert(*position);
        record.encode(*position, &mut row);
    }
    if let Some(key) = first {
        log.insert(key, row.as_slice())?;
    }
    Ok(())
}

/// The record at a position that something else in the file points to.
pub(super) fn record(
    log: &impl ReadableTable<Position, &'static [u8]>,
    position: Position,
) -> Outcome<Record> {
    let row = log.range(..=position)?.next_back().ok_or(Fault::BadRecord(position))??;
    for item in items(row.1.value()) {
        let (found, bytes) = item.ok_or(Fault::BadRecord(position))?;
        if found == position {
            return decode(found, bytes);
        }
    }
    Err(Fault::BadRecord(position))
}

/// All records from a position on, in order.
pub(super) fn records(
    log: &impl ReadableTable<Position, &'static [u8]>,
    from: Position,
) -> Outcome<impl Iterator<Item = Outcome<(Position, Record)>>> {
    let start = log.range(..=from)?.next_back().transpose()?.map_or(from, |(key, _)| key.value());
    let rows = log.range(start..)?.map(move |row| {
        let (key, bytes) = row?;
        let mut records = Vec::new();
        for item in items(bytes.value()) {
            let (position, bytes) = item.ok_or(Fault::BadRecord(key.value()))?;
            if position >= from {
                records.push(Ok((position, decode(position, bytes)?)));
            }
        }
        Ok(records)
    });
    Ok(rows.flat_map(|row| row.unwrap_or_else(|fault| vec![Err(fault)])))
}

/// Removes records; those that are not there are passed over.
pub(super) fn remove(
    log: &mut Table<'_, Position, &'static [u8]>,
    mut positions: Vec<Position>,
) -> Outcome<()> {
    positions.sort_unstable();
    let mut doomed = positions.into_iter().peekable();
    while let Some(&position) = doomed.peek() {
        let (key, kept) = {
            let Some(row) = log.range(..=position)?.next_back() else {
                doomed.next();
                continue;
            };
            let row = row?;
            let mut kept = Vec::new();
            for item in items(row.1.value()) {
                let (found, bytes) = item.ok_or(Fault::BadRecord(position))?;
                if doomed.next_if_eq(&found).is_none() {
                    kept.extend_from_slice(bytes);
                }
            }
            (row.0.value(), kept)
        };
        if doomed.next_if_eq(&position).is_some() {
            continue;
        }
        if kept.is_empty() {
            log.remove(key)?;
        } else {
            log.insert(key, kept.as_slice())?;
        }
    }
    Ok(())
}

/// The records of a row, each with its position but not yet checked. Ends with `None` where the
/// row makes no sense.
fn items(row: &[u8]) -> impl Iterator<Item = Option<(Position, &[u8])>> {
    let mut rest = Some(row);
    std::iter::from_fn(move || {
        let bytes = rest.filter(|bytes| !bytes.is_empty())?;
        let Some((position, length)) = Record::peek(bytes) else {
            rest = None;
            return Some(None);
        };
        let (item, tail) = bytes.split_at(length);
        rest = Some(tail);
        Some(Some((position, item)))
    })
}

fn decode(position: Position, bytes: &[u8]) -> Outcome<Record> {
    match Record::decode(bytes) {
        Some((found, record)) if found == position => Ok(record),
        _ => Err(Fault::BadRecord(position)),
    }
}
