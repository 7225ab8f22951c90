//! TLS for the page: the certificate that browsers are shown, and those that they show.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use kube::Client;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// How often it is seen whether the files have been renewed.
const AGAIN: Duration = Duration::from_secs(60);

/// How the page speaks TLS.
#[derive(Clone)]
pub struct Tls {
    /// The certificate that browsers are shown, and whose certificates are taken of them.
    pub config: Arc<ServerConfig>,
    /// Says who somebody with a verified certificate (DER) is, if anybody.
    pub recognise: Option<Recognise>,
}

/// Says who somebody with a verified certificate (DER) is, if anybody.
pub type Recognise = Arc<dyn Fn(&[u8]) -> Option<Recognised> + Send + Sync>;

/// Somebody who was known by a certificate.
#[derive(Clone)]
pub struct Recognised {
    /// As the hub knows them.
    pub name: String,
    /// When the certificate ends, in seconds since 1970.
    pub until: i64,
    /// Acts with their rights.
    pub client: Client,
}

/// A certificate and its key in two files, which may be renewed while the page is served.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The certificate and those between it and its authority, as PEM.
    pub certificate: PathBuf,
    /// Its key, as PEM.
    pub key: PathBuf,
}

impl CertificateFiles {
    /// TLS with this certificate, and otherwise as `like` has it.
    ///
    /// # Errors
    ///
    /// When the files cannot be read, or do not belong together. The error names them.
    pub fn tls(self, like: Option<Tls>) -> io::Result<Tls> {
        let (mut config, recognise) = match like {
            Some(Tls { config, recognise }) => ((*config).clone(), recognise),
            None => (asking_nobody()?, None),
        };
        let shown = Arc::new(Shown(RwLock::new(Arc::new(self.read()?))));
        tokio::spawn(self.keep_reading(Arc::downgrade(&shown)));
        config.cert_resolver = shown;
        Ok(Tls { config: Arc::new(config), recognise })
    }

    fn read(&self) -> io::Result<CertifiedKey> {
        let wrong = |path: &PathBuf, why: String| {
            io::Error::other(format!("{} cannot be used: {why}", path.display()))
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(&self.certificate)
            .map_err(|error| wrong(&self.certificate, error.to_string()))?
            .collect();
        let chain = chain.map_err(|error| wrong(&self.certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(wrong(&self.certificate, "there is no certificate in it".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| wrong(&self.key, error.to_string()))?;
        CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map_err(|error| wrong(&self.key, error.to_string()))
    }

    /// Shows what is in the files, for as long as somebody shows it. What cannot be read changes
    /// nothing: whoever renews two files has one of them done first.
    async fn keep_reading(self, shown: std::sync::Weak<Shown>) {
        let mut complained = false;
        loop {
            tokio::time::sleep(AGAIN).await;
            let Some(shown) = shown.upgrade() else { return };
            match self.read() {
                Ok(read) => {
                    complained = false;
                    *shown.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
                }
                Err(error) if !complained => {
                    complained = true;
                    tracing::warn!("the dashboard keeps its certificate: {error}");
                }
                Err(_) => {}
            }
        }
    }
}

fn asking_nobody() -> io::Result<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(rustls::server::ResolvesServerCertUsingSni::new()));
    Ok(config)
}

/// The certificate that is shown.
#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}
