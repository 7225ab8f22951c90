//! How the server speaks TLS: a certificate that can be swapped while it runs, and client
//! certificates that are welcome but not required.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};

/// The certificate that clients are shown.
#[derive(Debug)]
pub(crate) struct ServingCertificate(ArcSwap<CertifiedKey>);

/// Why there is no TLS. Never holds a key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The PEM text cannot be read.
    #[error("the {0} is not in PEM form")]
    Pem(&'static str),
    /// The certificate and its key cannot be used together.
    #[error("the serving certificate and its key cannot be used: {0}")]
    Certificate(rustls::Error),
    /// The authority cannot be used for client certificates.
    #[error("the authority of client certificates cannot be used: {0}")]
    Authority(String),
    /// The protocol versions and ciphers do not fit.
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
}

impl ServingCertificate {
    /// A certificate and its key, as PEM text.
    pub(crate) fn new((certificate_pem, key_pem): (&str, &str)) -> Result<Self, TlsError> {
        Ok(Self(ArcSwap::from_pointee(certified_key(certificate_pem, key_pem)?)))
    }

    /// Shows another certificate from the next handshake on.
    pub(crate) fn swap(&self, (certificate_pem, key_pem): (&str, &str)) -> Result<(), TlsError> {
        self.0.store(Arc::new(certified_key(certificate_pem, key_pem)?));
        Ok(())
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// TLS with the serving certificate, for clients with a certificate of the authority or none.
/// Also gives the handle to swap the certificate.
pub(crate) fn server_config(
    client_ca_pem: &str,
    serving: (&str, &str),
) -> Result<(ServerConfig, Arc<ServingCertificate>), TlsError> {
    let serving = Arc::new(ServingCertificate::new(serving)?);
    let mut roots = RootCertStore::empty();
    for certificate in certificates(client_ca_pem, "authority of client certificates")? {
        roots.add(certificate).map_err(|error| TlsError::Authority(error.to_string()))?;
    }
    let provider = provider();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(|error| TlsError::Authority(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(TlsError::Setup)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::clone(&serving) as Arc<dyn ResolvesServerCert>);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((config, serving))
}

fn certified_key(certificate_pem: &str, key_pem: &str) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(certificate_pem, "serving certificate")?;
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes())
        .map_err(|_| TlsError::Pem("key of the serving certificate"))?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(TlsError::Certificate)
}

fn certificates(pem: &str, what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    all.ok().filter(|all| !all.is_empty()).ok_or(TlsError::Pem(what))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, ServerConnection};
    use tempfile::TempDir;

    use super::*;
    use crate::auth::pki::{Pki, ServingNames};

    fn pki(folder: &TempDir) -> Pki {
        let names = ServingNames::new([127, 0, 0, 1].into(), []);
        Pki::open(folder.path(), &names, jiff::Timestamp::now()).unwrap()
    }

    /// A handshake in memory: the client's certificate as the server sees it, and the server's.
    fn handshake(
        server: &ServerConfig,
        trusted: &Pki,
        client: Option<(&str, &str)>,
        name: &str,
    ) -> Result<(Option<Vec<u8>>, Vec<u8>), String> {
        let mut roots = RootCertStore::empty();
        for ca in certificates(trusted.ca_pem(), "").unwrap() {
            roots.add(ca).unwrap();
        }
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match client {
            Some((certificate, key)) => builder
                .with_client_auth_cert(
                    certificates(certificate, "").unwrap(),
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap(),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut server = ServerConnection::new(Arc::new(server.clone())).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            let mut wire = Vec::new();
            client.write_tls(&mut wire).unwrap();
            server.read_tls(&mut wire.as_slice()).unwrap();
            server.process_new_packets().map_err(|error| error.to_string())?;
            let mut wire = Vec::new();
            server.write_tls(&mut wire).unwrap();
            client.read_tls(&mut wire.as_slice()).unwrap();
            client.process_new_packets().map_err(|error| error.to_string())?;
        }
        assert_eq!(server.alpn_protocol(), Some(&b"h2"[..]));
        let peer = server.peer_certificates().map(|chain| chain[0].to_vec());
        Ok((peer, client.peer_certificates().unwrap()[0].to_vec()))
    }

    #[test]
    fn clients_may_show_a_certificate_of_the_authority_or_none() {
        let (ours, theirs) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let (ours, theirs) = (pki(&ours), pki(&theirs));
        let (config, _) = server_config(ours.ca_pem(), ours.serving()).unwrap();
        for name in ["localhost", "127.0.0.1", "::1", "kubernetes.default.svc"] {
            assert_eq!(handshake(&config, &ours, None, name).unwrap().0, None, "{name}");
        }
        let (peer, _) = handshake(&config, &ours, Some(ours.admin()), "localhost").unwrap();
        let admin = crate::auth::x509::certificate_identity(&peer.unwrap()).unwrap();
        assert_eq!(admin.name, "kubernetes-admin");
        assert!(handshake(&config, &ours, Some(theirs.admin()), "localhost").is_err());
        // A serving certificate says nothing of who a client is.
        assert!(handshake(&config, &ours, Some(ours.serving()), "localhost").is_err());
        assert!(handshake(&config, &ours, None, "elsewhere").is_err());
    }

    #[test]
    fn the_certificate_can_be_swapped_while_the_server_runs() {
        let folder = TempDir::new().unwrap();
        let before = pki(&folder);
        let (config, serving) = server_config(before.ca_pem(), before.serving()).unwrap();
        let (_, shown) = handshake(&config, &before, None, "localhost").unwrap();
        let names = ServingNames::new([127, 0, 0, 1].into(), ["new.example.org".to_owned()]);
        let after = Pki::open(folder.path(), &names, jiff::Timestamp::now()).unwrap();
        serving.swap(after.serving()).unwrap();
        let (_, shown_after) = handshake(&config, &before, None, "new.example.org").unwrap();
        assert_ne!(shown, shown_after);
        assert!(serving.swap(("x", "y")).is_err());
    }
}
