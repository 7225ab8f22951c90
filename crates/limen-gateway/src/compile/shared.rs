//! What compiled roots have in common: endpoints and probes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use limen_core::global::Protocol;

use crate::health::{Health, Question};
use crate::upstream::{Destination, Endpoint, UpstreamTls};

/// Endpoints and probes, each made once and gone when the last root that uses it is.
#[derive(Default)]
pub(super) struct Shared {
    endpoints: HashMap<EndpointKey, Weak<Endpoint>>,
    probes: HashMap<Question, Weak<Health>>,
    new_probes: Vec<Weak<Health>>,
    /// Whether addresses are probed that nobody asks to be.
    pub(super) probe_all: bool,
}

/// The last part tells apart who is verified how.
type EndpointKey = (Destination, Protocol, String);

impl Shared {
    /// With `probe_all`, addresses are probed that nobody asks to be.
    pub(super) fn new(probe_all: bool) -> Self {
        Self { probe_all, ..Self::default() }
    }

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

    /// What is known by asking this, for all who ask it.
    pub(super) fn health(
        &mut self,
        question: Question,
        tls: Option<&Arc<UpstreamTls>>,
    ) -> Arc<Health> {
        let make = || Health::new(question.clone(), tls.cloned());
        let (health, new) = get_or_make(&mut self.probes, question.clone(), make);
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
