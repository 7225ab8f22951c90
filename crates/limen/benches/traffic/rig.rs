//! A hub that compiles, members full of leaves, and a gateway.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use kube::Client;
use limen_api::dialect::Home;
use limen_apiserver::{MASTERS, Server, ServerOptions};
use limen_core::federated::ObjectId;
use limen_core::leaf::ROOT_LABEL;
use limen_core::locality::{Coordinates, Locality};
use limen_gateway::{Gateway, Options, source};
use limen_hub::{Hub, HubOptions, JoinOptions};
use limen_store::{RedbOptions, RedbStore};
use limen_sync::ObjectApi;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::settle::settle;
use crate::upstream;

/// Writes at the same time while things are set up.
const WRITERS: usize = 64;
/// Members that are filled at the same time.
const FILLED_AT_ONCE: usize = 4;
/// Roots that are looked at to see whether all are compiled.
const SAMPLES: usize = 50;
const PATIENCE: Duration = Duration::from_secs(1800);

/// How much there is.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) roots: usize,
    pub(crate) members: usize,
}

/// A hub that compiles, members full of leaves, and a gateway.
pub(crate) struct Rig {
    hub: ObjectApi,
    /// The member that is nearest to the gateway.
    nearest: ObjectApi,
    gateway: Gateway,
    connection: Mutex<TcpStream>,
    traffic: Hub,
    servers: Vec<Server>,
    _folder: TempDir,
}

impl Rig {
    pub(crate) async fn start(size: Size) -> Result<Self> {
        ensure!(size.roots >= 100 && size.members >= 2, "take 100 roots and 2 members or more");
        let folder = tempfile::tempdir()?;
        let (server, client) = serve(&folder.path().join("hub")).await?;
        let hub = ObjectApi::new(client.clone());
        limen_hub::set_up(&hub).await?;
        let start = Instant::now();
        let roots = create_roots(&hub, size.roots).await?;
        let mut servers = vec![server];
        let mut members = Vec::new();
        for number in 0..size.members {
            let path = folder.path().join(format!("member-{number}"));
            let (server, member) = serve(&path).await?;
            join(&client, &member, &server, &path, number).await?;
            let port = upstream::serve(number).await?.port();
            servers.push(server);
            members.push((ObjectApi::new(member), port));
        }
        let filled = members.iter().map(|(member, port)| fill(member, *port, &roots));
        let mut filled = futures::stream::iter(filled).buffer_unordered(FILLED_AT_ONCE);
        while let Some(filled) = filled.next().await {
            filled?;
        }
        drop(filled);
        println!("Set up in {:.0} s.", start.elapsed().as_secs_f64());

        let start = Instant::now();
        let traffic = Hub::start(HubOptions::new(hub.clone(), Home::Existing)).await?;
        for sample in 0..SAMPLES {
            let root = sample * (size.roots - 1) / (SAMPLES - 1);
            until(async || Ok(ready_members(&hub, root).await? == size.members)).await?;
        }
        println!("Compiled and written in {:.1} s.", start.elapsed().as_secs_f64());

        let options = Options {
            name: "bench".to_owned(),
            http: vec![([127, 0, 0, 1], 0).into()],
            locality: Locality { coordinates: Some(place(0)), ..Locality::default() },
            ..Options::default()
        };
        let gateway = Gateway::start(options, source::Hub::for_gateway(client, None))?;
        gateway.ready().await;
        let start = Instant::now();
        settle(&hub).await?;
        println!("All else was written after {:.1} s more.", start.elapsed().as_secs_f64());
        // Not before: a connection that nobody uses for so long is closed.
        let connection = loop {
            match TcpStream::connect(gateway.http()[0]).await {
                Ok(stream) => break stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        connection.set_nodelay(true)?;
        let nearest = members.swap_remove(0).0;
        let connection = Mutex::new(connection);
        Ok(Self { hub, nearest, gateway, connection, traffic, servers, _folder: folder })
    }

    /// Makes the endpoint of a root in the nearest member ready, or not.
    pub(crate) async fn ready(&self, root: usize, ready: bool) -> Result<()> {
        let patch = json!({"endpoints": [endpoint(ready)]});
        self.nearest.merge(&id("EndpointSlice", &name(root)), "", &patch).await?;
        Ok(())
    }

    /// Waits until the hub has compiled that a root has so many endpoints in the nearest member.
    pub(crate) async fn until_compiled(&self, root: usize, ready: u64) -> Result<()> {
        let id = id("GlobalIngress", &name(root));
        until(async || {
            let found = self.hub.get(&id).await?.unwrap_or_default();
            Ok(found["spec"]["backends"][0]["targets"][0]["readyEndpoints"] == ready)
        })
        .await
    }

    /// Waits until a request for a root is answered by the member with that number.
    pub(crate) async fn until_answered(&self, root: usize, member: usize) -> Result<()> {
        let host = host(root);
        let mut connection = self.connection.lock().await;
        until(async || Ok(upstream::ask(&mut connection, &host).await? == Some(member))).await
    }

    pub(crate) async fn stop(self) {
        self.gateway.stop().await;
        self.traffic.stop().await;
        for server in self.servers {
            server.stop().await;
        }
    }
}

async fn until(mut holds: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !holds().await? {
        ensure!(start.elapsed() < PATIENCE, "nothing has happened for {} s", PATIENCE.as_secs());
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    Ok(())
}

/// Members with a ready endpoint of a root, as it is compiled.
async fn ready_members(hub: &ObjectApi, root: usize) -> Result<usize> {
    let found = hub.get(&id("GlobalIngress", &name(root))).await?.unwrap_or_default();
    let targets = found["spec"]["backends"][0]["targets"].as_array().into_iter().flatten();
    Ok(targets.filter(|target| target["readyEndpoints"] == 1).count())
}

async fn serve(folder: &Path) -> Result<(Server, Client)> {
    std::fs::create_dir_all(folder)?;
    let store = RedbStore::open(folder.join("store.redb"), &RedbOptions::default())?;
    // Endpoints are on loopback here, which other servers refuse.
    let server = Server::start_on_loopback(ServerOptions {
        data_dir: folder.to_owned(),
        listen: ([127, 0, 0, 1], 0).into(),
        store: Arc::new(store),
        extra_names: Vec::new(),
        token_file: None,
        audit_log: None,
    })
    .await?;
    let client = Client::new(server.in_process("bench", &[MASTERS]), "default");
    Ok((server, client))
}

/// Each member is a degree further away from the gateway than the one before.
fn place(number: usize) -> Coordinates {
    Coordinates { latitude: 0.0, longitude: number as f64 }
}

async fn join(
    hub: &Client,
    member: &Client,
    server: &Server,
    folder: &Path,
    number: usize,
) -> Result<()> {
    let options = JoinOptions {
        name: format!("member-{number:02}"),
        endpoint: server.url().to_owned(),
        ca: Some(std::fs::read(folder.join("pki/ca.crt"))?),
        coordinates: Some(place(number)),
        ..JoinOptions::default()
    };
    limen_hub::join(hub, member, &options).await?;
    // Pods are reached straight, so that a leaf needs no address in its status.
    let kind = limen_api::kind(("limen.dev/v1alpha1", "Cluster", "clusters", false));
    let id = ObjectId { kind, namespace: None, name: options.name };
    let reachable = json!({"spec": {"podNetwork": "Reachable"}});
    ObjectApi::new(hub.clone()).merge(&id, "", &reachable).await?;
    Ok(())
}

/// Submits every root; the ids that they got.
async fn create_roots(hub: &ObjectApi, count: usize) -> Result<Vec<String>> {
    let created = futures::stream::iter(0..count).map(|root| async move {
        let object = ingress(root);
        let created = hub.create(&id("Ingress", "").kind, &object).await?;
        created["metadata"]["uid"].as_str().map(str::to_owned).context("a root has no uid")
    });
    let mut created = created.buffered(WRITERS);
    let mut uids = Vec::with_capacity(count);
    while let Some(uid) = created.next().await {
        uids.push(uid?);
    }
    Ok(uids)
}

/// Writes what a member holds of every root.
async fn fill(member: &ObjectApi, port: u16, roots: &[String]) -> Result<()> {
    let objects = roots.iter().enumerate().flat_map(|(root, uid)| {
        let mut leaf = ingress(root);
        leaf["metadata"]["labels"] = json!({ROOT_LABEL: uid});
        [service(root), slice(root, port), leaf]
    });
    let written = objects.map(|object| async move {
        let kind = id(object["kind"].as_str().unwrap_or_default(), "").kind;
        member.create(&kind, &object).await
    });
    let mut written = futures::stream::iter(written).buffer_unordered(WRITERS);
    while let Some(written) = written.next().await {
        written?;
    }
    Ok(())
}

fn name(root: usize) -> String {
    format!("web-{root}")
}

fn host(root: usize) -> String {
    format!("web-{root}.bench.test")
}

fn ingress(root: usize) -> Value {
    let paths = json!([{"path": "/", "pathType": "Prefix",
        "backend": {"service": {"name": name(root), "port": {"number": 80}}}}]);
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": name(root), "namespace": "default"},
        "spec": {"rules": [{"host": host(root), "http": {"paths": paths}}]}})
}

fn service(root: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name(root), "namespace": "default"},
        "spec": {"selector": {"app": name(root)},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}})
}

fn slice(root: usize, port: u16) -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name(root), "namespace": "default",
            "labels": {"kubernetes.io/service-name": name(root)}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
        "endpoints": [endpoint(true)]})
}

fn endpoint(ready: bool) -> Value {
    json!({"addresses": ["127.0.0.1"], "conditions": {"ready": ready}})
}

fn id(kind: &str, name: &str) -> ObjectId {
    let (version, plural) = match kind {
        "Service" => ("v1", "services"),
        "EndpointSlice" => ("discovery.k8s.io/v1", "endpointslices"),
        "Ingress" => ("networking.k8s.io/v1", "ingresses"),
        _ => ("limen.dev/v1alpha1", "globalingresses"),
    };
    let kind = limen_api::kind((version, kind, plural, true));
    ObjectId { kind, namespace: Some("default".to_owned()), name: name.to_owned() }
}
