//! What compiled roots have in common: endpoints, probes, certificates, ways to speak TLS.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use limen_core::global::Protocol;
use rustls::sign::CertifiedKey;

use crate::health::{Health, Question};
use crate::tls::{CertificateError, certified_key};
use crate::upstream::{Destination, Endpoint, UpstreamTls, UpstreamTlsError};
use limen_api::source::SecretData;

/// What several roots can share, each made once and gone when the last root that uses it is.
#[derive(Default)]
pub(super) struct Shared {
    endpoints: HashMap<EndpointKey, Weak<Endpoint>>,
    probes: HashMap<Question, Weak<Health>>,
    new_probes: Vec<Weak<Health>>,
    /// By where the Secret is in memory, which nothing else can be while it is held here.
    certificates: HashMap<usize, (Weak<SecretData>, Weak<CertifiedKey>)>,
    ways: HashMap<String, Weak<UpstreamTls>>,
    /// How much there was when what is gone was last forgotten.
    kept: usize,
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
        let key = question.clone();
        let make = || Health::new(question, tls.cloned());
        let (health, new) = get_or_make(&mut self.probes, key, make);
        if new {
            self.new_probes.push(Arc::downgrade(&health));
        }
        health
    }

    /// The certificate in a Secret: reading one takes longer than compiling a root.
    pub(super) fn certificate(
        &mut self,
        secret: &Arc<SecretData>,
    ) -> Result<Arc<CertifiedKey>, CertificateError> {
        let place = Arc::as_ptr(secret) as usize;
        let known = self.certificates.get(&place).and_then(|(_, key)| key.upgrade());
        if let Some(key) = known {
            return Ok(key);
        }
        let key = Arc::new(certified_key(secret)?);
        self.certificates.insert(place, (Arc::downgrade(secret), Arc::downgrade(&key)));
        Ok(key)
    }

    /// A way to speak TLS with targets, by what tells it apart from others.
    pub(super) fn way(
        &mut self,
        how: &str,
        make: impl FnOnce() -> Result<UpstreamTls, UpstreamTlsError>,
    ) -> Result<Arc<UpstreamTls>, UpstreamTlsError> {
        if let Some(known) = self.ways.get(how).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let made = Arc::new(make()?);
        self.ways.insert(how.to_owned(), Arc::downgrade(&made));
        Ok(made)
    }

    /// The probes that nobody runs yet. Also the moment to forget what is gone.
    pub(super) fn take_new_probes(&mut self) -> Vec<Weak<Health>> {
        let known = |shared: &Self| {
            shared.endpoints.len()
                + shared.probes.len()
                + shared.certificates.len()
                + shared.ways.len()
        };
        // Looking at everything is only worth it when much of it may be gone.
        if known(self) > 2 * self.kept {
            self.endpoints.retain(|_, endpoint| endpoint.strong_count() > 0);
            self.probes.retain(|_, probe| probe.strong_count() > 0);
            self.certificates.retain(|_, (_, key)| key.strong_count() > 0);
            self.ways.retain(|_, way| way.strong_count() > 0);
            self.kept = known(self).max(64);
        }
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
