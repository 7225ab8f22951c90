//! What can be set when a server starts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use limen_api::Nameserver;
use limen_core::locality::Locality;
use limen_dns_wire::tsig::TsigKey;

use crate::dnssec::KeyFolder;
use crate::server::CertificateFiles;
use crate::transfer::Secondary;

use crate::update::Challenges;

/// What can be set when a server starts.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the hub and its dashboard call it; without a name it tells them nothing of itself.
    pub name: String,
    /// Where to answer, by UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// Where to serve metrics and readiness.
    pub admin: Option<SocketAddr>,
    /// The zones to answer for, besides those of `DnsZone` objects.
    pub zones: Vec<String>,
    /// Who serves the zones that do not say.
    pub nameservers: Vec<Nameserver>,
    /// The federation whose Services have names in zones that do not say.
    pub federation: Option<String>,
    /// Who may update challenges of certificate authorities; nobody unless said.
    pub challenges: Option<Challenges>,
    /// Where this server is, and with it everybody of whom nothing better is known.
    pub locality: Locality,
    /// A table of networks.
    pub networks: Option<PathBuf>,
    /// An MMDB database.
    pub database: Option<PathBuf>,
    /// Where the keys are that the zones are signed with; they are not signed without.
    pub dnssec_keys: Option<KeyFolder>,
    /// Secrets that are shared with others, who sign with them.
    pub tsig_keys: Vec<TsigKey>,
    /// Who may have whole zones, and is told when they change.
    pub secondaries: Vec<Secondary>,
    /// Where to answer over TLS.
    pub tls: Vec<SocketAddr>,
    /// Where to answer over HTTPS.
    pub https: Vec<SocketAddr>,
    /// The certificate for both.
    pub certificate: Option<CertificateFiles>,
    /// Worker threads.
    pub workers: usize,
    /// What it tells those who ask which server they have reached.
    pub nsid: String,
    /// The secret of its cookies, for servers behind one address; made up if there is none.
    pub cookie_secret: Option<[u8; 16]>,
    /// How often in a second the same answer goes to the same network; 0 means no limit.
    pub rate_limit: u32,
    /// Connections by TCP at once.
    pub tcp_connections: usize,
    /// Connections by TCP at once from one IPv4 address, or one IPv6 network of 56 bits.
    pub tcp_connections_per_client: usize,
    /// How long a connection may be silent.
    pub tcp_idle: Duration,
    /// Whether it finds out by itself, with probes, which clusters answer.
    pub probe: bool,
    /// Where questions are logged; nowhere unless said.
    pub query_log: Option<QueryLogOptions>,
}

/// What is logged of questions, and where.
#[derive(Clone, Debug)]
pub struct QueryLogOptions {
    /// Where it is written.
    pub to: QueryLogTo,
    /// The share of questions that are logged, from 0 to 1.
    pub sample: f64,
    /// How much of clients' addresses is written.
    pub clients: LoggedClients,
}

/// Where a query log is written.
#[derive(Clone, Debug)]
pub enum QueryLogTo {
    /// To the standard output.
    Stdout,
    /// At the end of a file.
    File(PathBuf),
}

/// How much of clients' addresses is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoggedClients {
    /// All of them.
    Whole,
    /// Their networks: 24 bits of IPv4, 56 of IPv6.
    #[default]
    Network,
    /// Neither they nor the networks that resolvers ask for.
    Nothing,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: String::new(),
            listen: Vec::new(),
            admin: None,
            zones: Vec::new(),
            nameservers: Vec::new(),
            federation: None,
            challenges: None,
            locality: Locality::default(),
            networks: None,
            database: None,
            dnssec_keys: None,
            tsig_keys: Vec::new(),
            secondaries: Vec::new(),
            tls: Vec::new(),
            https: Vec::new(),
            certificate: None,
            workers: 1,
            nsid: String::new(),
            cookie_secret: None,
            rate_limit: 200,
            tcp_connections: 1000,
            tcp_connections_per_client: 20,
            tcp_idle: Duration::from_secs(10),
            probe: true,
            query_log: None,
        }
    }
}
