//! Writing: the tables of one write transaction, and what a change does to them.

use std::sync::Arc;
use std::time::Duration;

use redb::{ReadableTable, Table, WriteTransaction};

use super::disk::{Fault, Outcome};
use super::layout::{
    EXPIRY, INDEX, LOG, META, META_CLEANED, META_COMPACTED, META_REVISION, Position, Record,
    index_value,
};
use super::view::{event, latest, record};
use crate::{Entry, Error, Event, Expect, Revision, Txn, WriteOp};

pub(super) struct Tables<'txn> {
    log: Table<'txn, Position, &'static [u8]>,
    index: Table<'txn, (&'static [u8], u64), u32>,
    expiry: Table<'txn, (u64, u64, u32), ()>,
    meta: Table<'txn, &'static str, u64>,
    /// Reused for every record that is encoded.
    buffer: Vec<u8>,
}

/// The live version of a key.
struct Current {
    position: Position,
    record: Record,
}

impl Current {
    fn entry(&self) -> Option<Entry> {
        self.record.entry(self.position)
    }
}

impl<'txn> Tables<'txn> {
    pub(super) fn open(txn: &'txn WriteTransaction) -> Outcome<Self> {
        Ok(Self {
            log: txn.open_table(LOG)?,
            index: txn.open_table(INDEX)?,
            expiry: txn.open_table(EXPIRY)?,
            meta: txn.open_table(META)?,
            buffer: Vec::new(),
        })
    }

    pub(super) fn set_revision(&mut self, revision: Revision) -> Outcome<()> {
        self.meta.insert(META_REVISION, revision.0)?;
        Ok(())
    }

    pub(super) fn compacted(&self) -> Outcome<Revision> {
        self.number(META_COMPACTED)
    }

    pub(super) fn cleaned(&self) -> Outcome<Revision> {
        self.number(META_CLEANED)
    }

    fn number(&self, name: &str) -> Outcome<Revision> {
        Ok(Revision(self.meta.get(name)?.map_or(0, |value| value.value())))
    }

    pub(super) fn set_compacted(&mut self, revision: Revision) -> Outcome<()> {
        self.meta.insert(META_COMPACTED, revision.0)?;
        Ok(())
    }

    /// Carries out a transaction at `revision`. The inner error says why it cannot be; nothing
    /// was changed then.
    pub(super) fn apply(
        &mut self,
        txn: &Txn,
        revision: Revision,
        now: u64,
    ) -> Outcome<Result<Vec<Arc<Event>>, Error>> {
        let mut currents = Vec::with_capacity(txn.writes.len());
        for write in &txn.writes {
            let current = self.current(&write.key)?;
            let modified = current.as_ref().map(|current| Revision(current.position.0));
            let met = match write.expect {
                Expect::Any => true,
                Expect::Absent => modified.is_none(),
                Expect::Modified(revision) => modified == Some(revision),
            };
            if !met {
                let current = current.and_then(|current| current.entry());
                return Ok(Err(Error::Conflict { key: write.key.clone(), current }));
            }
            currents.push(current);
        }

        let mut events = Vec::new();
        for (write, current) in txn.writes.iter().zip(currents) {
            let (value, ttl) = match &write.op {
                WriteOp::Put { value, ttl } => (Some(value.clone()), *ttl),
                WriteOp::Delete if current.is_some() => (None, None),
                WriteOp::Delete | WriteOp::Check => continue,
            };
            let n = u32::try_from(events.len()).expect("a transaction has few writes");
            let created = current.as_ref().map_or(revision.0, |current| current.record.created);
            let record = Record {
                key: write.key.clone(),
                value,
                created,
                previous: current.as_ref().map(|current| current.position),
                deadline: ttl.map(|ttl| now + milliseconds(ttl)),
            };
            events.push(self.write(&record, (revision.0, n), current)?);
        }
        Ok(Ok(events))
    }

    fn current(&self, key: &[u8]) -> Outcome<Option<Current>> {
        let Some((position, true)) = latest(&self.index, key, Revision(u64::MAX))? else {
            return Ok(None);
        };
        Ok(Some(Current { position, record: record(&self.log, position)? }))
    }

    fn write(
        &mut self,
        record: &Record,
        position: Position,
        current: Option<Current>,
    ) -> Outcome<Arc<Event>> {
        let (revision, n) = position;
        record.encode(&mut self.buffer);
        self.log.insert(position, self.buffer.as_slice())?;
        let value = index_value::pack(n, record.value.is_some());
        self.index.insert((&*record.key, revision), value)?;
        if let Some(Current { position: (revision, n), record }) = &current
            && let Some(deadline) = record.deadline
        {
            self.expiry.remove((deadline, *revision, *n))?;
        }
        if let Some(deadline) = record.deadline {
            self.expiry.insert((deadline, revision, n), ())?;
        }
        let previous = current.and_then(|current| current.entry());
        Ok(Arc::new(event(record, position, previous)))
    }

    /// When the next key is due to be deleted.
    pub(super) fn next_deadline(&self) -> Outcome<Option<u64>> {
        Ok(self.expiry.first()?.map(|(row, _)| row.value().0))
    }

    /// At most `limit` transactions that delete keys whose time has come.
    pub(super) fn expired(&self, now: u64, limit: usize) -> Outcome<Vec<Txn>> {
        let mut due = Vec::new();
        for row in self.expiry.range(..=(now, u64::MAX, u32::MAX))?.take(limit) {
            let (row, _) = row?;
            let (_, revision, n) = row.value();
            let key = record(&self.log, (revision, n))?.key;
            due.push(Txn::delete(key, Expect::Modified(Revision(revision))));
        }
        Ok(due)
    }

    /// Removes what compaction made superfluous, looking at no more than `limit` records.
    /// Returns whether something is left to do.
    ///
    /// Each record up to the compacted revision makes the one before it of the same key
    /// superfluous, and itself too if it is a deletion.
    pub(super) fn clean(&mut self, limit: usize) -> Outcome<bool> {
        let (Revision(cleaned), Revision(compacted)) = (self.cleaned()?, self.compacted()?);
        if cleaned >= compacted {
            return Ok(false);
        }

        let mut doomed = Vec::new();
        let mut upto = compacted;
        for (count, row) in self.log.range((cleaned + 1, 0)..=(compacted, u32::MAX))?.enumerate() {
            let (position, bytes) = row?;
            let position = position.value();
            // A revision is cleaned as a whole.
            if count >= limit && position.1 == 0 {
                upto = position.0 - 1;
                break;
            }
            let record = Record::decode(bytes.value()).ok_or(Fault::BadRecord(position))?;
            if let Some(previous) = record.previous {
                doomed.push((record.key.clone(), previous));
            }
            if record.value.is_none() {
                doomed.push((record.key, position));
            }
        }
        for (key, position) in doomed {
            self.index.remove((&*key, position.0))?;
            self.log.remove(position)?;
        }
        self.meta.insert(META_CLEANED, upto)?;
        Ok(upto < compacted)
    }
}

fn milliseconds(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX / 2)
}
