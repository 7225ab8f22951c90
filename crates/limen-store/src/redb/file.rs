//! The open file: the database, and the delta that goes with it.

use std::sync::{Arc, RwLock};

use redb::{Database, ReadableDatabase};

use super::delta::Delta;
use super::disk::{Fault, Outcome};
use super::layout::{FORMAT, LOG, META, META_FORMAT, META_INDEXED, META_REVISION, Version};
use super::log;
use crate::Revision;

pub(super) struct StoreFile {
    pub(super) database: Database,
    delta: RwLock<Arc<Delta>>,
}

impl StoreFile {
    /// Refuses a file that this version does not understand; otherwise reads what the index lacks
    /// from the log. Says at which revision the file is.
    pub(super) fn load(database: Database) -> Outcome<(Self, Revision)> {
        let txn = database.begin_read()?;
        let meta = txn.open_table(META)?;
        let number = |name| -> Outcome<Option<u64>> { Ok(meta.get(name)?.map(|row| row.value())) };
        let format = number(META_FORMAT)?;
        if format != Some(FORMAT) {
            let format =
                format.map_or("no format number".to_owned(), |format| format!("format {format}"));
            return Err(Fault::Unreadable(format!(
                "it has {format}, and this version reads format {FORMAT}"
            )));
        }
        let required = |name| number(name)?.ok_or_else(|| Fault::lacks(name));

        let (revision, indexed) = (required(META_REVISION)?, required(META_INDEXED)?);
        let delta = Delta::default();
        for row in log::records(&txn.open_table(LOG)?, (indexed + 1, 0))? {
            let (position, record) = row?;
            delta.insert(&record.key, Version { position, present: record.value.is_some() });
        }
        Ok((Self { database, delta: RwLock::new(Arc::new(delta)) }, Revision(revision)))
    }

    /// The delta for commits from here on.
    pub(super) fn delta(&self) -> Arc<Delta> {
        self.delta.read().expect("no holder panics").clone()
    }

    /// Begins an empty delta. What was in the old one must be in the index by now, on disk.
    pub(super) fn renew_delta(&self) {
        *self.delta.write().expect("no holder panics") = Arc::default();
    }
}
