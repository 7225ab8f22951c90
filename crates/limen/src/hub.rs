//! `limen hub`

mod dashboard;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use kube::Client;
use limen_api::dialect::Home;
use limen_apiserver::{MASTERS, Server, ServerOptions};
use limen_hub::{Election, Hub as RunningHub, HubOptions, Lost, SetupError};
use limen_store::{EtcdOptions, EtcdStore, EtcdTls, RedbOptions, RedbStore, Store};
use limen_sync::{Fence, ObjectApi};
use tokio::signal::unix::{SignalKind, signal};

use self::dashboard::DashboardFlags;
use crate::connection::{Whom, answering, config};

/// Whom the embedded API knows the hub's own controllers as.
const CONTROLLERS: &str = "limen:hub";

/// How many threads read from the store: more would only wait for each other, and each keeps
/// memory of its own.
const READERS: usize = 8;

/// How long to wait before another try to begin.
const PAUSE: Duration = Duration::from_secs(1);

/// Run the hub: a Kubernetes API that people submit their objects to.
#[derive(Args)]
#[command(after_help = "\
Examples:
  limen hub --data-dir ./hub
  KUBECONFIG=./hub/kubeconfig kubectl get namespaces

  # Share the state of several hubs in an etcd of your own
  limen hub --data-dir ./hub --store etcd=https://10.0.0.1:2379,https://10.0.0.2:2379 \\
      --etcd-ca ca.crt --etcd-cert client.crt --etcd-key client.key")]
pub(crate) struct Hub {
    /// Where certificates, the kubeconfig and (without --store) the objects are kept
    #[arg(long, value_name = "DIR", required_unless_present = "kubeconfig")]
    data_dir: Option<PathBuf>,

    /// Be the hub on an existing Kubernetes, in place of an API of our own
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data_dir", "store", "listen", "tls_san", "token_auth_file", "audit_log"])]
    kubeconfig: Option<PathBuf>,

    /// The address to serve on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,

    /// Keep objects in etcd instead of the data folder: etcd=URL[,URL...]
    #[arg(long, value_name = "etcd=URL,...")]
    store: Option<String>,

    /// The authority that etcd's certificate comes from
    #[arg(long, value_name = "FILE", requires = "store")]
    etcd_ca: Option<PathBuf>,

    /// The certificate that etcd knows this hub by
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    etcd_cert: Option<PathBuf>,

    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,

    /// Names and addresses, besides those of this machine, that clients reach the hub by
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    tls_san: Vec<String>,

    /// Tokens that are known from the start: lines of token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,

    /// Write an audit log of all requests, as JSON lines
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,

    /// The domain under which roots without a host of their own get one
    #[arg(long, value_name = "DOMAIN", conflicts_with = "api_only")]
    domain: Option<String>,

    /// Serve hosts outside the domain only after their owner has added a TXT record that allows it;
    /// this resolver is asked for it
    #[arg(long, value_name = "RESOLVER", conflicts_with = "api_only", value_parser = resolver)]
    verify_hosts: Option<SocketAddr>,

    /// Serve the API and federate nothing
    #[arg(long, conflicts_with = "kubeconfig")]
    api_only: bool,

    #[command(flatten)]
    dashboard: DashboardFlags,
}

impl Hub {
    pub(crate) fn run(self) -> Result<()> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.enable_all().max_blocking_threads(READERS).build()?;
        runtime.block_on(self.serve())
    }

    async fn serve(self) -> Result<()> {
        // From here on, so that no signal can end the process before it has closed its store.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let stopped = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        match (&self.kubeconfig, &self.data_dir) {
            (Some(kubeconfig), _) => {
                on_existing(kubeconfig, self.hosts(), &self.dashboard, stopped).await
            }
            (None, Some(folder)) => {
                let folder = folder.clone();
                self.embedded(&folder, stopped).await
            }
            (None, None) => bail!("give --data-dir, or --kubeconfig of an existing Kubernetes"),
        }
    }

    async fn embedded(self, folder: &Path, stopped: impl Future<Output = ()>) -> Result<()> {
        let start = Instant::now();
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let store = self.open_store(folder).await?;
        let hosts = self.hosts();
        let server = Server::start(ServerOptions {
            data_dir: folder.to_owned(),
            listen: self.listen,
            store,
            extra_names: self.tls_san.into_iter().chain(self.dashboard.name()).collect(),
            token_file: self.token_auth_file,
            audit_log: self.audit_log,
        })
        .await?;

        let kubeconfig = server.kubeconfig().to_owned();
        let dashboard = self.dashboard.serve(&kubeconfig, Some(&server)).await?;
        println!("The hub is ready at {} ({} ms).", server.url(), start.elapsed().as_millis());
        println!();
        println!("  export KUBECONFIG={}", kubeconfig.display());
        println!("  kubectl get namespaces");
        if !self.api_only {
            println!("  limen join NAME --kubeconfig FILE    # let a cluster in");
        }
        if let Some(dashboard) = &dashboard {
            println!();
            dashboard.lines(Some(folder)).iter().for_each(|line| println!("  {line}"));
        }
        println!();
        let kept = match &self.store {
            None => "everything is kept",
            Some(_) => "objects are kept in etcd, certificates",
        };
        println!("Press Ctrl-C to stop it; {kept} in {}.", folder.display());
        if self.api_only {
            stopped.await;
        } else {
            let client = Client::new(server.in_process(CONTROLLERS, &[MASTERS]), "default");
            // Hubs that share an etcd take turns; a folder has one hub at a time.
            let shared = self.store.is_some();
            federate(client, Home::Embedded, hosts, shared, stopped).await?;
        }
        drop(dashboard);
        server.stop().await;
        Ok(())
    }

    fn hosts(&self) -> Hosts {
        Hosts { domain: self.domain.clone(), resolver: self.verify_hosts }
    }

    async fn open_store(&self, folder: &Path) -> Result<Arc<dyn Store>> {
        let Some(store) = &self.store else {
            let path = folder.join("store.redb");
            return Ok(Arc::new(RedbStore::open(path, &RedbOptions::default())?));
        };
        let Some(endpoints) = store.strip_prefix("etcd=") else {
            bail!(
                "--store {store}: it must be etcd=URL[,URL...]; leave it out to use the data folder"
            );
        };
        let tls = match &self.etcd_ca {
            None => None,
            Some(ca) => Some(EtcdTls {
                ca_pem: read(ca)?,
                client_pem: match (&self.etcd_cert, &self.etcd_key) {
                    (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
                    _ => None,
                },
                domain: None,
            }),
        };
        let endpoints = endpoints.split(',').map(str::to_owned).collect();
        let options = EtcdOptions { endpoints, tls, ..EtcdOptions::default() };
        Ok(Arc::new(EtcdStore::connect(options).await?))
    }
}

/// Which hosts roots may have.
struct Hosts {
    domain: Option<String>,
    /// Who is asked for proofs of hosts outside the domain.
    resolver: Option<SocketAddr>,
}

/// An address, at port 53 unless it says otherwise.
fn resolver(text: &str) -> Result<SocketAddr, String> {
    let bare = || text.parse::<std::net::IpAddr>().map(|address| SocketAddr::new(address, 53));
    text.parse()
        .or_else(|_| bare())
        .map_err(|_| format!("{text:?} is not an address of a resolver"))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Is the hub on somebody's Kubernetes.
async fn on_existing(
    kubeconfig: &PathBuf,
    hosts: Hosts,
    dashboard: &DashboardFlags,
    stopped: impl Future<Output = ()>,
) -> Result<()> {
    let config = config(Some(kubeconfig), None).await?;
    let url = config.cluster_url.clone();
    let client = answering(config, Whom::Cluster, Some(kubeconfig)).await?;
    let dashboard = dashboard.serve(kubeconfig, None).await?;
    println!(
        "Federating from {url}: what a PlacementPolicy or a namespace labelled limen.dev/federate=true selects."
    );
    if let Some(dashboard) = &dashboard {
        dashboard.lines(None).iter().for_each(|line| println!("  {line}"));
    }
    federate(client, Home::Existing, hosts, true, stopped).await
}

/// Federates until it is told to stop; where hubs are several, whenever it is this one's turn.
async fn federate(
    client: Client,
    home: Home,
    hosts: Hosts,
    shared: bool,
    stopped: impl Future<Output = ()>,
) -> Result<()> {
    let api = ObjectApi::new(client.clone());
    let work = async {
        limen_hub::set_up(&api).await?;
        let mut election = Election::new(client, identity());
        loop {
            match shared {
                true => election.win().await,
                false => election.seize().await,
            }
            let term = Term {
                fence: election.fence(),
                epoch: election.epoch(),
                instance: election.identity().to_owned(),
            };
            let mut lead = std::pin::pin!(async {
                match shared {
                    true => election.keep().await,
                    false => match election.keep_seized().await {},
                }
            });
            // The lease is renewed from the moment that it is won, however long it takes to begin.
            let (lost, running) = tokio::select! {
                lost = &mut lead => (lost, None),
                running = begin(&api, home, &hosts, &term) => (lead.await, Some(running)),
            };
            match lost {
                Lost::Taken => tracing::warn!("another hub holds the leader lease; stepping down"),
                Lost::NotRenewed => tracing::warn!("lease renewal failed; stepping down"),
            }
            if let Some(running) = running {
                running.stop().await;
            }
        }
    };
    tokio::select! {
        ended = work => ended,
        () = stopped => Ok(()),
    }
}

/// The lead of this process, from one election to its loss.
struct Term {
    fence: Fence,
    epoch: u64,
    instance: String,
}

/// Begins to federate, as soon as the API lets it.
async fn begin(api: &ObjectApi, home: Home, hosts: &Hosts, term: &Term) -> RunningHub {
    loop {
        match try_to_begin(api, home, hosts, term).await {
            Ok(running) => return running,
            Err(error) => tracing::warn!(%error, "the hub cannot begin; trying again"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn try_to_begin(
    api: &ObjectApi,
    home: Home,
    hosts: &Hosts,
    term: &Term,
) -> Result<RunningHub, SetupError> {
    let options = HubOptions {
        domain: hosts.domain.clone(),
        verify_hosts: hosts.resolver,
        fence: term.fence.clone(),
        epoch: term.epoch,
        instance: term.instance.clone(),
        ..HubOptions::new(api.clone(), home)
    };
    RunningHub::start(options).await
}

/// Identity of this process in the election: containers may share host name and process id.
pub(crate) fn identity() -> String {
    format!("{}-{}-{:08x}", hostname(), std::process::id(), rand::random::<u32>())
}

fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "hub".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::identity;

    #[test]
    fn two_processes_with_one_host_name_and_process_id_have_different_identities() {
        let (one, other) = (identity(), identity());
        assert_ne!(one, other);
        let process = format!("-{}-", std::process::id());
        assert!(one.contains(&process), "{one}");
    }
}
