//! Keys on disk: one file each, readable by nobody else, with the state of the key.
//!
//! The folder is the only truth. Servers read it again every few seconds, so that whoever changes
//! it (`limen dns roll`, or a Secret that is mounted there) need not tell them.

use std::fs;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::KEY_TTL;
use super::key::{self, Key};
use super::key_file::{read_key, set_state, write_key};
use super::signer::Signer;
use crate::stamp::Stamp;
use crate::wire::name;

/// How long a key is published before it may sign, in seconds: until every cache that has the keys
/// without it has forgotten them.
const BEFORE_ACTIVE: u64 = KEY_TTL as u64 + 300;
/// How long a key stays after it has stopped to sign: its signatures and its DS may be remembered.
const BEFORE_REMOVED: u64 = 2 * 24 * 3600;

/// What a key is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// Everybody may see it, but it signs no answers yet.
    Published,
    /// It signs.
    Active,
    /// It signs no more, but what it has signed is still remembered.
    Retired,
}

/// Why keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFolderError {
    /// The folder or a file cannot be read.
    #[error("the key {path} cannot be read: {error}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A file cannot be written.
    #[error(
        "the key {path} cannot be written: {error}; make the folder writable, or put a key there"
    )]
    Write {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// Others can read it.
    #[error(
        "others can read the key {path} (mode {mode:o}): chmod 600 it, and replace the key if somebody may have"
    )]
    Exposed {
        /// Which.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is not a key file.
    #[error("the key {path} cannot be used: {why}")]
    Malformed {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The name of a zone is not one.
    #[error("{0}")]
    Zone(String),
    /// It is too early for the next step.
    #[error(
        "too early: the key {tag} of {zone} has been {state} for {passed} s, and caches need {needed} s to follow"
    )]
    TooEarly {
        /// The zone.
        zone: String,
        /// The key that has to wait.
        tag: u16,
        /// In which state.
        state: &'static str,
        /// For how long it has been in it.
        passed: u64,
        /// How long it has to be.
        needed: u64,
    },
    /// No key.
    #[error("there is no active key of {0}; start the server, which makes one")]
    NoKey(String),
    /// There were keys, and now there are none.
    #[error(
        "the keys of {zone} are gone from {folder}: put them back before the server is started \
         again, which would make a key that the parent does not know"
    )]
    Gone {
        /// The zone.
        zone: String,
        /// Where they were.
        folder: PathBuf,
    },
}

/// A key of a zone, as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKey {
    /// What signatures call it.
    pub tag: u16,
    /// What it is used for.
    pub state: KeyState,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// The DS record that the parent should have, as in a zone file.
    pub ds: String,
    path: PathBuf,
}

/// What a step of a roll has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rolled {
    /// A new key can be seen; it does not sign yet.
    Published(u16),
    /// The new key signs, the old one has stopped.
    Activated(u16),
    /// An old key is gone.
    Removed(u16),
}

/// A key that can be used.
pub(super) struct ZoneKey {
    pub(super) key: Key,
    pub(super) state: KeyState,
    pub(super) since: u64,
    pub(super) path: PathBuf,
}

/// What a folder holds at one moment, as far as it takes to see that it is another.
pub(crate) type FolderState = Vec<(Option<Stamp>, PathBuf)>;

/// A folder with keys.
#[derive(Clone, Debug)]
pub struct KeyFolder(PathBuf);

impl KeyFolder {
    /// The folder at a path. It is made when the first key is.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The keys of a zone, oldest first.
    pub fn list(&self, zone: &str) -> Result<Vec<StoredKey>, KeyFolderError> {
        let apex = name::from_text(zone).map_err(KeyFolderError::Zone)?;
        let stored = |key: ZoneKey| StoredKey {
            tag: key.key.tag,
            state: key.state,
            since: key.since,
            ds: ds_text(zone, &key.key.ds(&apex)),
            path: key.path,
        };
        Ok(self.read(zone)?.into_iter().map(stored).collect())
    }

    /// Makes a key for a zone that has none. `now` is in seconds since 1970.
    pub(crate) fn provide(&self, zone: &str, now: u64) -> Result<(), KeyFolderError> {
        if !self.read(zone)?.is_empty() {
            return Ok(());
        }
        self.make(zone, KeyState::Active, now)?;
        for key in self.list(zone)? {
            // Until the parent has it, nobody who checks signatures can use the zone if the parent
            // has another.
            tracing::warn!("a new key signs {zone}: the parent should have {}", key.ds);
        }
        Ok(())
    }

    /// What signs for a zone with the keys that it has. A folder that looks empty may be one that is
    /// not mounted, so that no key is made here.
    pub(crate) fn signer(&self, zone: &str) -> Result<Signer, KeyFolderError> {
        let apex = name::from_text(zone).map_err(KeyFolderError::Zone)?;
        let keys = self.read(zone)?;
        if keys.is_empty() {
            return Err(KeyFolderError::Gone { zone: zone.to_owned(), folder: self.0.clone() });
        }
        Signer::new(apex.into(), keys).ok_or_else(|| KeyFolderError::NoKey(zone.to_owned()))
    }

    /// Something that changes whenever the folder does, or what is in it.
    pub(crate) fn state(&self) -> FolderState {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path()).chain([self.0.clone()]);
        let mut state: FolderState = paths.map(|path| (Stamp::of(&path), path)).collect();
        state.sort();
        state
    }

    /// Takes the next step towards a new key. `now` is in seconds since 1970. `hurry` skips the
    /// waits, for a key that somebody else may have.
    pub fn roll(&self, zone: &str, now: u64, hurry: bool) -> Result<Rolled, KeyFolderError> {
        let keys = self.list(zone)?;
        let of = |state| keys.iter().find(|key| key.state == state);
        let wait = |key: &StoredKey, state, needed| {
            let passed = now.saturating_sub(key.since);
            if hurry || passed >= needed {
                return Ok(());
            }
            let (zone, tag) = (zone.to_owned(), key.tag);
            Err(KeyFolderError::TooEarly { zone, tag, state, passed, needed })
        };
        if let Some(retired) = of(KeyState::Retired) {
            wait(retired, "retired", BEFORE_REMOVED)?;
            fs::remove_file(&retired.path)
                .map_err(|error| KeyFolderError::Write { path: retired.path.clone(), error })?;
            return Ok(Rolled::Removed(retired.tag));
        }
        let active = of(KeyState::Active).ok_or_else(|| KeyFolderError::NoKey(zone.to_owned()))?;
        let Some(published) = of(KeyState::Published) else {
            return self.make(zone, KeyState::Published, now).map(Rolled::Published);
        };
        wait(published, "published", BEFORE_ACTIVE)?;
        // In this order there is an active key at every moment.
        set_state(&published.path, KeyState::Active, now)?;
        set_state(&active.path, KeyState::Retired, now)?;
        Ok(Rolled::Activated(published.tag))
    }

    fn read(&self, zone: &str) -> Result<Vec<ZoneKey>, KeyFolderError> {
        let read_failed = |error| KeyFolderError::Read { path: self.0.clone(), error };
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(read_failed(error)),
        };
        let mut keys = Vec::new();
        for entry in entries {
            let path = entry.map_err(read_failed)?.path();
            if path.extension().is_some_and(|extension| extension == "key") {
                keys.extend(read_key(&path, zone)?);
            }
        }
        keys.sort_by_key(|key| (key.since, key.key.tag));
        Ok(keys)
    }

    /// Makes a key whose tag no other of the zone has.
    fn make(&self, zone: &str, state: KeyState, now: u64) -> Result<u16, KeyFolderError> {
        let failed = |error| KeyFolderError::Write { path: self.0.clone(), error };
        fs::create_dir_all(&self.0).map_err(failed)?;
        let taken: Vec<u16> = self.read(zone)?.iter().map(|key| key.key.tag).collect();
        loop {
            let malformed =
                |why: &str| KeyFolderError::Malformed { path: self.0.clone(), why: why.to_owned() };
            let stored = key::generate().map_err(malformed)?;
            let tag = Key::read(&stored).map_err(malformed)?.tag;
            if taken.contains(&tag) {
                continue;
            }
            let path = self.0.join(format!("{}.{tag:05}.key", zone.trim_end_matches('.')));
            write_key(&path, zone, state, now, &STANDARD.encode(stored))?;
            return Ok(tag);
        }
    }
}

fn ds_text(zone: &str, ds: &[u8]) -> String {
    let tag = u16::from_be_bytes([ds[0], ds[1]]);
    let hash: String = ds[4..].iter().map(|byte| format!("{byte:02X}")).collect();
    format!("{}. IN DS {tag} {} {} {hash}", zone.trim_end_matches('.'), ds[2], ds[3])
}

/// The DS record of a signer, for people.
pub(crate) fn ds_texts(zone: &str, signer: &Signer) -> Vec<String> {
    signer.ds().map(|ds| ds_text(zone, &ds)).collect()
}
