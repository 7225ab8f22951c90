//! What compiled roots have in common: endpoints and probes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use limen_core::global::{HealthCheck, Protocol};

use crate::health::Health;
use crate::upstream::{Destination, Endpoint, UpstreamTls};

/// Endpoints and probes, each made once and gone when the last root that uses it is.
#[derive(Default)]
pub(super) struct Shared {
    endpoints: HashMap<EndpointKey, Weak<Endpoint>>,
    probes: HashMap<ProbeKey, Weak<Health>>,
    new_probes: Vec<Weak<Health>>,
}

/// The last part tells apart who is verified how.
type EndpointKey = (Destination, Protocol, String);
type ProbeKey = (Destination, String, String, String);

impl Shared {
    pub(super) fn endpoint(
        &mut self,
        destination: Destination,
        protocol: Protocol,
        tls: Option<(&str, &Arc<UpstreamTls>)>,
    ) -> Arc<Endpoint> {
        let how = tls.map(|(how, _)| how.to_owned()).unwrap_or_default();
        let tls = tls.map(|(_, tls)| tls.clone());
        let key = (destination.clone(), protocol, how);
        get_or_make(&mut self.endpoints, key, || Endpoint::new(destination, protocol, tls)).0
    }

    pub(super) fn health(
        &mut self,
        destination: Destination,
        check: &HealthCheck,
        host: &str,
        tls: Option<(&str, &Arc<UpstreamTls>)>,
    ) -> Arc<Health> {
        let how = tls.map(|(how, _)| how.to_owned()).unwrap_or_default();
        let key = (destination.clone(), format!("{check:?}"), host.to_owned(), how);
        let tls = tls.map(|(_, tls)| tls.clone());
        let make = || Health::new(destination, check.clone(), host.to_owned(), tls);
        let (health, new) = get_or_make(&mut self.probes, key, make);
        if new {
            self.new_probes.push(Arc::downgrade(&health));
        }
        health
    }

    /// The probes that nobody runs yet. Also the moment to forget what is gone.
    pub(super) fn take_new_probes(&mut self) -> Vec<Weak<Health>> {
        self.endpoints.retain(|_, endpoint| endpoint.strong_count() > 0);
        self.probes.retain(|_, probe| probe.strong_count() > 0);
        std::mem::take(&mut self.new_probes)
    }
}

fn get_or_make<K: Hash + Eq, V>(
    known: &mut HashMap<K, Weak<V>>,
    key: K,
    make: impl FnOnce() -> V,
) -> (Arc<V>, bool) {
    let slot = known.entry(key).or_default();
    if let Some(found) = slot.upgrade() {
        return (found, false);
    }
    let made = Arc::new(make());
    *slot = Arc::downgrade(&made);
    (made, true)
}
