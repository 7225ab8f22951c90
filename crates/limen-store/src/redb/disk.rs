//! Opening the file, and what can be wrong with it.
//!
//! A store file only ever appears under its name when it is whole: it is made under another name
//! and then linked. So an empty or half-written file is damage, never a new store.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{Builder, Database, DatabaseError, StorageError};

use super::backend::Backend;
use super::file::StoreFile;
use super::layout::{
    EXPIRY, FORMAT, INDEX, LOG, META, META_CLEANED, META_COMPACTED, META_FORMAT, META_INDEXED,
    META_REVISION, Position,
};
use crate::{Error, Result, Revision};

/// What a store is kept on.
#[derive(Clone, Debug)]
pub(super) enum Medium {
    File(PathBuf),
    #[cfg(test)]
    Fake(super::fake_disk::FakeDisk),
}

impl Medium {
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            #[cfg(test)]
            Self::Fake(_) => PathBuf::from("fake-disk"),
        }
    }

    /// Opens the file, and makes it first if there is none. Says at which revision it is.
    pub(super) fn open(&self, cache_bytes: usize) -> Result<(StoreFile, Revision)> {
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes);
        let opened = without_panic(|| {
            let database = match self {
                Self::File(path) => open_file(path, &builder)?,
                #[cfg(test)]
                Self::Fake(disk) => {
                    let new = disk.is_empty();
                    let database = builder.create_with_backend(disk.attach())?;
                    if new { initialise(database)? } else { database }
                }
            };
            StoreFile::load(database)
        });
        opened.map_err(|fault| fault.while_opening(&self.path()))
    }

    /// Free bytes on the disk; `None` if that cannot be known.
    pub(super) fn available(&self) -> Option<u64> {
        match self {
            Self::File(path) => {
                let stat = rustix::fs::statvfs(folder_of(path)).ok()?;
                Some(stat.f_bavail.saturating_mul(stat.f_frsize))
            }
            #[cfg(test)]
            Self::Fake(disk) => disk.available(),
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn open_file(path: &Path, builder: &Builder) -> Outcome<Database> {
    match std::fs::metadata(path) {
        Ok(_) => return open_existing(path, builder),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }

    let draft = path.with_extension(format!("new-{}", std::process::id()));
    match std::fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    // Secrets are kept here: nobody but the owner may read it.
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&draft)?;
    drop(initialise(builder.create_file(file)?)?);
    // Linking refuses to replace a file that another process has made in the meantime.
    let linked = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
        _ => {}
    }
    std::fs::File::open(folder_of(path))?.sync_all()?;
    open_existing(path, builder)
}

fn open_existing(path: &Path, builder: &Builder) -> Outcome<Database> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    // redb would take it for a new one.
    if file.metadata()?.len() == 0 {
        return Err(Fault::Unreadable("it is empty".to_owned()));
    }
    Ok(builder.create_with_backend(Backend::new(file)?)?)
}

fn initialise(database: Database) -> Outcome<Database> {
    let txn = database.begin_write()?;
    txn.open_table(LOG)?;
    txn.open_table(INDEX)?;
    txn.open_table(EXPIRY)?;
    {
        let mut meta = txn.open_table(META)?;
        meta.insert(META_FORMAT, FORMAT)?;
        meta.insert(META_REVISION, Revision::FIRST.0)?;
        meta.insert(META_INDEXED, Revision::FIRST.0)?;
        meta.insert(META_COMPACTED, 0)?;
        meta.insert(META_CLEANED, 0)?;
    }
    txn.commit()?;
    Ok(database)
}

/// Runs code that reads pages which may be damaged: redb asserts what it expects of them.
pub(super) fn without_panic<T>(read: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    // Nothing that unwinds here is used afterwards: a damaged file ends the operation.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("a page makes no sense");
        Err(Fault::Unreadable(text.to_owned()))
    })
}

pub(super) type Outcome<T> = std::result::Result<T, Fault>;

/// A failure beneath the store.
#[derive(Debug)]
pub(super) enum Fault {
    Redb(redb::Error),
    /// The record at this position is not what was written.
    BadRecord(Position),
    /// The file makes no sense.
    Unreadable(String),
}

impl Fault {
    pub(super) fn lacks(name: &str) -> Self {
        Self::Unreadable(format!("it has no {name}"))
    }

    fn while_opening(self, path: &Path) -> Error {
        let path = path.to_owned();
        match self {
            Self::Redb(redb::Error::DatabaseAlreadyOpen) => Error::InUse { path },
            Self::Redb(redb::Error::Io(error)) if !is_damage(&error) => {
                Error::Open { path, reason: error.to_string() }
            }
            fault => Error::Damaged { path, detail: fault.detail() },
        }
    }

    /// What a caller of get, range or watch is told.
    pub(super) fn while_reading(self, path: &Path) -> Error {
        match self {
            Self::Redb(redb::Error::Corrupted(_)) | Self::BadRecord(_) | Self::Unreadable(_) => {
                Error::Damaged { path: path.to_owned(), detail: self.detail() }
            }
            Self::Redb(error) => Error::Unavailable(format!("{}: {error}", path.display())),
        }
    }

    pub(super) fn detail(&self) -> String {
        match self {
            Self::Redb(error) => error.to_string(),
            Self::BadRecord((revision, _)) => {
                format!("the record of revision {revision} does not match its checksum")
            }
            Self::Unreadable(detail) => detail.clone(),
        }
    }
}

fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

macro_rules! fault_from {
    ($($error:ty),*) => {$(
        impl From<$error> for Fault {
            fn from(error: $error) -> Self {
                Self::Redb(error.into())
            }
        }
    )*};
}
fault_from!(
    DatabaseError,
    StorageError,
    redb::TransactionError,
    redb::TableError,
    redb::CommitError
);

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Redb(redb::Error::Io(error))
    }
}
