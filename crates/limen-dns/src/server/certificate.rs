//! The certificate of encrypted connections: read from files, and again whenever those change.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use crate::stamp::Stamp;

/// How often files are looked at: certificates are renewed in place.
const LOOK: Duration = Duration::from_secs(5);

/// A certificate in files, such as a Secret that is mounted.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The chain, in PEM.
    pub chain: PathBuf,
    /// The private key, in PEM.
    pub key: PathBuf,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// None was named.
    #[error("name a certificate and its key: encrypted connections need one")]
    Missing,
    /// A file cannot be read.
    #[error("the certificate file {path} cannot be read: {error}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// Others can read the key.
    #[error("others can read the private key {path} (mode {mode:o}): chmod 600 it")]
    Exposed {
        /// Which.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is not one, or not the key's.
    #[error("the certificate {path} cannot be used: {why}")]
    Malformed {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// The certificate in force.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: CertificateFiles,
    current: ArcSwap<CertifiedKey>,
    /// The files that it was first read from.
    first: Stamps,
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

impl Certificate {
    pub(crate) fn read(files: Option<&CertificateFiles>) -> Result<Arc<Self>, CertificateError> {
        let files = files.ok_or(CertificateError::Missing)?.clone();
        let first = stamps(&files);
        let current = ArcSwap::from_pointee(read(&files)?);
        Ok(Arc::new(Self { files, current, first }))
    }

    /// What accepts connections that speak this within TLS.
    pub(crate) fn acceptor(
        self: &Arc<Self>,
        speaks: &[&str],
    ) -> Result<TlsAcceptor, CertificateError> {
        let versions = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| self.malformed(&error))?;
        let mut config = versions.with_no_client_auth().with_cert_resolver(self.clone());
        config.alpn_protocols = speaks.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    fn malformed(&self, why: &dyn std::fmt::Display) -> CertificateError {
        CertificateError::Malformed { path: self.files.chain.clone(), why: why.to_string() }
    }

    /// Follows the files for as long as the server runs. What cannot be used leaves the old one.
    pub(crate) async fn follow(self: Arc<Self>) {
        let (mut seen, mut said) = (self.first.clone(), String::new());
        loop {
            tokio::time::sleep(LOOK).await;
            let now = stamps(&self.files);
            if now == seen {
                continue;
            }
            match read(&self.files) {
                Ok(key) => {
                    self.current.store(Arc::new(key));
                    tracing::info!("the new certificate is in force");
                    (seen, said) = (now, String::new());
                }
                // It is read again until it can be used, and complained about once.
                Err(error) => {
                    let text = error.to_string();
                    if text != said {
                        tracing::error!("{text}; the old one stays");
                    }
                    said = text;
                }
            }
        }
    }
}

/// What the files are at one moment. Taken before they are read.
type Stamps = [Option<Stamp>; 2];

fn stamps(files: &CertificateFiles) -> Stamps {
    [Stamp::of(&files.chain), Stamp::of(&files.key)]
}

fn read(files: &CertificateFiles) -> Result<CertifiedKey, CertificateError> {
    let read = |path: &Path| {
        fs::read(path).map_err(|error| CertificateError::Read { path: path.to_owned(), error })
    };
    let malformed = |path: &Path, why: &dyn std::fmt::Display| CertificateError::Malformed {
        path: path.to_owned(),
        why: why.to_string(),
    };
    let (chain, key) = (read(&files.chain)?, read(&files.key)?);
    let mode = fs::metadata(&files.key).map_or(0, |found| found.permissions().mode() & 0o777);
    // The group may read it: that is how a mounted Secret reaches a process that is not root.
    if mode & 0o027 != 0 {
        return Err(CertificateError::Exposed { path: files.key.clone(), mode });
    }
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&chain)
        .collect::<Result<_, _>>()
        .map_err(|error| malformed(&files.chain, &error))?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| malformed(&files.key, &error))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider())
        .map_err(|error| malformed(&files.chain, &error))
}
