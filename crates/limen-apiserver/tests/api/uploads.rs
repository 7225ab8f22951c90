//! Bodies that are sent by people who may not send them, or who do not send them to the end.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::fairness::{allow_writes, create};
use crate::server::{Hub, options, store};

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

/// Announces a review, which anybody may ask for, and sends nothing once the server waits for it.
async fn stall(hub: &Hub, token: &str) -> TlsStream<TcpStream> {
    let mut stream = connect(hub).await;
    let head = format!(
        "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews HTTP/1.1\r\nHost: hub\r\n\
         Authorization: Bearer {token}\r\nExpect: 100-continue\r\n\
         Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    let read = stream.read_exact(&mut answer);
    tokio::time::timeout(Duration::from_secs(40), read).await.expect("an answer").unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 100");
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_send_what_they_announce_keeps_nobody_from_writing() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "token-1,greedy,1\ntoken-2,ann,2\n").unwrap();
    let mut settings = options(folder.path(), Arc::new(store(folder.path())));
    settings.token_file = Some(tokens);
    let hub = Hub::start_with(folder, settings).await;
    allow_writes(&hub).await;

    // As many as may write at the same time; others would be answered before they have sent
    // anything.
    let mut stalled = Vec::new();
    for _ in 0..200 {
        stalled.push(stall(&hub, "token-1").await);
    }
    let written = create(hub.client_with("token-2"), "modest".to_owned()).await;
    assert_eq!(written, (201, None));
}
