//! Writing: the tables of one write transaction, and what a change does to them.

use std::sync::Arc;
use std::time::Duration;

use redb::{ReadableTable, Table, WriteTransaction};

use super::delta::Delta;
use super::disk::Outcome;
use super::layout::{
    EXPIRY, INDEX, LOG, META, META_CLEANED, META_COMPACTED, META_INDEXED, META_REVISION, Position,
    Version,
};
use super::record::Record;
use super::{log, versions};
use crate::{Entry, Error, Event, Expect, Revision, Txn, WriteOp};

pub(super) struct Tables<'txn> {
    pub(super) log: Table<'txn, Position, &'static [u8]>,
    pub(super) index: Table<'txn, (&'static [u8], u64), u32>,
    expiry: Table<'txn, (u64, u64, u32), ()>,
    meta: Table<'txn, &'static str, u64>,
    pub(super) delta: Arc<Delta>,
    /// Records of this transaction that are not in the log yet, in order.
    staged: Vec<(Position, Record)>,
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
    pub(super) fn open(txn: &'txn WriteTransaction, delta: Arc<Delta>) -> Outcome<Self> {
        Ok(Self {
            log: txn.open_table(LOG)?,
            index: txn.open_table(INDEX)?,
            expiry: txn.open_table(EXPIRY)?,
            meta: txn.open_table(META)?,
            delta,
            staged: Vec::new(),
        })
    }

    pub(super) fn compacted(&self) -> Outcome<Revision> {
        self.number(META_COMPACTED)
    }

    pub(super) fn cleaned(&self) -> Outcome<Revision> {
        self.number(META_CLEANED)
    }

    pub(super) fn indexed(&self) -> Outcome<Revision> {
        self.number(META_INDEXED)
    }

    fn number(&self, name: &str) -> Outcome<Revision> {
        Ok(Revision(self.meta.get(name)?.map_or(0, |value| value.value())))
    }

    pub(super) fn set(&mut self, name: &str, revision: Revision) -> Outcome<()> {
        self.meta.insert(name, revision.0)?;
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
            events.push(self.write(record, (revision.0, n), current)?);
        }
        Ok(Ok(events))
    }

    fn current(&self, key: &[u8]) -> Outcome<Option<Current>> {
        let version = versions::latest(&self.index, &self.delta, key, u64::MAX)?;
        let Some(Version { position, present: true }) = version else { return Ok(None) };
        Ok(Some(Current { position, record: self.record(position)? }))
    }

    fn record(&self, position: Position) -> Outcome<Record> {
        match self.staged.binary_search_by_key(&position, |(position, _)| *position) {
            Ok(n) => Ok(self.staged[n].1.clone()),
            Err(_) => log::record(&self.log, position),
        }
    }

    fn write(
        &mut self,
        record: Record,
        position: Position,
        current: Option<Current>,
    ) -> Outcome<Arc<Event>> {
        if let Some(Current { position: (revision, n), record }) = &current
            && let Some(deadline) = record.deadline
        {
            self.expiry.remove((deadline, *revision, *n))?;
        }
        if let Some(deadline) = record.deadline {
            self.expiry.insert((deadline, position.0, position.1), ())?;
        }
        self.delta.insert(&record.key, Version { position, present: record.value.is_some() });
        let previous = current.and_then(|current| current.entry());
        let event = record.event(position, previous);
        self.staged.push((position, record));
        Ok(Arc::new(event))
    }

    /// Writes down what was applied, which ends at `newest`.
    pub(super) fn flush(&mut self, newest: Revision) -> Outcome<()> {
        log::append(&mut self.log, &self.staged)?;
        self.staged.clear();
        self.set(META_REVISION, newest)
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
            let key = self.record((revision, n))?.key;
            due.push(Txn::delete(key, Expect::Modified(Revision(revision))));
        }
        Ok(due)
    }
}

fn milliseconds(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX / 2)
}
