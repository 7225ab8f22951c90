//! What signs all zones of a server, kept for as long as the keys on disk are the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::folder::{FolderState, KeyFolder, KeyFolderError};
use super::signer::Signer;
use crate::wire::name;
use crate::zone::Zones;

/// How often signatures are made again that secondaries keep, in seconds.
const RENEW: u64 = 24 * 3600;
/// By how many seconds a clock may be set back before they are.
const AHEAD: u64 = 60;

/// What signs the zones, kept for as long as the keys are the same.
pub(crate) struct Signers {
    folder: Option<KeyFolder>,
    state: FolderState,
    by_zone: HashMap<String, Arc<Signer>>,
    /// By zone: what is wrong with its keys.
    problems: BTreeMap<String, String>,
    /// When it was last looked at, in seconds since 1970.
    attached: u64,
}

impl Signers {
    pub(crate) fn new(folder: Option<KeyFolder>) -> Self {
        let (by_zone, problems) = (HashMap::new(), BTreeMap::new());
        Self { folder, state: Vec::new(), by_zone, problems, attached: 0 }
    }

    /// Whether a zone can be signed.
    pub(crate) fn check(&self, zone: &str, now: u64) -> Result<(), KeyFolderError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        folder.provide(zone, now)?;
        folder.signer(zone).map(|_| ())
    }

    /// Whether there is something new. `now` is in seconds since 1970.
    pub(crate) fn have_changed(&self, now: u64) -> bool {
        let changed = |folder: &KeyFolder| folder.state() != self.state;
        // Whatever it was that keys could not be read for may be over without a trace in the folder.
        let mended =
            |folder: &KeyFolder| self.problems.keys().any(|zone| folder.signer(zone).is_ok());
        let anew = |folder| changed(folder) || self.are_old(now) || mended(folder);
        self.folder.as_ref().is_some_and(anew)
    }

    /// Whether signatures that others keep should be made again.
    fn are_old(&self, now: u64) -> bool {
        let set_back = self.attached.saturating_sub(now) > AHEAD;
        set_back || now.saturating_sub(self.attached) > RENEW
    }

    /// Gives each zone what signs it. A zone whose keys cannot be read keeps those it had.
    pub(crate) fn attach(&mut self, zones: &mut Zones, now: u64) {
        let Some(folder) = &self.folder else { return };
        let changed = self.have_changed(now);
        let mut unmade: HashMap<String, KeyFolderError> = HashMap::new();
        for zone in zones.apexes.iter().map(|apex| name::to_text(&apex.name)) {
            // A key is never made for a zone that had one: its folder may not be mounted.
            if !self.by_zone.contains_key(&zone) {
                let failed = folder.provide(&zone, now).err();
                unmade.extend(failed.map(|error| (zone, error)));
            }
        }
        // Before the keys are read, so that what changes meanwhile is seen the next time.
        let state = folder.state();
        let mut before = std::mem::take(&mut self.problems);
        for apex in &mut zones.apexes {
            let zone = name::to_text(&apex.name);
            let known = self.by_zone.get(&zone);
            if changed || known.is_none() {
                let read = unmade.remove(&zone).map_or_else(|| folder.signer(&zone), Err);
                match read {
                    // The same keys go on with the signatures that they have made.
                    Ok(signer) if known.is_some_and(|known| known.is_like(&signer)) => {}
                    Ok(signer) => drop(self.by_zone.insert(zone.clone(), Arc::new(signer))),
                    Err(error) => {
                        self.problems.insert(zone.clone(), format!("zone {zone}: {error}"));
                    }
                }
            } else if let Some(problem) = before.remove(&zone) {
                self.problems.insert(zone.clone(), problem);
            }
            apex.signer = self.by_zone.get(&zone).cloned();
        }
        zones.key_problems = self.problems.values().cloned().collect();
        (self.state, self.attached) = (state, now);
    }
}
