//! What signs all zones of a server, kept for as long as the keys on disk are the same.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use super::folder::{KeyFolder, KeyFolderError};
use super::signer::Signer;
use crate::wire::name;
use crate::zone::Zones;

/// How often signatures are made again that secondaries keep, in seconds.
const RENEW: u64 = 24 * 3600;

/// What signs the zones, kept for as long as the keys are the same.
pub(crate) struct Signers {
    folder: Option<KeyFolder>,
    state: Vec<(PathBuf, Option<SystemTime>)>,
    by_zone: HashMap<String, Arc<Signer>>,
    /// When it was last looked at, in seconds since 1970.
    attached: u64,
}

impl Signers {
    pub(crate) fn new(folder: Option<KeyFolder>) -> Self {
        Self { folder, state: Vec::new(), by_zone: HashMap::new(), attached: 0 }
    }

    /// Whether a zone can be signed.
    pub(crate) fn check(&self, zone: &str, now: u64) -> Result<(), KeyFolderError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        folder.signer(zone, now).map(|_| ())
    }

    /// Whether there is something new. `now` is in seconds since 1970.
    pub(crate) fn have_changed(&self, now: u64) -> bool {
        let changed = |folder: &KeyFolder| folder.state() != self.state;
        self.folder.as_ref().is_some_and(|folder| changed(folder) || self.are_old(now))
    }

    /// Whether signatures that others keep should be made again.
    fn are_old(&self, now: u64) -> bool {
        now.saturating_sub(self.attached) > RENEW
    }

    /// Gives each zone what signs it. A zone whose keys cannot be read keeps those it had.
    pub(crate) fn attach(&mut self, zones: &mut Zones, now: u64) {
        let Some(folder) = &self.folder else { return };
        let changed = self.have_changed(now);
        for apex in &mut zones.apexes {
            let zone = name::to_text(&apex.name);
            if changed || !self.by_zone.contains_key(&zone) {
                match folder.signer(&zone, now) {
                    Ok(signer) => {
                        self.by_zone.insert(zone.clone(), Arc::new(signer));
                    }
                    Err(error) => zones.problems.push(format!("zone {zone}: {error}")),
                }
            }
            apex.signer = self.by_zone.get(&zone).cloned();
        }
        // Read after the keys, which may have been made just now.
        self.state = folder.state();
        self.attached = now;
    }
}
