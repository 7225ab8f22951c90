//! `limen gateway` as the Ingress controller of a real Kubernetes API server, with pods in a network
//! of the test's own. Needs `--features e2e`, the binaries of `tools/kube-assets`, and root.

mod pod;
#[path = "../process/mod.rs"]
mod process;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use limen_testbed::{ControlPlane, Error, Network};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use pod::{PORT, Pod};
use process::{Process, free_port};

const PUBLISHED: &str = "203.0.113.7";

/// A cluster, and a gateway that is its Ingress controller.
struct Rig {
    cluster: ControlPlane,
    http: u16,
    https: u16,
    gateway: Process,
}

impl Rig {
    async fn start() -> Self {
        let cluster = ControlPlane::start().await.unwrap();
        let (http, https) = (free_port(), free_port());
        let gateway = Process::start(&[
            "gateway",
            "--member-kubeconfig",
            cluster.kubeconfig_path().to_str().unwrap(),
            "--ingress-class",
            "limen",
            "--publish-address",
            PUBLISHED,
            "--http",
            &format!("127.0.0.1:{http}"),
            "--https",
            &format!("127.0.0.1:{https}"),
            "--workers",
            "1",
        ]);
        Self { cluster, http, https, gateway }
    }

    async fn kubectl(&self, arguments: &[&str], input: &str) -> String {
        let mut kubectl = self.cluster.kubectl();
        kubectl.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = kubectl.spawn().unwrap();
        process.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
        let output = process.wait_with_output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    async fn apply(&self, object: Value) {
        self.kubectl(&["apply", "-f", "-"], &object.to_string()).await;
    }

    /// Asks over TLS, which works only if the gateway shows a certificate of this authority.
    fn get_tls(&self, authority: &Authority, host: &str) -> std::io::Result<Answer> {
        let mut roots = RootCertStore::empty();
        roots.add(authority.0.der().clone()).unwrap();
        let config =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(("127.0.0.1", self.https))?;
        ask(StreamOwned::new(connection, stream), host, "/")
    }
}

fn get(port: u16, host: &str, path: &str) -> Answer {
    let stream = TcpStream::connect(("127.0.0.1", port));
    stream.and_then(|stream| ask(stream, host, path)).unwrap_or_default()
}

/// A status, and a body.
type Answer = (u16, String);

/// Requests one after the other until it is finished.
struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<(usize, Vec<Answer>)>>,
}

impl Load {
    fn start(port: u16) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut asked, mut failed) = (0, Vec::new());
            while !stopped.load(Ordering::Relaxed) {
                let answer = get(port, "shop.test", "/");
                asked += 1;
                if answer.0 != 200 {
                    failed.push(answer);
                }
            }
            (asked, failed)
        });
        Self { stop, thread: Some(thread) }
    }

    /// How many there were, and the answers that were none.
    fn finish(mut self) -> (usize, Vec<Answer>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn ask(mut stream: impl Read + Write, host: &str, path: &str) -> std::io::Result<Answer> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut read = String::new();
    stream.read_to_string(&mut read)?;
    let (head, body) = read.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    Ok((status, body.to_owned()))
}

async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !check().await {
        assert!(Instant::now() < deadline, "it never came true that {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A TLS Secret for a name.
    fn secret(&self, name: &str) -> Value {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": { "name": "certificate", "namespace": "default" },
            "stringData": { "tls.crt": certificate.pem(), "tls.key": key.serialize_pem() },
        })
    }
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "ports": [{ "name": "http", "port": 80, "targetPort": PORT }] },
    })
}

/// The endpoints of a Service: addresses, and whether they are ready.
fn slice(service: &str, pods: &[(&Pod, bool)]) -> Value {
    let endpoint = |(pod, ready): &(&Pod, bool)| json!({ "addresses": [pod.address.to_string()], "conditions": { "ready": ready } });
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": format!("{service}-1"), "namespace": "default",
            "labels": { "kubernetes.io/service-name": service },
        },
        "ports": [{ "name": "http", "port": PORT }],
        "endpoints": pods.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

fn ingress(name: &str, class: &str, host: &str, paths: &[(&str, &str, &str)]) -> Value {
    let path = |(path, kind, service): &(&str, &str, &str)| {
        json!({
            "path": path, "pathType": kind,
            "backend": { "service": { "name": service, "port": { "name": "http" } } },
        })
    };
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "ingressClassName": class,
            "tls": [{ "hosts": [host], "secretName": "certificate" }],
            "rules": [{ "host": host,
                        "http": { "paths": paths.iter().map(path).collect::<Vec<_>>() } }],
        },
    })
}

async fn published(rig: &Rig, ingress: &str) -> String {
    let address = "jsonpath={.status.loadBalancer.ingress[*].ip}";
    rig.kubectl(&["get", "ingress", ingress, "-o", address], "").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_is_the_ingress_controller_of_a_real_cluster() {
    let network = match Network::new() {
        Ok(network) => network,
        Err(error @ Error::MakeNetwork { .. }) => {
            eprintln!("SKIPPED: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let (a, b) = (Pod::start(&network, 2, "a"), Pod::start(&network, 3, "b"));
    let api = Pod::start(&network, 4, "api");
    let rig = Rig::start().await;
    let (authority, next) = (Authority::new(), Authority::new());

    // Routes lead to ready pods, and only those of this class are obeyed.
    rig.apply(authority.secret("shop.test")).await;
    rig.apply(service("web")).await;
    rig.apply(service("api")).await;
    rig.apply(slice("web", &[(&a, true), (&b, false)])).await;
    rig.apply(slice("api", &[(&api, true)])).await;
    let paths = [("/", "Prefix", "web"), ("/api", "Prefix", "api"), ("/only", "Exact", "api")];
    rig.apply(ingress("shop", "limen", "shop.test", &paths)).await;
    rig.apply(ingress("other", "other", "other.test", &paths)).await;
    let answers = |host: &str, path: &str| get(rig.http, host, path);
    eventually("the web answers", async || answers("shop.test", "/").1 == "a").await;
    eventually("the api answers", async || answers("shop.test", "/api/v1").1 == "api").await;
    for (path, pod) in [("/", "a"), ("/apiary", "a"), ("/only", "api"), ("/only/", "a")] {
        assert_eq!(answers("shop.test", path), (200, pod.to_owned()), "{path}");
    }
    assert_eq!(answers("other.test", "/").0, 404);
    eventually("the status says where to go", async || published(&rig, "shop").await == PUBLISHED)
        .await;
    assert_eq!(published(&rig, "other").await, "", "it is not ours to write");

    // The Secret's certificate is shown, and its successor as soon as there is one.
    eventually("TLS is served", async || {
        rig.get_tls(&authority, "shop.test").is_ok_and(|answer| answer.1 == "a")
    })
    .await;
    assert!(rig.get_tls(&next, "shop.test").is_err());
    rig.apply(next.secret("shop.test")).await;
    eventually("the next certificate is shown", async || {
        rig.get_tls(&next, "shop.test").is_ok_and(|answer| answer.1 == "a")
    })
    .await;

    // A pod is replaced by another under load: nobody notices.
    let load = Load::start(rig.http);
    rig.apply(slice("web", &[(&a, true), (&b, true)])).await;
    eventually("both answer", async || answers("shop.test", "/").1 == "b").await;
    rig.apply(slice("web", &[(&b, true)])).await;
    let only_b = || (0..8).all(|_| answers("shop.test", "/").1 == "b");
    eventually("only the new one answers", async || only_b()).await;
    drop(a);
    assert!(only_b());
    let (asked, failed) = load.finish();
    assert!(asked > 0 && failed.is_empty(), "of {asked} requests failed {failed:?}");

    // No ready pod is an error, not an answer from somewhere else.
    rig.apply(slice("web", &[])).await;
    eventually("there is nobody to ask", async || answers("shop.test", "/").0 == 503).await;
    rig.apply(slice("web", &[(&b, true)])).await;
    eventually("there is somebody again", async || answers("shop.test", "/").1 == "b").await;

    // Without its Ingress a host is nobody's.
    rig.apply(ingress("stays", "limen", "stays.test", &paths)).await;
    eventually("the second host is served", async || answers("stays.test", "/").1 == "b").await;
    rig.kubectl(&["delete", "ingress", "shop"], "").await;
    eventually("the host is gone", async || answers("shop.test", "/").0 == 404).await;
    assert_eq!(answers("stays.test", "/").1, "b");

    // The API server goes away: what it said last stays in force.
    let Rig { cluster, http, gateway, .. } = rig;
    drop(cluster);
    for _ in 0..10 {
        assert_eq!(get(http, "stays.test", "/"), (200, "b".to_owned()));
    }
    gateway.terminate();
}
