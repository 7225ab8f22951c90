//! TLS with clients: which certificate, and whether clients must have one.
//!
//! A handshake looks at the name that the client asks for, takes the certificate for exactly that
//! name, else the one for its wildcard, else the default, and never waits for anything. New
//! certificates take effect with the next handshake; connections that exist go on.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;

use crate::snapshot::Snapshot;
use limen_api::source::SecretData;
use limen_core::route::Shelves;

/// Certificates by the names that clients ask for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Certificates {
    exact: Shelves<Arc<CertifiedKey>>,
    /// By what follows the asterisk and its dot.
    wildcard: Shelves<Arc<CertifiedKey>>,
    /// Hosts whose clients must have a certificate, with the rules for it.
    mutual: HashMap<String, Mutual>,
}

/// How clients show who they are.
#[derive(Clone, Debug)]
pub(crate) struct Mutual {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) authority: Arc<SecretData>,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error("it has no {0}")]
    Missing(&'static str),
    #[error("its {0} is not PEM: {1}")]
    Pem(&'static str, rustls::pki_types::pem::Error),
    #[error("{0}")]
    Unusable(#[from] rustls::Error),
    #[error("its ca.crt cannot be used: {0}")]
    Authority(String),
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// The certificate and key of a Secret of type `kubernetes.io/tls`.
pub(crate) fn certified_key(secret: &SecretData) -> Result<CertifiedKey, CertificateError> {
    let part = |name| secret.0.get(name).ok_or(CertificateError::Missing(name));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(part("tls.crt")?).collect();
    let chain = chain.map_err(|error| CertificateError::Pem("tls.crt", error))?;
    let key = PrivateKeyDer::from_pem_slice(part("tls.key")?)
        .map_err(|error| CertificateError::Pem("tls.key", error))?;
    if chain.is_empty() {
        return Err(CertificateError::Missing("tls.crt"));
    }
    Ok(CertifiedKey::from_der(chain, key, &ring::default_provider())?)
}

/// A certificate for nobody in particular, for clients that ask for a name without one.
fn self_made() -> Result<CertifiedKey, CertificateError> {
    let made = rcgen::generate_simple_self_signed(vec!["limen.invalid".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    Ok(CertifiedKey::from_der(vec![made.cert.der().clone()], key, &ring::default_provider())?)
}

impl Certificates {
    /// Sets the certificate of a host in lower case, or that it has none.
    pub(crate) fn set(&mut self, host: &Arc<str>, key: Option<&Arc<CertifiedKey>>) {
        let (table, name) = match host.strip_prefix("*.") {
            Some(rest) => (&mut self.wildcard, rest.into()),
            None => (&mut self.exact, host.clone()),
        };
        match key {
            Some(key) => table.insert(name, key.clone()),
            None => table.remove(&name),
        }
    }

    /// Asks no client for a certificate.
    pub(crate) fn require_none(&mut self) {
        self.mutual.clear();
    }

    /// Asks clients of a host for a certificate.
    pub(crate) fn require(&mut self, host: &str, mutual: &Mutual) {
        self.mutual.insert(host.to_ascii_lowercase(), mutual.clone());
    }

    /// The certificate to show whoever asks for this host.
    pub(crate) fn get(&self, host: &str) -> Option<&Arc<CertifiedKey>> {
        let wildcard = || self.wildcard.get(host.split_once('.')?.1);
        self.exact.get(host).or_else(wildcard)
    }

    fn mutual(&self, host: &str) -> Option<&Mutual> {
        if self.mutual.is_empty() {
            return None;
        }
        let wildcard = || self.mutual.get(&format!("*.{}", host.split_once('.')?.1));
        self.mutual.get(host).or_else(wildcard)
    }
}

/// Finds the certificate for a handshake in the snapshot of the moment.
#[derive(Clone)]
pub(crate) struct Resolver {
    snapshot: Arc<ArcSwap<Snapshot>>,
    default: Arc<CertifiedKey>,
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Resolver")
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let snapshot = self.snapshot.load();
        let found = hello.server_name().and_then(|name| snapshot.certificates.get(name)).cloned();
        Some(found.unwrap_or_else(|| self.default.clone()))
    }
}

/// The TLS side of a gateway.
pub(crate) struct ServerTls {
    resolver: Resolver,
    pub(crate) config: Arc<ServerConfig>,
}

impl ServerTls {
    pub(crate) fn new(snapshot: Arc<ArcSwap<Snapshot>>) -> Result<Self, CertificateError> {
        let resolver = Resolver { snapshot, default: Arc::new(self_made()?) };
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(resolver.clone()));
        Ok(Self { resolver, config: Arc::new(finish(config)?) })
    }

    /// A configuration that asks clients for a certificate from an authority. It has tickets of its
    /// own, so that a session without a certificate cannot be resumed as one that has shown it.
    pub(crate) fn mutual(&self, authority: &SecretData) -> Result<ServerConfig, CertificateError> {
        let pem = authority.0.get("ca.crt").ok_or(CertificateError::Missing("ca.crt"))?;
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate =
                certificate.map_err(|error| CertificateError::Pem("ca.crt", error))?;
            roots.add(certificate)?;
        }
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()
                .map_err(|error| CertificateError::Authority(error.to_string()))?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(self.resolver.clone()));
        finish(config)
    }

    /// How a client that asks for this name must show who it is.
    pub(crate) fn mutual_for(&self, name: Option<&str>) -> Option<Mutual> {
        self.resolver.snapshot.load().certificates.mutual(name?).cloned()
    }
}

fn finish(mut config: ServerConfig) -> Result<ServerConfig, CertificateError> {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ticketer = ring::Ticketer::new()?;
    config.session_storage = rustls::server::ServerSessionMemoryCache::new(4096);
    Ok(config)
}
