//! What an edge obeys: the compiled roots and the Secrets they name.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use limen_core::global::Global;

use crate::{DnsChallengeSpec, DnsZoneSpec};

/// A namespace and a name in it.
pub type Key = (String, String);

/// Everything that a source knows at one moment.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Compiled roots by namespace and name. The order is that of their keys, so that of two that claim the same path
    /// every edge lets the same one have it. What has not changed is shared with the moment
    /// before, which is how an edge knows.
    pub ingresses: BTreeMap<(String, String), Arc<Global>>,
    /// Zones that DNS servers answer for, by namespace and name.
    pub zones: BTreeMap<(String, String), Arc<DnsZoneSpec>>,
    /// Answers to challenges, by namespace and name. They are not kept on disk: whoever asks for
    /// them does so at once.
    pub challenges: BTreeMap<(String, String), Arc<DnsChallengeSpec>>,
    /// Secrets by namespace and name.
    pub secrets: HashMap<(String, String), Arc<SecretData>>,
    /// What roots ask for and do not get, and why.
    pub denied: Vec<String>,
    /// Where zones are written that come from files.
    pub origins: HashMap<Key, Origin>,
}

/// Where in a file an object is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: PathBuf,
    /// The line that the object begins in.
    pub line: u64,
    /// The line that each of its records begins in.
    pub records: Vec<u64>,
}

/// What is in a Secret, decoded.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretData(pub BTreeMap<String, Vec<u8>>);

/// Only what its parts are called.
impl fmt::Debug for SecretData {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl Objects {
    /// A Secret in a namespace.
    pub fn secret(&self, namespace: &str, name: &str) -> Option<&Arc<SecretData>> {
        self.secrets.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Where a zone, or one of its records, is written, to be put before what is wrong with it:
    /// `zones.yaml:7: `. Nothing if it does not come from a file.
    pub fn place_of(&self, zone: &Key, record: Option<usize>) -> String {
        let Some(Origin { file, line, records }) = self.origins.get(zone) else {
            return String::new();
        };
        let line = record.and_then(|record| records.get(record)).unwrap_or(line);
        format!("{}:{line}: ", file.display())
    }
}
