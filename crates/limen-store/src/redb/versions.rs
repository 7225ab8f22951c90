//! Which versions a key has: the index and the delta as one.

use std::ops::Bound;

use redb::ReadableTable;

use super::delta::Delta;
use super::disk::Outcome;
use super::layout::Version;

/// The newest version of `key` at or before a revision.
pub(super) fn latest(
    index: &impl ReadableTable<(&'static [u8], u64), u32>,
    delta: &Delta,
    key: &[u8],
    at: u64,
) -> Outcome<Option<Version>> {
    // What the delta has of a key is newer than, or the same as, what the index has.
    if let Some(version) = delta.latest(key, at) {
        return Ok(Some(version));
    }
    let Some(row) = index.range((key, 0)..=(key, at))?.next_back() else { return Ok(None) };
    let (row, value) = row?;
    Ok(Some(Version::unpack(row.value().1, value.value())))
}

/// Shows `each` all versions from a bound on whose key starts with `prefix`, in the order of keys
/// and then of revisions, until it returns `false`. One that is in both places may come twice.
pub(super) fn scan(
    index: &impl ReadableTable<(&'static [u8], u64), u32>,
    delta: &Delta,
    start: Bound<(&[u8], u64)>,
    prefix: &[u8],
    mut each: impl FnMut(&[u8], Version) -> Outcome<bool>,
) -> Outcome<()> {
    let mut newer = delta.versions(start, prefix).peekable();
    for row in index.range((start, Bound::Unbounded))? {
        let (row, value) = row?;
        let (key, revision) = row.value();
        if !key.starts_with(prefix) {
            break;
        }
        let first = |(other, version): &(bytes::Bytes, Version)| {
            (&**other, version.position.0) < (key, revision)
        };
        while let Some((key, version)) = newer.next_if(first) {
            if !each(&key, version)? {
                return Ok(());
            }
        }
        if !each(key, Version::unpack(revision, value.value()))? {
            return Ok(());
        }
    }
    for (key, version) in newer {
        if !each(&key, version)? {
            return Ok(());
        }
    }
    Ok(())
}
