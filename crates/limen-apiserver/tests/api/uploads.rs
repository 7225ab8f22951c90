//! Bodies that are sent by people who may not send them.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::server::Hub;

async fn connect(hub: &Hub) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    let authority = hub.folder.path().join("pki/ca.crt");
    roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let address = hub.server.url().strip_prefix("https://").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

/// Announces a body of which only the beginning comes; the answer, as text.
async fn begin_to_send(hub: &Hub, credential: &str) -> String {
    let mut stream = connect(hub).await;
    let head = format!(
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: hub\r\n\
         Content-Type: application/json\r\nContent-Length: 1000000\r\n{credential}\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 10_000];
    // Long before the body would have taken too long.
    let length = tokio::time::timeout(Duration::from_secs(40), stream.read(&mut answer)).await;
    String::from_utf8_lossy(&answer[..length.expect("an answer").unwrap()]).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_send_is_refused_whatever_they_have_to_send() {
    let hub = Hub::start().await;
    let (unknown, anonymous) =
        tokio::join!(begin_to_send(&hub, "Authorization: Bearer x\r\n"), begin_to_send(&hub, ""));
    for (answer, code) in [(unknown, "401"), (anonymous, "403")] {
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
}
