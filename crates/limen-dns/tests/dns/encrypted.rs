//! Questions over TLS and HTTPS.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use limen_core::global::TrafficRules;
use limen_dns::{CertificateFiles, Server};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::bed::{Bed, block_on, shop};
use crate::client::*;

struct Encrypted {
    bed: Bed,
    certificate: CertificateDer<'static>,
    files: CertificateFiles,
    _folder: tempfile::TempDir,
}

fn write_certificate(folder: &Path) -> (CertificateFiles, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = CertificateFiles { chain: folder.join("tls.crt"), key: folder.join("tls.key") };
    std::fs::write(&files.chain, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(0o600)).unwrap();
    (files, made.cert.der().clone())
}

fn encrypted() -> Encrypted {
    let folder = tempfile::tempdir().unwrap();
    let (files, certificate) = write_certificate(folder.path());
    let bed = Bed::with(shop(TrafficRules::default()), |options| {
        options.tls = vec!["127.0.0.1:0".parse().unwrap()];
        options.https = vec!["127.0.0.1:0".parse().unwrap()];
        options.certificate = Some(files.clone());
    });
    Encrypted { bed, certificate, files, _folder: folder }
}

impl Encrypted {
    async fn connect(&self, address: std::net::SocketAddr, speaks: &str) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![speaks.as_bytes().to_vec()];
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }
}

fn question() -> Vec<u8> {
    ask("shop.example.com", A).subnet("10.3.0.0", 16).bytes()
}

fn check(bytes: &[u8]) {
    assert_eq!(Answer::read(bytes).texts(), ["192.0.2.3"]);
}

#[test]
fn many_questions_are_answered_over_one_tls_connection() {
    let bed = encrypted();
    block_on(async {
        let mut stream = bed.connect(bed.bed.server.tls()[0], "dot").await;
        let packet = question();
        for _ in 0..3 {
            stream.write_u16(packet.len() as u16).await.unwrap();
            stream.write_all(&packet).await.unwrap();
            let mut answer = vec![0; usize::from(stream.read_u16().await.unwrap())];
            stream.read_exact(&mut answer).await.unwrap();
            check(&answer);
        }
    });
}

type Request = http::Request<Full<Bytes>>;

fn request(method: &str, path: &str, kind: Option<&str>, body: Vec<u8>) -> Request {
    let mut request = http::Request::builder()
        .method(method)
        .uri(format!("https://localhost{path}"))
        .header("host", "localhost");
    if let Some(kind) = kind {
        request = request.header("content-type", kind);
    }
    request.body(Full::new(Bytes::from(body))).unwrap()
}

fn requests() -> Vec<(Request, u16)> {
    let message = Some("application/dns-message");
    let get = |packet: &[u8]| format!("/dns-query?dns={}", URL_SAFE_NO_PAD.encode(packet));
    vec![
        (request("GET", &get(&question()), None, Vec::new()), 200),
        (request("POST", "/dns-query", message, question()), 200),
        (request("POST", "/dns-query", Some("text/plain"), question()), 415),
        (request("POST", "/dns-query", message, vec![0; 5000]), 413),
        (request("POST", "/dns-query", message, vec![0; 5]), 400),
        (request("GET", "/dns-query?dns=!!", None, Vec::new()), 400),
        (request("GET", "/dns-query", None, Vec::new()), 400),
        (request("PUT", "/dns-query", message, question()), 405),
        (request("GET", "/", None, Vec::new()), 404),
    ]
}

async fn judge(response: http::Response<hyper::body::Incoming>, expected: u16) {
    assert_eq!(response.status(), expected);
    if expected == 200 {
        assert_eq!(response.headers()["content-type"], "application/dns-message");
        assert_eq!(response.headers()["cache-control"], "max-age=30");
        check(&response.into_body().collect().await.unwrap().to_bytes());
    }
}

#[test]
fn questions_are_answered_over_http_2_and_1() {
    let bed = encrypted();
    let address = bed.bed.server.https()[0];
    block_on(async {
        let stream = TokioIo::new(bed.connect(address, "h2").await);
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        for (request, expected) in requests() {
            judge(sender.send_request(request).await.unwrap(), expected).await;
        }
        for (request, expected) in requests() {
            let stream = TokioIo::new(bed.connect(address, "http/1.1").await);
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            judge(sender.send_request(request).await.unwrap(), expected).await;
        }
    });
}

#[test]
fn a_silent_connection_is_closed_and_clients_have_only_so_many() {
    let folder = tempfile::tempdir().unwrap();
    let (files, certificate) = write_certificate(folder.path());
    let bed = Bed::with(shop(TrafficRules::default()), |options| {
        options.https = vec!["127.0.0.1:0".parse().unwrap()];
        options.certificate = Some(files.clone());
        options.tcp_idle = std::time::Duration::from_millis(300);
        options.tcp_connections_per_client = 1;
    });
    let bed = Encrypted { bed, certificate, files, _folder: folder };
    let address = bed.bed.server.https()[0];
    block_on(async {
        let mut silent = bed.connect(address, "h2").await;
        let mut second = TcpStream::connect(address).await.unwrap();
        let closed = second.read(&mut [0; 1]).await;
        assert!(matches!(closed, Ok(0) | Err(_)), "only one at a time");
        // What the server says by itself comes first, then the end.
        let mut said = Vec::new();
        let _ = silent.read_to_end(&mut said).await;
    });
}

#[test]
fn a_server_without_a_usable_certificate_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let (files, _) = write_certificate(folder.path());
    let start = |certificate| {
        let options = limen_dns::Options {
            tls: vec!["127.0.0.1:0".parse().unwrap()],
            certificate,
            ..limen_dns::Options::default()
        };
        let (_keep, objects) = tokio::sync::watch::channel(shop(TrafficRules::default()));
        Server::start(&options, limen_api::source::Within(objects)).err().unwrap().to_string()
    };
    assert!(start(None).contains("name a certificate"));
    std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(start(Some(files.clone())).contains("chmod 600"));
    std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&files.chain, "nonsense").unwrap();
    assert!(start(Some(files)).contains("cannot be used"));
}

#[test]
fn a_renewed_certificate_is_taken_over() {
    let bed = encrypted();
    let address = bed.bed.server.tls()[0];
    block_on(bed.connect(address, "dot"));
    let folder = bed.files.chain.parent().unwrap().to_owned();
    let (_, renewed) = write_certificate(&folder);
    let seen = || {
        block_on(async {
            let mut roots = RootCertStore::empty();
            roots.add(renewed.clone()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider);
            let config = config.with_safe_default_protocol_versions().unwrap();
            let config = config.with_root_certificates(roots).with_no_client_auth();
            let stream = TcpStream::connect(address).await.unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            TlsConnector::from(Arc::new(config)).connect(name, stream).await.is_ok()
        })
    };
    crate::bed::until(seen, |renewed| *renewed);
}
