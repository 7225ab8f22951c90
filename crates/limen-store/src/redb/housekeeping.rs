//! What the writer does to the tables besides writing: folding the delta into the index, and
//! removing what compaction made superfluous.

use super::disk::Outcome;
use super::layout::{META_CLEANED, META_INDEXED};
use super::log;
use super::tables::Tables;
use crate::Revision;

impl Tables<'_> {
    /// Puts the rows of the delta, which ends at `newest`, into the index. The delta is to be
    /// renewed once that is on disk.
    pub(super) fn fold(&mut self, newest: Revision) -> Outcome<()> {
        for (key, version) in self.delta.versions(std::ops::Bound::Unbounded, b"") {
            self.index.insert((&*key, version.position.0), version.pack())?;
        }
        self.set(META_INDEXED, newest)
    }

    /// Removes what compaction made superfluous, looking at no more than `limit` records.
    /// Returns whether something is left to do.
    ///
    /// Each record up to the compacted revision makes the one before it of the same key
    /// superfluous, and itself too if it is a deletion. All of them must be in the index: a row
    /// that is folded in after its record has gone would point nowhere.
    pub(super) fn clean(&mut self, limit: usize) -> Outcome<bool> {
        let (Revision(cleaned), Revision(compacted)) = (self.cleaned()?, self.compacted()?);
        if cleaned >= compacted {
            return Ok(false);
        }
        assert!(self.indexed()?.0 >= compacted, "the delta is folded before the log is cleaned");

        let mut doomed = Vec::new();
        let mut upto = compacted;
        for (count, row) in log::records(&self.log, (cleaned + 1, 0))?.enumerate() {
            let (position, record) = row?;
            if position.0 > compacted {
                break;
            }
            // A revision is cleaned as a whole.
            if count >= limit && position.1 == 0 {
                upto = position.0 - 1;
                break;
            }
            if let Some(previous) = record.previous {
                doomed.push((record.key.clone(), previous));
            }
            if record.value.is_none() {
                doomed.push((record.key, position));
            }
        }
        for (key, position) in &doomed {
            self.index.remove((&**key, position.0))?;
        }
        log::remove(&mut self.log, doomed.into_iter().map(|(_, position)| position).collect())?;
        self.set(META_CLEANED, Revision(upto))?;
        Ok(upto < compacted)
    }
}
