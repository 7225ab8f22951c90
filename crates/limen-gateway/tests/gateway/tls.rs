//! TLS with clients and with targets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use limen_core::global::{
    ClientRules, Global, Protocol, Timeouts, TlsHosts, TrafficRules, UpstreamTls,
};
use limen_gateway::{Objects, SecretData};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::bed::{Bed, Reply, Upstream, eventually, global, objects, options, target};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> Vec<u8> {
        self.0.pem().into_bytes()
    }

    /// Certificate and key for names, as PEM.
    fn issue(&self, names: &[&str]) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn secret(&self, names: &[&str]) -> SecretData {
        let (certificate, key) = self.issue(names);
        SecretData(
            [
                ("tls.crt".to_owned(), certificate.into_bytes()),
                ("tls.key".to_owned(), key.into_bytes()),
            ]
            .into(),
        )
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&self.pem()).unwrap()).unwrap();
        roots
    }

    fn client(&self) -> ClientConfig {
        provider();
        ClientConfig::builder().with_root_certificates(self.roots()).with_no_client_auth()
    }
}

fn provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn add_secret(objects: &mut Objects, name: &str, secret: SecretData) {
    objects.secrets.insert(("test".into(), name.into()), Arc::new(secret));
}

async fn ask(
    config: &Arc<ClientConfig>,
    address: SocketAddr,
    host: &str,
) -> std::io::Result<Reply> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let mut stream = TlsConnector::from(config.clone()).connect(name, stream).await?;
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut read = Vec::new();
    stream.read_to_end(&mut read).await?;
    Ok(Reply::parse(&read))
}

fn with_tls(mut global: Global, hosts: &[&str], secret: &str) -> Global {
    global.tls.push(TlsHosts {
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        secret_name: Some(secret.to_owned()),
    });
    global
}

#[tokio::test]
async fn names_get_their_certificates_and_new_ones_without_a_break() {
    let (authority, next) = (Authority::new(), Authority::new());
    let upstream = Upstream::named("up").await;
    let exact = with_tls(global(vec![target("c", &[upstream.address])]), &["a.test"], "exact");
    let mut wild = with_tls(global(vec![target("c", &[upstream.address])]), &["*.w.test"], "wild");
    wild.rules[0].host = "*.w.test".into();
    let mut routes = objects([exact, wild]);
    add_secret(&mut routes, "exact", authority.secret(&["a.test"]));
    add_secret(&mut routes, "wild", authority.secret(&["*.w.test"]));
    let bed = Bed::with(options(), routes.clone()).await;
    let https = bed.gateway.https()[0];
    let client = Arc::new(authority.client());
    for host in ["a.test", "b.w.test"] {
        let reply = ask(&client, https, host).await.unwrap();
        assert_eq!((reply.status, reply.body.as_str()), (200, "up"), "{host}");
    }
    let error = ask(&client, https, "a.b.w.test").await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "the default is nobody's: {error}");

    // A connection from before the change goes on after it.
    let stream = TcpStream::connect(https).await.unwrap();
    let name = ServerName::try_from("a.test").unwrap();
    let mut open = TlsConnector::from(client.clone()).connect(name, stream).await.unwrap();
    add_secret(&mut routes, "exact", next.secret(&["a.test"]));
    bed.objects.send_replace(routes);
    let new = Arc::new(next.client());
    eventually("the new one is shown", async || ask(&new, https, "a.test").await.is_ok()).await;
    open.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut read = Vec::new();
    open.read_to_end(&mut read).await.unwrap();
    assert_eq!(Reply::parse(&read).status, 200);
}

#[tokio::test]
async fn plain_requests_are_sent_to_https_and_told_to_stay() {
    let authority = Authority::new();
    let upstream = Upstream::named("up").await;
    let mut root = with_tls(global(vec![target("c", &[upstream.address])]), &["a.test"], "cert");
    root.client = ClientRules { hsts_seconds: Some(600), ..ClientRules::default() };
    let mut routes = objects([root]);
    add_secret(&mut routes, "cert", authority.secret(&["a.test"]));
    let bed = Bed::with(options(), routes).await;
    let reply = bed.get("/x?y").await;
    assert_eq!((reply.status, reply.header("location")), (308, Some("https://a.test/x?y")));
    let (http, https) = (bed.http().port(), bed.gateway.https()[0]);
    let named = format!("GET / HTTP/1.1\r\nHost: a.test:{http}\r\nConnection: close\r\n\r\n");
    let location = format!("https://a.test:{}/", https.port());
    assert_eq!(bed.send(&named).await.header("location"), Some(location.as_str()));
    let reply = ask(&Arc::new(authority.client()), https, "a.test").await.unwrap();
    assert_eq!(reply.header("strict-transport-security"), Some("max-age=600"));
}

#[tokio::test]
async fn clients_without_the_right_certificate_are_refused() {
    let (authority, people) = (Authority::new(), Authority::new());
    let upstream = Upstream::named("up").await;
    let mut root = with_tls(global(vec![target("c", &[upstream.address])]), &[], "cert");
    root.client.client_ca_secret = Some("people".into());
    let mut open = with_tls(global(vec![target("c", &[upstream.address])]), &[], "open");
    open.rules[0].host = "open.test".into();
    let mut routes = objects([root, open]);
    add_secret(&mut routes, "cert", authority.secret(&["a.test"]));
    add_secret(&mut routes, "open", authority.secret(&["open.test"]));
    add_secret(&mut routes, "people", SecretData([("ca.crt".to_owned(), people.pem())].into()));
    let bed = Bed::with(options(), routes).await;
    let https = bed.gateway.https()[0];

    let stranger = Arc::new(authority.client());
    assert!(ask(&stranger, https, "a.test").await.map_or(true, |reply| reply.status != 200));
    let (certificate, key) = people.issue(&["alice"]);
    let known = ClientConfig::builder()
        .with_root_certificates(authority.roots())
        .with_client_auth_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    assert_eq!(ask(&Arc::new(known), https, "a.test").await.unwrap().body, "up");

    // Nor does it help to connect for a host that asks for nothing.
    let stream = TcpStream::connect(https).await.unwrap();
    let name = ServerName::try_from("open.test").unwrap();
    let mut stream = TlsConnector::from(stranger).connect(name, stream).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut read = Vec::new();
    stream.read_to_end(&mut read).await.unwrap();
    assert_eq!(Reply::parse(&read).status, 421);
}

#[tokio::test]
async fn where_no_certificate_can_be_shown_nobody_gets_in() {
    let (authority, people) = (Authority::new(), Authority::new());
    let upstream = Upstream::named("up").await;
    let mut root = with_tls(global(vec![target("c", &[upstream.address])]), &[], "cert");
    root.client.client_ca_secret = Some("people".into());
    let mut routes = objects([root]);
    add_secret(&mut routes, "cert", authority.secret(&["a.test"]));
    add_secret(&mut routes, "people", SecretData([("ca.crt".to_owned(), people.pem())].into()));
    let mut options = options();
    options.https = Vec::new();
    let bed = Bed::with(options, routes).await;
    assert_eq!(bed.get("/").await.status, 421);
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn targets_are_verified_before_they_get_anything() {
    provider();
    let (authority, other) = (Authority::new(), Authority::new());
    let (certificate, key) = authority.issue(&["a.test"]);
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let upstream = Upstream::raw(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let _ = stream.read(&mut [0; 4096]).await;
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret";
            let _ = stream.write_all(answer).await;
        }
    })
    .await;
    let route = |rules: UpstreamTls| {
        let mut target = target("c", &[upstream.address]);
        target.protocol = Protocol::Https;
        let mut root = global(vec![target]);
        root.traffic = TrafficRules { upstream_tls: Some(rules), ..TrafficRules::default() };
        root
    };
    let named = |name: &str| UpstreamTls { ca_secret: Some(name.into()), ..UpstreamTls::default() };
    let skip = UpstreamTls { insecure_skip_verify: true, ..UpstreamTls::default() };
    let wrong_name = UpstreamTls { server_name: Some("b.test".into()), ..named("right") };
    for (rules, status) in [
        (named("right"), 200),
        (named("wrong"), 502),
        (named("missing"), 502),
        (wrong_name, 502),
        (skip, 200),
    ] {
        let mut routes = objects([route(rules.clone())]);
        for (name, authority) in [("right", &authority), ("wrong", &other)] {
            let secret = SecretData([("ca.crt".to_owned(), authority.pem())].into());
            add_secret(&mut routes, name, secret);
        }
        let bed = Bed::with(options(), routes).await;
        assert_eq!(bed.get("/").await.status, status, "{rules:?}");
    }
}

/// A gateway that serves `a.test` over TLS.
async fn served(authority: &Authority, options: limen_gateway::Options, root: Global) -> Bed {
    let mut routes = objects([with_tls(root, &["a.test"], "cert")]);
    add_secret(&mut routes, "cert", authority.secret(&["a.test"]));
    Bed::with(options, routes).await
}

#[tokio::test]
async fn sessions_are_resumed_in_both_versions_of_tls() {
    let authority = Authority::new();
    let upstream = Upstream::named("up").await;
    let root = global(vec![target("c", &[upstream.address])]);
    let bed = served(&authority, options(), root).await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        provider();
        let config = ClientConfig::builder_with_protocol_versions(&[version])
            .with_root_certificates(authority.roots())
            .with_no_client_auth();
        let config = Arc::new(config);
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let stream = TcpStream::connect(bed.gateway.https()[0]).await.unwrap();
            let name = ServerName::try_from("a.test").unwrap();
            let connector = TlsConnector::from(config.clone());
            let mut stream = connector.connect(name, stream).await.unwrap();
            let request = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
            stream.write_all(request).await.unwrap();
            let mut read = Vec::new();
            stream.read_to_end(&mut read).await.unwrap();
            assert_eq!(Reply::parse(&read).body, "up");
            kinds.push(stream.get_ref().1.handshake_kind().unwrap());
        }
        let expected = [rustls::HandshakeKind::Full, rustls::HandshakeKind::Resumed];
        assert_eq!(kinds, expected, "{version:?}");
    }
}

#[tokio::test]
async fn http2_is_spoken_where_it_is_asked_for() {
    let authority = Authority::new();
    let upstream = Upstream::named("up").await;
    let root = global(vec![target("c", &[upstream.address])]);
    let bed = served(&authority, options(), root).await;
    let mut config = authority.client();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(bed.gateway.https()[0]).await.unwrap();
    let name = ServerName::try_from("a.test").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) = hyper::client::conn::http2::handshake(
        hyper_util::rt::TokioExecutor::new(),
        hyper_util::rt::TokioIo::new(stream),
    )
    .await
    .unwrap();
    tokio::spawn(connection);
    let empty = http_body_util::Empty::<bytes::Bytes>::new();
    let request = http::Request::get("https://a.test/").body(empty).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
}

#[tokio::test]
async fn connections_for_http2_on_which_nothing_comes_are_closed() {
    let authority = Authority::new();
    let upstream = Upstream::named("up").await;
    let root = global(vec![target("c", &[upstream.address])]);
    let mut options = options();
    options.limits.idle = Duration::from_millis(400);
    let bed = served(&authority, options, root).await;
    let mut config = authority.client();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(bed.gateway.https()[0]).await.unwrap();
    let name = ServerName::try_from("a.test").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let mut read = Vec::new();
    let ended = stream.read_to_end(&mut read);
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
    assert!(ended.is_ok(), "it is waited for, for ever");
}

#[tokio::test]
async fn clients_that_take_nothing_are_given_up() {
    let authority = Authority::new();
    let (ended, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let endless = Upstream::raw(move |mut stream| {
        let ended = ended.clone();
        async move {
            let _ = stream.read(&mut [0; 4096]).await;
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n";
            let _ = stream.write_all(head.as_bytes()).await;
            while stream.write_all(&[b'x'; 65536]).await.is_ok() {}
            let _ = ended.send(());
        }
    })
    .await;
    let mut root = global(vec![target("c", &[endless.address])]);
    root.client.redirect_to_https = Some(false);
    let patience = Duration::from_millis(300);
    let timeouts = Timeouts { idle_milliseconds: 300, ..Timeouts::default() };
    root.traffic = TrafficRules { timeouts: Some(timeouts), ..TrafficRules::default() };
    let mut options = options();
    options.limits.idle = patience;
    let bed = served(&authority, options, root).await;
    let client = Arc::new(authority.client());
    // The second of each pair is served by the general way.
    for unusual in ["", "TE: trailers\r\n"] {
        let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{unusual}\r\n");
        let mut plain = TcpStream::connect(bed.http()).await.unwrap();
        plain.write_all(request.as_bytes()).await.unwrap();
        let stream = TcpStream::connect(bed.gateway.https()[0]).await.unwrap();
        let name = ServerName::try_from("a.test").unwrap();
        let connector = TlsConnector::from(client.clone());
        let mut encrypted = connector.connect(name, stream).await.unwrap();
        encrypted.write_all(request.as_bytes()).await.unwrap();
        encrypted.flush().await.unwrap();
        for _ in 0..2 {
            let given_up = tokio::time::timeout(Duration::from_secs(30), ends.recv()).await;
            assert!(given_up.is_ok(), "a client that takes nothing holds a target: {unusual:?}");
        }
        drop((plain, encrypted));
    }
}

#[tokio::test]
async fn a_client_hears_why_its_handshake_failed() {
    let bed = Bed::with(options(), objects([])).await;
    let mut client = Authority::new().client();
    client.alpn_protocols = vec![b"nonsense".to_vec()];
    let error = ask(&Arc::new(client), bed.gateway.https()[0], "a.test").await.unwrap_err();
    assert!(error.to_string().contains("NoApplicationProtocol"), "{error}");
    let mut stream = TcpStream::connect(bed.gateway.https()[0]).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut read = Vec::new();
    stream.read_to_end(&mut read).await.unwrap();
    assert_eq!(read.first(), Some(&21), "an alert, and nothing else: {read:?}");
}
