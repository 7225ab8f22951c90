//! `limen gateway`

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use kube::config::KubeConfigOptions;
use limen_api::{error_text, read_networks};
use limen_core::locality::{Coordinates, Locality};
use limen_gateway::source::{ConfigFiles, Hub, Member};
use limen_gateway::{AccessLogTo, Limits, Options};
use tokio::signal::unix::{SignalKind, signal};

use crate::connection::read_kubeconfig;

/// Run a gateway: the proxy that clients connect to.
#[derive(Args)]
#[command(after_help = "\
Examples:
  # Routes from files; no Kubernetes needed
  limen gateway --config examples/gateway.yaml --http 127.0.0.1:8080 --admin 127.0.0.1:9090
  curl 'http://127.0.0.1:9090/explain?host=shop.example&path=/'

  # Routes from a hub, also while the hub is away
  limen gateway --hub-kubeconfig ./hub/kubeconfig --snapshot-dir ./gateway \\
      --http 0.0.0.0:80 --https 0.0.0.0:443 --region europe-west3

  # One request in a hundred as a JSON line
  limen gateway --config examples/gateway.yaml --http 127.0.0.1:8080 \\
      --access-log /var/log/limen.json --access-log-sample 0.01

  # The Ingress controller of one cluster
  limen gateway --member-kubeconfig ./kubeconfig --ingress-class limen \\
      --http 0.0.0.0:80 --publish-address 203.0.113.7")]
pub(crate) struct Gateway {
    /// GlobalIngress objects and Secrets, as a YAML file or a folder of them
    #[arg(long, value_name = "FILE|DIR")]
    config: Option<PathBuf>,

    /// A hub whose GlobalIngress objects and Secrets are obeyed
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    hub_kubeconfig: Option<PathBuf>,

    /// Where the last routes of the hub are kept, to serve them while it is away
    #[arg(long, value_name = "DIR", requires = "hub_kubeconfig")]
    snapshot_dir: Option<PathBuf>,

    /// A cluster whose Ingress objects are obeyed, straight to pod addresses
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "hub_kubeconfig"])]
    member_kubeconfig: Option<PathBuf>,

    /// The ingress class to be the controller of
    #[arg(long, value_name = "NAME", default_value = "limen")]
    ingress_class: String,

    /// What the cluster is called in metrics
    #[arg(long, value_name = "NAME", default_value = "local")]
    cluster_name: String,

    /// Names and addresses of this gateway, for its Edge object and the status of each Ingress
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    publish_address: Vec<String>,

    /// Where to serve plain HTTP
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    http: Vec<SocketAddr>,

    /// Where to serve HTTPS
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    https: Vec<SocketAddr>,

    /// Share the ports with a gateway that runs already, to take over from it: stop that one when
    /// this one is ready
    #[arg(long)]
    take_over: bool,

    /// Where to serve metrics, readiness and explanations
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,

    /// The region this gateway is in
    #[arg(long)]
    region: Option<String>,

    /// The zone this gateway is in
    #[arg(long)]
    zone: Option<String>,

    /// Where this gateway is, in degrees
    #[arg(long, value_name = "LAT,LON", allow_hyphen_values = true)]
    coordinates: Option<Coordinates>,

    /// A table of networks: where clients are
    #[arg(long, value_name = "FILE", alias = "client-regions")]
    networks: Option<PathBuf>,

    /// Worker threads; as many as there are cores unless said otherwise
    #[arg(long)]
    workers: Option<usize>,

    /// What it calls itself in Via and CDN-Loop; must differ between gateways in a row
    #[arg(long)]
    name: Option<String>,

    /// Networks whose X-Forwarded-For is believed
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    trusted_proxies: Vec<ipnet::IpNet>,

    /// Expect a PROXY protocol header (version 2) on every connection
    #[arg(long)]
    proxy_protocol: bool,

    /// Log every request as a JSON line to this file, or to standard output with -
    #[arg(long, value_name = "FILE|-")]
    access_log: Option<PathBuf>,

    /// Log only this share of the requests, from 0 to 1, picked at random
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share, requires = "access_log")]
    access_log_sample: f64,

    /// Check only the addresses that a TrafficPolicy wants checked, and not whether all others
    /// accept connections
    #[arg(long)]
    no_usual_checks: bool,

    /// Client connections at once
    #[arg(long, default_value_t = Limits::default().connections)]
    max_connections: usize,

    /// How long requests may take to finish when the gateway is stopped, in seconds
    #[arg(long, default_value_t = 30)]
    drain_seconds: u64,
}

impl Gateway {
    pub(crate) fn run(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.serve())
    }

    async fn serve(self) -> Result<()> {
        let start = Instant::now();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let options = self.options()?;
        let gateway = self.start(options).await?;
        tokio::select! {
            () = gateway.ready() => {}
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
        println!("The gateway is ready ({} ms).", start.elapsed().as_millis());
        for address in gateway.http() {
            println!("  http://{address}");
        }
        for address in gateway.https() {
            println!("  https://{address}");
        }
        if let Some(address) = gateway.admin() {
            println!("  http://{address}/metrics /routes /targets /explain");
        }
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        gateway.stop().await;
        Ok(())
    }

    async fn start(&self, options: Options) -> Result<limen_gateway::Gateway> {
        let locality = options.locality.clone();
        if let Some(config) = &self.config {
            return Ok(limen_gateway::Gateway::start(options, ConfigFiles(config.clone()))?);
        }
        if let Some(kubeconfig) = &self.hub_kubeconfig {
            let client = client(kubeconfig).await?;
            let source = Hub::for_gateway(client, self.snapshot_dir.clone());
            return Ok(limen_gateway::Gateway::start(options, source)?);
        }
        if let Some(kubeconfig) = &self.member_kubeconfig {
            let source = Member {
                client: client(kubeconfig).await?,
                class: self.ingress_class.clone(),
                cluster: self.cluster_name.clone(),
                locality,
                addresses: self.publish_address.clone(),
            };
            return Ok(limen_gateway::Gateway::start(options, source)?);
        }
        bail!(
            "say where routes come from: --config FILE|DIR, --hub-kubeconfig FILE or --member-kubeconfig FILE"
        );
    }

    fn options(&self) -> Result<Options> {
        if self.http.is_empty() && self.https.is_empty() {
            bail!("say where to serve: --http ADDR, --https ADDR, or both");
        }
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let defaults = Options::default();
        let networks = self.networks.as_deref().map(read_networks).transpose()?;
        Ok(Options {
            name: self.name.clone().unwrap_or(defaults.name),
            http: self.http.clone(),
            https: self.https.clone(),
            take_over: self.take_over,
            admin: self.admin,
            locality: Locality {
                region: self.region.clone(),
                zone: self.zone.clone(),
                coordinates: self.coordinates,
            },
            geography: Arc::new(networks.unwrap_or_default()),
            addresses: self.publish_address.clone(),
            workers: self.workers.unwrap_or(cores),
            trusted_proxies: self.trusted_proxies.clone(),
            proxy_protocol: self.proxy_protocol,
            access_log: self.access_log.clone().map(|path| match path.to_str() {
                Some("-") => AccessLogTo::Stdout,
                _ => AccessLogTo::File(path),
            }),
            access_log_sample: self.access_log_sample,
            probe_all: !self.no_usual_checks,
            limits: Limits { connections: self.max_connections, ..defaults.limits },
            drain: Duration::from_secs(self.drain_seconds),
        })
    }
}

pub(crate) fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("take a number from 0 to 1, such as 0.01 for one request in a hundred".to_owned()),
    }
}

pub(crate) async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    let context = || format!("cannot use the kubeconfig {}", kubeconfig.display());
    let read = read_kubeconfig(Some(kubeconfig))?;
    let options = KubeConfigOptions::default();
    let config =
        kube::Config::from_custom_kubeconfig(read, &options).await.with_context(context)?;
    kube::Client::try_from(config)
        .map_err(|error| anyhow!(error_text(&error)))
        .with_context(context)
}
