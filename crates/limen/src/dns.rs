//! `limen dns`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use limen_api::Nameserver;
use limen_core::locality::{Coordinates, Locality};
use limen_dns::source::{ConfigFiles, Hub};
use limen_dns::{
    CertificateFiles, Challenges, KeyFolder, LoggedClients, Options, QueryLogOptions, QueryLogTo,
    Secondary, Server, TsigKey,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::coredns::CorednsConfig;
use crate::dns_keys::{DnsDs, DnsRoll};
use crate::gateway::{client, share};
use crate::tsig_key;

/// Updates of challenges that wait for the hub at most.
const MOST_WAITING_UPDATES: usize = 64;

/// Run a DNS server: names that lead to the nearest healthy cluster.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  # Answers from files; no Kubernetes needed
  limen dns --config examples/dns --listen 127.0.0.1:5353 --zone example.com \\
      --networks examples/networks.yaml
  dig @127.0.0.1 -p 5353 shop.example.com +subnet=10.2.0.0/16

  # Answers from a hub, also while the hub is away
  limen dns --hub-kubeconfig ./hub/kubeconfig --snapshot-dir ./dns --zone example.com \\
      --listen 192.0.2.53:53,[2001:db8::53]:53 --nameserver ns1.example.com=192.0.2.53

  # Signed answers; the parent zone needs the DS record
  limen dns --config examples/dns --listen 127.0.0.1:5353 --zone example.com \\
      --dnssec-keys ./keys
  limen dns ds --zone example.com --dnssec-keys ./keys

  # A secondary, such as Knot, that holds a copy of the zone
  (umask 077; tsig-keygen peer > peer.key)
  limen dns --config examples/dns --listen 127.0.0.1:5353 --zone example.com \\
      --tsig-key peer.key --secondary 192.0.2.54:53=peer

A table of networks is YAML:
  networks:
  - { cidr: 10.1.0.0/16, region: europe-west3, country: DE, coordinates: \"50.1,8.7\" }"
)]
pub(crate) struct Dns {
    #[command(subcommand)]
    command: Option<DnsCommand>,

    /// GlobalIngress and DnsZone objects, as a YAML file or a folder of them
    #[arg(long, value_name = "FILE|DIR")]
    config: Option<PathBuf>,

    /// A hub whose GlobalIngress and DnsZone objects are obeyed
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    hub_kubeconfig: Option<PathBuf>,

    /// Where the last objects of the hub are kept, to answer from them while it is away
    #[arg(long, value_name = "DIR", requires = "hub_kubeconfig")]
    snapshot_dir: Option<PathBuf>,

    /// What the hub and its dashboard call it; without a name it does not show there
    #[arg(long, value_name = "NAME", default_value = "", requires = "hub_kubeconfig")]
    name: String,

    /// Where to answer, by UDP and TCP; name each address, 0.0.0.0 only where there is just one
    #[arg(long, value_name = "ADDR", value_delimiter = ',', required = true)]
    listen: Vec<SocketAddr>,

    /// A zone to answer for, besides those of DnsZone objects
    #[arg(long, value_name = "NAME")]
    zone: Vec<String>,

    /// A server of the zones, with its addresses if its name is in one of them
    #[arg(long, value_name = "NAME[=ADDR,...]", value_parser = nameserver)]
    nameserver: Vec<Nameserver>,

    /// The federation whose Services have names in the zones, as in web.shop.NAME.svc.example.com
    #[arg(long, value_name = "NAME")]
    federation: Option<String>,

    /// A table of networks: where clients are
    #[arg(long, value_name = "FILE")]
    networks: Option<PathBuf>,

    /// A database of where everybody is, in the MMDB format
    #[arg(long, value_name = "FILE")]
    geoip_db: Option<PathBuf>,

    /// Sign the zones with the keys in this folder; a key is made for a zone that has none
    #[arg(long, value_name = "DIR")]
    dnssec_keys: Option<PathBuf>,

    /// A file that only you can read, with a secret shared with somebody who signs messages, as
    /// tsig-keygen writes it or as hmac-sha256:NAME:SECRET
    #[arg(long, value_name = "FILE")]
    tsig_key: Vec<PathBuf>,

    /// A secondary that may have whole zones and is told of changes, with the name of its key
    #[arg(long, value_name = "ADDR:PORT=KEY")]
    secondary: Vec<String>,

    /// Where to answer over TLS; usually port 853
    #[arg(long, value_name = "ADDR", value_delimiter = ',', requires = "certificate")]
    tls: Vec<SocketAddr>,

    /// Where to answer over HTTPS, at /dns-query; usually port 443
    #[arg(long, value_name = "ADDR", value_delimiter = ',', requires = "certificate")]
    https: Vec<SocketAddr>,

    /// The certificate for --tls and --https with its chain, in PEM; read again when it changes
    #[arg(long, value_name = "FILE", requires = "certificate_key")]
    certificate: Option<PathBuf>,

    /// The certificate's private key, in PEM, in a file that only you can read
    #[arg(long, value_name = "FILE")]
    certificate_key: Option<PathBuf>,

    /// Where to serve metrics and readiness
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,

    /// The region this server is in
    #[arg(long)]
    region: Option<String>,

    /// A file with a key of ACME clients, from tsig-keygen or keymgr -t: what they sign with it may
    /// change the TXT records of _acme-challenge names, by updates as in RFC 2136
    #[arg(long, value_name = "FILE", requires = "hub_kubeconfig")]
    acme_key: Vec<PathBuf>,

    /// Where this server is, in degrees; clients of whom nothing is known count as here
    #[arg(long, value_name = "LAT,LON", allow_hyphen_values = true)]
    coordinates: Option<Coordinates>,

    /// Worker threads for each address; as many as there are cores unless said otherwise
    #[arg(long)]
    workers: Option<usize>,

    /// What to tell those who ask which server they have reached
    #[arg(long, value_name = "TEXT", default_value = "")]
    nsid: String,

    /// A file with the secret of cookies, 16 bytes in hex, for servers behind one address
    #[arg(long, value_name = "FILE")]
    cookie_secret: Option<PathBuf>,

    /// How often in a second the same answer goes to the same network by UDP; 0 means no limit
    #[arg(long, default_value_t = Options::default().rate_limit)]
    rate_limit: u32,

    /// Connections by TCP at once
    #[arg(long, default_value_t = Options::default().tcp_connections)]
    max_connections: usize,

    /// How long a TCP connection may be silent, in seconds
    #[arg(long, default_value_t = 10)]
    tcp_idle_seconds: u64,

    /// Do not probe clusters, even where a health check is described and no gateway has a verdict
    #[arg(long)]
    no_probes: bool,

    /// Where to log each question as a line of JSON; - is the standard output
    #[arg(long, value_name = "FILE")]
    query_log: Option<PathBuf>,

    /// Log only a share of the questions, such as 0.01
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share, requires = "query_log")]
    query_log_sample: f64,

    /// How much of clients' addresses is logged: all, their networks (/24, /56), or nothing
    #[arg(long, value_name = "HOW", value_enum, default_value_t = LogClients::Network, requires = "query_log")]
    query_log_clients: LogClients,
}

/// How much of clients' addresses is logged.
#[derive(Clone, Copy, ValueEnum)]
enum LogClients {
    Whole,
    Network,
    Nothing,
}

/// What else `limen dns` does.
#[derive(Subcommand)]
enum DnsCommand {
    CorednsConfig(CorednsConfig),
    Ds(DnsDs),
    Roll(DnsRoll),
}

fn nameserver(text: &str) -> Result<Nameserver, String> {
    let (name, addresses) = text.split_once('=').unwrap_or((text, ""));
    let addresses: Vec<String> =
        addresses.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    if let Some(wrong) = addresses.iter().find(|one| one.parse::<std::net::IpAddr>().is_err()) {
        return Err(format!("{wrong:?} is not an address"));
    }
    Ok(Nameserver { name: name.to_owned(), addresses })
}

impl Dns {
    pub(crate) fn run(self) -> Result<()> {
        match &self.command {
            Some(DnsCommand::CorednsConfig(config)) => {
                print!("{}", config.stanza()?);
                return Ok(());
            }
            Some(DnsCommand::Ds(ds)) => return ds.run(),
            Some(DnsCommand::Roll(roll)) => return roll.run(),
            None => {}
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.serve())
    }

    async fn serve(self) -> Result<()> {
        let start = Instant::now();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut options = self.options()?;
        let server = if let Some(config) = &self.config {
            Server::start(&options, ConfigFiles(config.clone()))?
        } else if let Some(kubeconfig) = &self.hub_kubeconfig {
            let client = client(kubeconfig).await?;
            options.challenges = self.challenges(&client)?;
            Server::start(&options, Hub::for_dns(client, self.snapshot_dir.clone()))?
        } else {
            bail!("say where answers come from: --config FILE|DIR or --hub-kubeconfig FILE");
        };
        tokio::select! {
            () = server.ready() => {}
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
        println!("The DNS server is ready ({} ms).", start.elapsed().as_millis());
        for address in server.listen() {
            println!("  {address}, by UDP and TCP");
        }
        for address in server.tls() {
            println!("  {address}, over TLS");
        }
        for address in server.https() {
            println!("  https://{address}/dns-query");
        }
        if let Some(address) = server.admin() {
            println!("  http://{address}/metrics /readyz /problems");
        }
        for ds in server.delegation_signers() {
            println!("  for the parent zone: {ds}");
        }
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    }

    fn options(&self) -> Result<Options> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let tsig_keys: Vec<TsigKey> =
            self.tsig_key.iter().map(|path| tsig_key::read(path)).collect::<Result<_>>()?;
        Ok(Options {
            name: self.name.clone(),
            listen: self.listen.clone(),
            admin: self.admin,
            zones: self.zone.clone(),
            nameservers: self.nameserver.clone(),
            federation: self.federation.clone(),
            locality: Locality {
                region: self.region.clone(),
                zone: None,
                coordinates: self.coordinates,
            },
            networks: self.networks.clone(),
            database: self.geoip_db.clone(),
            dnssec_keys: self.dnssec_keys.clone().map(KeyFolder::new),
            secondaries: self.secondaries(&tsig_keys)?,
            tsig_keys,
            tls: self.tls.clone(),
            https: self.https.clone(),
            certificate: self
                .certificate
                .clone()
                .zip(self.certificate_key.clone())
                .map(|(chain, key)| CertificateFiles { chain, key }),
            workers: self.workers.unwrap_or(cores),
            nsid: self.nsid.clone(),
            cookie_secret: self.cookie_secret()?,
            rate_limit: self.rate_limit,
            tcp_connections: self.max_connections,
            tcp_idle: Duration::from_secs(self.tcp_idle_seconds),
            probe: !self.no_probes,
            query_log: self.query_log(),
            ..Options::default()
        })
    }

    fn query_log(&self) -> Option<QueryLogOptions> {
        let to = self.query_log.clone().map(|path| match path.to_str() {
            Some("-") => QueryLogTo::Stdout,
            _ => QueryLogTo::File(path),
        })?;
        let clients = match self.query_log_clients {
            LogClients::Whole => LoggedClients::Whole,
            LogClients::Network => LoggedClients::Network,
            LogClients::Nothing => LoggedClients::Nothing,
        };
        Some(QueryLogOptions { to, sample: self.query_log_sample, clients })
    }

    /// Who may update challenges. They are written to the hub, so that every server has them.
    fn challenges(&self, client: &kube::Client) -> Result<Option<Challenges>> {
        if self.acme_key.is_empty() {
            return Ok(None);
        }
        let keys = self.acme_key.iter().map(|path| tsig_key::read(path));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let (writer, writes) = tokio::sync::mpsc::channel(MOST_WAITING_UPDATES);
        tokio::spawn(limen_api::write_challenges(client.clone(), writes));
        Ok(Some(Challenges { keys, writer }))
    }

    fn secondaries(&self, keys: &[TsigKey]) -> Result<Vec<Secondary>> {
        let read = |text: &String| {
            let what = || format!("--secondary {text}: write ADDR:PORT=KEY");
            let (address, name) = text.rsplit_once('=').with_context(what)?;
            let address = address.parse().with_context(what)?;
            let known = keys.iter().find(|key| key.name().eq_ignore_ascii_case(name));
            let key = known.with_context(|| format!("no --tsig-key has a key {name:?}"))?.clone();
            Ok(Secondary { address, key })
        };
        self.secondary.iter().map(read).collect()
    }

    fn cookie_secret(&self) -> Result<Option<[u8; 16]>> {
        let Some(path) = &self.cookie_secret else { return Ok(None) };
        let what = || format!("the cookie secret in {} cannot be used", path.display());
        let text = std::fs::read_to_string(path).with_context(what)?;
        let digits = u128::from_str_radix(text.trim(), 16).ok().filter(|_| text.trim().len() == 32);
        let secret = digits.context("write 32 hexadecimal digits").with_context(what)?;
        Ok(Some(secret.to_be_bytes()))
    }
}
