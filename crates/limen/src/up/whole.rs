//! A whole federation: hub, members, gateway and control, started in order and stopped in order.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::future::try_join_all;
use http::Method;
use kube::Client;
use limen_api::dialect::Home;
use limen_apiserver::{MASTERS, Server, ServerOptions};
use limen_gateway::{Gateway, Options, source};
use limen_hub::{Election, Hub, HubOptions, JoinOptions};
use limen_playground::{Admin, Member, MemberOptions, Place, Topology};
use limen_store::{RedbOptions, RedbStore};
use limen_sync::ObjectApi;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::dashboard::{Page, Token};
use super::dns;
use super::http_client::ask;
use super::kubeconfig::{HUB, together, write_private};
use super::ports::Ports;
use super::sample;
use crate::hub::identity;

/// How long the sample may take until it answers everywhere.
const PATIENCE: Duration = Duration::from_secs(60);
/// Members are few and near: they can be asked often how they are.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// What to start.
pub(crate) struct WholeOptions<S> {
    pub(crate) topology: Topology,
    pub(crate) ports: Ports,
    pub(crate) folder: PathBuf,
    pub(crate) sample: bool,
    /// Hears of each step.
    pub(crate) say: S,
}

/// A whole federation.
pub(crate) struct Whole {
    folder: PathBuf,
    server: Server,
    hub: Hub,
    /// Renews the leader lease.
    lease: JoinSet<Infallible>,
    members: Vec<Arc<Member>>,
    gateway: Gateway,
    dns: limen_dns::Server,
    admin: Admin,
    page: Page,
    addresses: Value,
    sample: bool,
}

fn here(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

impl Whole {
    /// Starts everything, and waits until the sample answers.
    pub(crate) async fn start<S: Fn(&str)>(options: WholeOptions<S>) -> Result<Self> {
        let WholeOptions { topology, ports, folder, sample, say } = options;
        let start = Instant::now();
        let places = &topology.clusters;
        // Clients come in where the first cluster is.
        let edge = places.first().context("there is no cluster")?;
        let members = places.iter().enumerate().map(|(index, place)| {
            Member::start(MemberOptions {
                place: place.clone(),
                folder: folder.join("clusters").join(&place.name),
                number: u8::try_from(index).unwrap_or(u8::MAX),
                api: here(ports.api(index)),
                ingress_port: ports.ingress(index),
                one_way: edge.one_way_to(place),
            })
        });
        let members = async { Ok(try_join_all(members).await?) };
        let hub_folder = folder.join("hub");
        let token = Token::new();
        let hub = start_hub(&hub_folder, ports.hub(), &token);
        let (hub, members) = tokio::try_join!(hub, members)?;
        let (server, client) = hub;
        say(&format!("hub and clusters run ({} ms)", start.elapsed().as_millis()));

        let members: Vec<Arc<Member>> = members.into_iter().map(Arc::new).collect();
        let api = ObjectApi::new(client.clone());
        limen_hub::set_up(&api).await?;
        try_join_all(members.iter().map(|member| join(&client, member))).await?;
        // The hub's store is locked by this process.
        let mut election = Election::new(client.clone(), identity());
        election.seize().await;
        let options = HubOptions {
            probe_every: PROBE_EVERY,
            fence: election.fence(),
            epoch: election.epoch(),
            instance: election.identity().to_owned(),
            ..HubOptions::new(api.clone(), Home::Embedded)
        };
        let hub = Hub::start(options).await?;
        let mut lease = JoinSet::new();
        lease.spawn(async move { election.keep_seized().await });
        say(&format!("clusters have joined ({} ms)", start.elapsed().as_millis()));

        let gateway = start_gateway(&client, &folder, edge, &ports)?;
        let dns = dns::start(&client, &folder, edge, &topology, here(ports.dns()))?;
        let addresses = addresses(&server, &gateway, &dns, &members, &folder);
        let admin = Admin::start(here(ports.admin()), members.clone(), |admin| {
            let mut addresses = addresses.clone();
            addresses["admin"] = json!(admin.to_string());
            addresses
        })
        .await?;
        let mut addresses = addresses;
        addresses["admin"] = json!(admin.address().to_string());
        let listen = here(ports.dashboard());
        let page = Page::start(listen, token, server.kubeconfig(), members.clone()).await?;
        addresses["dashboard"] = json!(page.link());
        let whole = Self {
            folder,
            server,
            hub,
            lease,
            members,
            gateway,
            dns,
            admin,
            page,
            addresses,
            sample,
        };
        if sample {
            for object in sample::objects() {
                submit(&api, &object).await?;
            }
            whole.wait_for_sample(&api).await?;
            whole.dns.ready().await;
            say(&format!("the sample answers ({} ms)", start.elapsed().as_millis()));
        }
        Ok(whole)
    }

    pub(crate) fn hub_url(&self) -> &str {
        self.server.url()
    }

    pub(crate) fn http(&self) -> SocketAddr {
        self.gateway.http()[0]
    }

    pub(crate) fn https(&self) -> SocketAddr {
        self.gateway.https()[0]
    }

    pub(crate) fn dns(&self) -> SocketAddr {
        self.dns.listen()[0]
    }

    pub(crate) fn admin(&self) -> SocketAddr {
        self.admin.address()
    }

    pub(crate) fn dashboard(&self) -> String {
        self.page.link()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    pub(crate) fn has_sample(&self) -> bool {
        self.sample
    }

    pub(crate) fn members(&self) -> usize {
        self.members.len()
    }

    /// The cluster that is nearest to the gateway.
    pub(crate) fn nearest(&self) -> &Place {
        self.members[0].place()
    }

    /// Another one, if there is one.
    pub(crate) fn second(&self) -> Option<&Place> {
        self.members.get(1).map(|member| member.place())
    }

    /// Writes the kubeconfig with all contexts, and where everything is.
    pub(crate) fn write_files(&self) -> Result<()> {
        let mut parts = vec![(HUB.to_vec(), self.server.kubeconfig())];
        for member in &self.members {
            parts.push((vec![member.place().name.as_str()], member.kubeconfig().as_path()));
        }
        write_private(&self.kubeconfig(), &together(&parts)?)?;
        let text = serde_json::to_string_pretty(&self.addresses)?;
        write_private(&self.folder.join("up.json"), &format!("{text}\n"))
    }

    /// Ends everything, from the outside in.
    pub(crate) async fn stop(self) {
        drop(self.page);
        drop(self.admin);
        drop(self.dns);
        self.gateway.stop().await;
        self.hub.stop().await;
        drop(self.lease);
        futures::future::join_all(self.members.iter().map(|member| member.stop())).await;
        self.server.stop().await;
    }

    /// Waits until every pod of the sample is ready and the gateway answers from the nearest.
    async fn wait_for_sample(&self, api: &ObjectApi) -> Result<()> {
        let id = limen_core::federated::ObjectId {
            kind: limen_api::kind(("apps/v1", "Deployment", "deployments", true)),
            namespace: Some("default".to_owned()),
            name: sample::NAME.to_owned(),
        };
        let wanted = (sample::PODS * self.members.len()) as u64;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = api.get(&id).await?.unwrap_or_default();
            let ready = found["status"]["readyReplicas"].as_u64().unwrap_or(0);
            let answer = match ask(self.http(), Method::GET, "/", None).await {
                Ok((_, answer)) => answer["cluster"].as_str().unwrap_or("nobody").to_owned(),
                Err(error) => error.to_string(),
            };
            if ready >= wanted && answer == self.nearest().name {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(
                    "the sample is not ready after {} s: {ready} of {wanted} pods of Deployment {} are, and the gateway answers: {answer}",
                    PATIENCE.as_secs(),
                    sample::NAME
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn start_hub(folder: &Path, port: u16, token: &Token) -> Result<(Server, Client)> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let options = RedbOptions { cache_bytes: 8 << 20, window_bytes: 4 << 20, delta_bytes: 1 << 20 };
    let store = RedbStore::open(folder.join("store.redb"), &options)?;
    let tokens = folder.join("tokens.csv");
    write_private(&tokens, &token.line())?;
    let server = Server::start(ServerOptions {
        data_dir: folder.to_owned(),
        listen: here(port),
        store: Arc::new(store),
        extra_names: Vec::new(),
        token_file: Some(tokens),
        audit_log: None,
    })
    .await?;
    let client = Client::new(server.in_process("limen:hub", &[MASTERS]), "default");
    Ok((server, client))
}

async fn join(hub: &Client, member: &Member) -> Result<()> {
    let place = member.place();
    let ca = std::fs::read(member.authority())
        .with_context(|| format!("cannot read {}", member.authority().display()))?;
    let provider = place.name.split('-').next().unwrap_or_default().to_owned();
    let options = JoinOptions {
        name: place.name.clone(),
        endpoint: format!("https://{}", member.hub_address()),
        ca: Some(ca),
        region: Some(place.region.clone()),
        zone: Some(place.zone.clone()),
        coordinates: Some(place.coordinates()),
        labels: [("region".to_owned(), place.region.clone()), ("provider".to_owned(), provider)]
            .into(),
        // Every start may choose other ports.
        moves: true,
        share: false,
    };
    limen_hub::join(hub, member.client(), &options).await?;
    Ok(())
}

fn start_gateway(client: &Client, folder: &Path, edge: &Place, ports: &Ports) -> Result<Gateway> {
    let snapshot_dir = folder.join("gateway");
    std::fs::create_dir_all(&snapshot_dir)
        .with_context(|| format!("cannot make the folder {}", snapshot_dir.display()))?;
    let options = Options {
        name: "limen-up".to_owned(),
        http: vec![here(ports.http())],
        https: vec![here(ports.https())],
        admin: Some(here(0)),
        locality: edge.locality(),
        addresses: vec![Ipv4Addr::LOCALHOST.to_string()],
        drain: Duration::from_secs(1),
        ..Options::default()
    };
    let source = source::Hub::for_gateway(client.clone(), Some(snapshot_dir));
    Ok(Gateway::start(options, source)?)
}

/// Every address, for scripts.
fn addresses(
    server: &Server,
    gateway: &Gateway,
    dns: &limen_dns::Server,
    members: &[Arc<Member>],
    folder: &Path,
) -> Value {
    let clusters = members.iter().enumerate().map(|(index, member)| {
        let mut described = json!(member.place());
        described["api"] = json!(member.api_url());
        described["apiForHub"] = json!(format!("https://{}", member.hub_address()));
        described["ingress"] = json!(member.ingress_address().to_string());
        described["clients"] = json!(dns::client_network(index));
        described
    });
    json!({
        "pid": std::process::id(),
        "kubeconfig": folder.join("kubeconfig"),
        "hub": server.url(),
        "gateway": {
            "http": gateway.http().first().map(ToString::to_string),
            "https": gateway.https().first().map(ToString::to_string),
            "admin": gateway.admin().map(|address| address.to_string()),
        },
        "dns": {
            "address": dns.listen().first().map(ToString::to_string),
            "admin": dns.admin().map(|address| address.to_string()),
            "zone": dns::ZONE,
        },
        "clusters": clusters.collect::<Vec<_>>(),
    })
}

/// Submits an object; one that is there already stays as it is.
async fn submit(api: &ObjectApi, object: &Value) -> Result<()> {
    let (kind, plural) = match object["kind"].as_str() {
        Some("Ingress") => ("Ingress", "ingresses"),
        Some("Service") => ("Service", "services"),
        Some("TrafficPolicy") => ("TrafficPolicy", "trafficpolicies"),
        _ => ("Deployment", "deployments"),
    };
    let version = object["apiVersion"].as_str().unwrap_or_default();
    match api.create(&limen_api::kind((version, kind, plural, true)), object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        created => created.map(drop).with_context(|| format!("cannot submit the sample's {kind}")),
    }
}
