//! What the tests stand on: members with something to serve, gateways, clients.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use limen_core::federated::ObjectId;
use limen_gateway::source::Hub;
use limen_gateway::{Gateway, Options};
use limen_hub::HubOptions;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::rig::{ApiServer, Rig, eventually, id_of};

/// Something that answers every request with its name, as a member's ingress controller would.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Upstream {
    pub(crate) async fn start(name: &str) -> Self {
        Self::answering("200 OK", name).await
    }

    /// With this status, whatever is asked.
    pub(crate) async fn answering(status: &'static str, name: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let name = name.to_owned();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(answer(stream, status, name.clone()));
            }
        });
        Self { address, task }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(mut stream: TcpStream, status: &'static str, name: String) {
    let mut read = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        while let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            read.drain(..end + 4);
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", name.len());
            if stream.write_all(format!("{head}{name}").as_bytes()).await.is_err() {
                return;
            }
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(count) => read.extend_from_slice(&chunk[..count]),
        }
    }
}

/// A federation that compiles, and a way into each of its members.
pub(crate) struct Bed {
    pub(crate) rig: Rig,
    pub(crate) upstreams: BTreeMap<String, Upstream>,
}

impl Bed {
    pub(crate) async fn start(names: &[&str]) -> Self {
        Self::under(names, None).await
    }

    pub(crate) async fn under(names: &[&str], domain: Option<&str>) -> Self {
        Self::with(names, |options| options.domain = domain.map(str::to_owned)).await
    }

    pub(crate) async fn with(names: &[&str], change: impl FnOnce(&mut HubOptions)) -> Self {
        let mut rig = Rig::start(names).await;
        let mut upstreams = BTreeMap::new();
        for name in names {
            upstreams.insert((*name).to_owned(), Upstream::start(name).await);
        }
        rig.stop_federation().await;
        rig.start_federation_with(change).await;
        Self { rig, upstreams }
    }

    pub(crate) async fn start_again(&mut self) {
        self.rig.stop_federation().await;
        self.rig.start_federation().await;
    }

    pub(crate) fn hub(&self) -> &ApiServer {
        &self.rig.hub
    }

    /// Submits a Service and an Ingress, and lets each named member serve them.
    pub(crate) async fn submit(&self, name: &str, host: Option<&str>, members: &[&str]) {
        self.hub().create(&service(name)).await;
        self.hub().create(&ingress(name, host)).await;
        for member in members {
            self.serve(member, name, 2).await;
        }
    }

    /// Lets a member serve a root: endpoints are ready, and the leaf has an address.
    pub(crate) async fn serve(&self, member: &str, name: &str, endpoints: usize) {
        let leaf = id_of(&ingress(name, None));
        self.rig.eventually(&leaf, &[member], |leaf| leaf.is_some()).await;
        let cluster = self.rig.member(member);
        cluster.api().apply(&id_of(&slice(name, 0)), &slice(name, endpoints)).await.unwrap();
        let port = self.upstreams[member].address.port();
        let status = json!({"status": {"loadBalancer": {"ingress": [
            {"ip": "127.0.0.1", "ports": [{"port": port, "protocol": "TCP"}]}]}}});
        cluster.api().merge(&leaf, "/status", &status).await.unwrap();
    }

    /// Waits until a compiled object fits.
    pub(crate) async fn compiled(&self, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let found =
            self.rig.eventually_on_hub(&global_id(name), |global| global.is_some_and(&fits)).await;
        found.unwrap()
    }

    /// A gateway that obeys the hub.
    pub(crate) async fn gateway(&self, change: impl FnOnce(&mut Options)) -> Gateway {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let mut options = Options {
            name: "edge-1".to_owned(),
            http: vec![any],
            drain: Duration::from_secs(5),
            ..Options::default()
        };
        change(&mut options);
        let source = Hub::for_gateway(self.hub().client.clone(), None);
        let gateway = Gateway::start(options, source).unwrap();
        gateway.ready().await;
        gateway
    }
}

/// Which upstreams answer some requests for a host, and how often.
pub(crate) async fn ask(gateway: &Gateway, host: &str, count: usize) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let mut stream = connect(gateway.http()[0]).await;
    for _ in 0..count {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        *found.entry(read_answer(&mut stream).await).or_default() += 1;
    }
    found
}

async fn connect(address: SocketAddr) -> TcpStream {
    for _ in 0..500 {
        if let Ok(stream) = TcpStream::connect(address).await {
            return stream;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody listens at {address}");
}

/// The body of an answer, or its status when that is not 200.
async fn read_answer(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&read).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
            if body.len() >= length {
                let status = head.split(' ').nth(1).unwrap_or_default();
                return if status == "200" { body.to_owned() } else { status.to_owned() };
            }
        }
        let count = stream.read(&mut chunk).await.unwrap();
        assert!(count > 0, "the connection was closed after {text:?}");
        read.extend_from_slice(&chunk[..count]);
    }
}

/// Waits until a gateway answers as it shall.
pub(crate) async fn eventually_asked(
    gateway: &Gateway,
    host: &str,
    count: usize,
    fits: impl Fn(&BTreeMap<String, usize>) -> bool,
) -> BTreeMap<String, usize> {
    let mut last = BTreeMap::new();
    eventually(&format!("what {host} is answered by"), async || {
        last = ask(gateway, host, count).await;
        (fits(&last), format!("{last:?}"))
    })
    .await;
    last
}

pub(crate) fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}})
}

pub(crate) fn ingress(name: &str, host: Option<&str>) -> Value {
    let mut rule = json!({"http": {"paths": [{"path": "/", "pathType": "Prefix",
        "backend": {"service": {"name": name, "port": {"number": 80}}}}]}});
    if let Some(host) = host {
        rule["host"] = json!(host);
    }
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"rules": [rule]}})
}

pub(crate) fn slice(service: &str, ready: usize) -> Value {
    let endpoint = |index: usize| json!({"addresses": [format!("10.1.0.{}", index + 1)], "conditions": {"ready": true}});
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": format!("{service}-1"), "namespace": "default",
            "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": (0..ready).map(endpoint).collect::<Vec<_>>()})
}

pub(crate) fn policy(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "limen.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

pub(crate) fn global_id(name: &str) -> ObjectId {
    own(("GlobalIngress", "globalingresses"), name)
}

pub(crate) fn policy_id(name: &str) -> ObjectId {
    own(("TrafficPolicy", "trafficpolicies"), name)
}

/// The addresses that a compiled object leads to, by cluster.
pub(crate) fn targets(global: &Value) -> Vec<(String, usize)> {
    let all = global["spec"]["backends"][0]["targets"].as_array();
    let target = |target: &Value| {
        let name = target["cluster"].as_str().unwrap_or_default().to_owned();
        (name, target["addresses"].as_array().map_or(0, Vec::len))
    };
    all.into_iter().flatten().map(target).collect()
}

pub(crate) fn cluster_id(name: &str) -> ObjectId {
    let kind = limen_api::kind(("limen.dev/v1alpha1", "Cluster", "clusters", false));
    ObjectId { kind, namespace: None, name: name.to_owned() }
}

/// An Edge, as a gateway writes it of itself.
pub(crate) async fn report(hub: &ApiServer, name: &str, spec: &Value, status: Value) {
    report_by(hub, name, spec, status, 0).await;
}

/// The same by a gateway whose clock is slow by so many seconds.
pub(crate) async fn report_by(
    hub: &ApiServer,
    name: &str,
    spec: &Value,
    mut status: Value,
    slow: u64,
) {
    let kind = limen_api::kind(("limen.dev/v1alpha1", "Edge", "edges", false));
    let id = ObjectId { kind, namespace: None, name: name.to_owned() };
    let object = json!({"apiVersion": "limen.dev/v1alpha1", "kind": "Edge",
        "metadata": {"name": name}, "spec": spec});
    hub.api().apply(&id, &object).await.unwrap();
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    status["observedAt"] = json!(seconds.unwrap().as_secs() - slow);
    hub.api().merge(&id, "/status", &json!({"status": status})).await.unwrap();
}

pub(crate) fn own((kind, plural): (&str, &str), name: &str) -> ObjectId {
    let kind = limen_api::kind(("limen.dev/v1alpha1", kind, plural, true));
    ObjectId { kind, namespace: Some("default".to_owned()), name: name.to_owned() }
}
