//! What this server has found out by itself.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

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

/// What probes and lookups have found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Knowledge {
    /// Whether an address answers. What has not been asked yet is not here.
    pub(crate) answering: HashMap<Arc<Probe>, bool>,
    /// By host name of a way in: its addresses, for names that cannot be aliases.
    pub(crate) addresses: HashMap<String, Vec<IpAddr>>,
}

impl Knowledge {
    pub(crate) fn resolved(&self, host: &str) -> &[IpAddr] {
        self.addresses.get(host).map_or(&[], Vec::as_slice)
    }
}
