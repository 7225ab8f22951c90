//! What this server has found out by itself.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use foldhash::fast::FixedState;
use limen_core::global::{Address, HealthCheck, HealthCheckKind};

/// An address, and how it is asked whether it is well.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Probe {
    pub(crate) address: Address,
    pub(crate) kind: HealthCheckKind,
    /// What HTTP asks for; empty where only a connection is made, so that hosts share it.
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) interval: u32,
    pub(crate) timeout: u32,
    pub(crate) failures: u32,
    pub(crate) successes: u32,
}

impl Probe {
    pub(crate) fn new(address: &Address, check: &HealthCheck, host: &str) -> Self {
        let asks = check.kind != HealthCheckKind::Tcp;
        let host = check.host.as_deref().unwrap_or(host);
        Self {
            address: address.clone(),
            kind: check.kind,
            host: if asks { host.to_owned() } else { String::new() },
            path: if asks { check.path.clone() } else { String::new() },
            interval: check.interval_milliseconds.max(10),
            timeout: check.timeout_milliseconds.max(1),
            failures: check.unhealthy_threshold.max(1),
            successes: check.healthy_threshold.max(1),
        }
    }
}

/// A probe that somebody wants. Equal ones are one, so that it is enough to compare where they
/// are: tens of thousands of hosts ask about the same addresses.
#[derive(Clone, Debug)]
pub(crate) struct Asked(Arc<Probe>);

impl Asked {
    /// Of a probe that all equal ones are.
    pub(crate) fn new(probe: Arc<Probe>) -> Self {
        Self(probe)
    }

    pub(crate) fn probe(&self) -> &Arc<Probe> {
        &self.0
    }
}

impl PartialEq for Asked {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Asked {}

impl Hash for Asked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// What probes and lookups have found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    /// Whether an address answers. What has not been asked yet is not here.
    pub(crate) answering: HashMap<Asked, bool, FixedState>,
    /// By host name of a way in: its addresses, for names that cannot be aliases.
    pub(crate) addresses: HashMap<String, Vec<IpAddr>>,
    /// Names that have been looked up in vain, and never with success.
    pub(crate) not_found: HashSet<String>,
    /// How often either has changed.
    versions: (u64, u64),
}

impl Knowledge {
    /// Takes in whether an address answers. Whether that is new.
    pub(crate) fn answers(&mut self, asked: Asked, answers: bool) -> bool {
        let new = self.answering.insert(asked, answers) != Some(answers);
        self.versions.0 += u64::from(new);
        new
    }

    /// Takes in what a host name stands for. Whether that is new.
    pub(crate) fn stands_for(&mut self, name: String, addresses: Vec<IpAddr>) -> bool {
        let new = self.addresses.get(&name) != Some(&addresses);
        self.not_found.remove(&name);
        self.addresses.insert(name, addresses);
        self.versions.1 += u64::from(new);
        new
    }

    /// Takes in that a host name could not be looked up. Whether nothing was known of it.
    pub(crate) fn not_found(&mut self, name: String) -> bool {
        let new = !self.addresses.contains_key(&name) && self.not_found.insert(name);
        self.versions.1 += u64::from(new);
        new
    }

    /// Numbers that are the same for as long as nothing is new: of answers, and of lookups.
    pub(crate) fn versions(&self) -> (u64, u64) {
        self.versions
    }

    pub(crate) fn resolved(&self, host: &str) -> &[IpAddr] {
        self.addresses.get(host).map_or(&[], Vec::as_slice)
    }
}
