//! TLS to targets: which authority they are verified by.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How TLS is spoken with the targets of one root.
#[derive(Debug)]
pub(crate) struct UpstreamTls {
    config: Arc<ClientConfig>,
    server_name: Option<String>,
}

/// Why TLS to targets cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamTlsError {
    #[error("the authority is not PEM: {0}")]
    Pem(rustls::pki_types::pem::Error),
    #[error("the authority cannot be used: {0}")]
    Authority(#[from] rustls::Error),
    #[error("this system has no authorities; name one in upstreamTls.caSecret")]
    NoAuthorities,
}

impl UpstreamTls {
    /// Verifies by the authority in `ca_pem`, or by those of the system.
    pub(crate) fn verified(
        ca_pem: Option<&[u8]>,
        server_name: Option<String>,
    ) -> Result<Self, UpstreamTlsError> {
        let mut roots = RootCertStore::empty();
        if let Some(pem) = ca_pem {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                roots.add(certificate.map_err(UpstreamTlsError::Pem)?)?;
            }
        } else {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        if roots.is_empty() {
            return Err(UpstreamTlsError::NoAuthorities);
        }
        let config = builder()?.with_root_certificates(roots).with_no_client_auth();
        Ok(Self::with(config, server_name))
    }

    /// Encrypts and believes anybody.
    pub(crate) fn unverified(server_name: Option<String>) -> Result<Self, UpstreamTlsError> {
        let provider = Arc::new(ring::default_provider());
        let config = builder()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            .with_no_client_auth();
        Ok(Self::with(config, server_name))
    }

    fn with(mut config: ClientConfig, server_name: Option<String>) -> Self {
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self { config: Arc::new(config), server_name }
    }

    pub(crate) async fn connect<I>(&self, host: &str, stream: I) -> std::io::Result<TlsStream<I>>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let name = self.server_name.as_deref().unwrap_or(host).trim_matches(['[', ']']);
        let name = ServerName::try_from(name.to_owned()).map_err(std::io::Error::other)?;
        TlsConnector::from(self.config.clone()).connect(name, stream).await
    }
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, UpstreamTlsError>
{
    let provider = Arc::new(ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?)
}

/// Believes any certificate, for those who wrote `insecureSkipVerify`.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
