//! By TLS: with the hub's own certificate or another one, to people with certificates or tokens.

use std::net::SocketAddr;
use std::sync::Arc;

use kube::Client;
use kube::client::ConfigExt;
use limen_dashboard::{CertificateFiles, Dashboard, DashboardOptions, Recognised, Tls};
use rustls::ClientConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::answer::Answer;
use crate::bed::{Bed, limen};

/// As `limen hub` does it.
fn of_hub(bed: &Bed) -> Tls {
    let knows = bed.hub.server().certified();
    let recognise = move |certificate: &[u8]| {
        let known = knows(certificate)?;
        let client = Client::new(known.door, "default");
        Some(Recognised { name: known.name, until: known.until, client })
    };
    Tls { config: bed.hub.server().tls().clone(), recognise: Some(Arc::new(recognise)) }
}

async fn serve(bed: &Bed, tls: Tls) -> Dashboard {
    let (listen, hub) = (([127, 0, 0, 1], 0).into(), bed.hub.config.clone());
    let options = DashboardOptions { listen, hub, play: None, tls: Some(tls) };
    Dashboard::start(options).await.unwrap()
}

/// A browser that trusts the hub's authority, perhaps with the certificate of an administrator.
fn browser(bed: &Bed, administrator_of: Option<&Bed>) -> ClientConfig {
    let mut config = kube::Config::new(bed.hub.config.cluster_url.clone());
    config.root_cert.clone_from(&bed.hub.config.root_cert);
    if let Some(whose) = administrator_of {
        config.auth_info = whose.hub.config.auth_info.clone();
    }
    config.rustls_client_config().unwrap()
}

async fn connect(config: &ClientConfig, address: SocketAddr) -> TlsStream<TcpStream> {
    let connector = TlsConnector::from(Arc::new(config.clone()));
    let stream = TcpStream::connect(address).await.unwrap();
    connector.connect("localhost".try_into().unwrap(), stream).await.unwrap()
}

async fn ask(
    config: &ClientConfig,
    address: SocketAddr,
    path: &str,
    cookie: &str,
    body: Option<Value>,
) -> Answer {
    let method = if body.is_some() { "POST" } else { "GET" };
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncookie: {cookie}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    Answer::over(connect(config, address).await, &request, None).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_by_http_is_sent_to_https() {
    let mut bed = Bed::start().await;
    let dashboard = serve(&bed, of_hub(&bed)).await;
    let plain = "GET /style.css HTTP/1.1\r\nhost: hub.example:7401\r\nconnection: close\r\n\r\n";
    let answer = Answer::to(dashboard.address(), plain, None).await;
    assert_eq!(answer.status, 308);
    assert_eq!(answer.header("location"), Some("https://hub.example:7401/style.css"));
    let page = ask(&browser(&bed, None), dashboard.address(), "/style.css", "", None).await;
    assert_eq!(page.status, 200);
    bed.hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_taken_and_its_session_never_goes_in_the_clear() {
    let mut bed = Bed::start().await;
    let (dashboard, nobody) = (serve(&bed, of_hub(&bed)).await, browser(&bed, None));
    let at = dashboard.address();
    let me = ask(&nobody, at, "/api/me", "", None).await;
    assert_eq!((me.status, &me.body()["certificate"]), (401, &Value::Null));
    let without = ask(&nobody, at, "/api/login", "", Some(json!("certificate"))).await;
    assert_eq!(without.status, 400);
    assert!(without.text.contains("has shown no certificate"), "{}", without.text);
    let token = bed.token("reader", limen(&["get", "list", "watch"])).await;
    let entered = ask(&nobody, at, "/api/login", "", Some(json!({"token": token}))).await;
    assert_eq!(entered.status, 200, "{}", entered.text);
    let cookie = entered.header("set-cookie").unwrap();
    assert!(cookie.ends_with("HttpOnly; SameSite=Strict; Secure"), "{cookie}");
    bed.hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_with_a_certificate_logs_in_by_it() {
    let mut bed = Bed::start().await;
    let (dashboard, admin) = (serve(&bed, of_hub(&bed)).await, browser(&bed, Some(&bed)));
    let at = dashboard.address();
    let me = ask(&admin, at, "/api/me", "", None).await;
    assert_eq!(me.status, 401, "nobody is logged in without wishing it");
    assert_eq!(me.body()["certificate"], "kubernetes-admin");
    let entered = ask(&admin, at, "/api/login", "", Some(json!("certificate"))).await;
    assert_eq!(entered.status, 200, "{}", entered.text);
    assert_eq!(entered.body()["user"], "kubernetes-admin");
    assert_eq!(entered.body()["mayChange"], true);
    let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap();
    let drain = json!({"cluster": "asia"});
    let drained = ask(&admin, at, "/api/drain", cookie, Some(drain)).await;
    assert_eq!(drained.status, 200, "{}", drained.text);
    bed.hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_another_hub_is_refused() {
    let (mut bed, mut other) = (Bed::start().await, Bed::start().await);
    let dashboard = serve(&bed, of_hub(&bed)).await;
    let mut stream = connect(&browser(&bed, Some(&other)), dashboard.address()).await;
    // The end of a handshake is heard of by whoever reads.
    let _ = stream.write_all(b"GET /api/me HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(stream.read(&mut [0; 100]).await.is_err());
    bed.hub.stop().await;
    other.hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_ones_own_is_shown_instead_of_the_hubs() {
    let (mut bed, folder) = (Bed::start().await, tempfile::tempdir().unwrap());
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let files = CertificateFiles {
        certificate: folder.path().join("tls.crt"),
        key: folder.path().join("tls.key"),
    };
    let missing = files.clone().tls(Some(of_hub(&bed))).err().unwrap().to_string();
    assert!(missing.contains("tls.crt cannot be used"), "{missing}");
    std::fs::write(&files.certificate, certified.cert.pem()).unwrap();
    std::fs::write(&files.key, certified.signing_key.serialize_pem()).unwrap();

    let mut config = kube::Config::new(bed.hub.config.cluster_url.clone());
    config.root_cert = Some(vec![certified.cert.der().to_vec()]);
    config.auth_info = bed.hub.config.auth_info.clone();
    let admin = config.rustls_client_config().unwrap();
    // With a hub of ours its certificates are taken of people; without one nobody's are.
    for (like, name) in [(Some(of_hub(&bed)), json!("kubernetes-admin")), (None, Value::Null)] {
        let dashboard = serve(&bed, files.clone().tls(like).unwrap()).await;
        let me = ask(&admin, dashboard.address(), "/api/me", "", None).await;
        assert_eq!((me.status, &me.body()["certificate"]), (401, &name));
    }
    bed.hub.stop().await;
}
