//! How a gateway is run.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use limen_core::geography::Geography;
use limen_core::locality::Locality;

/// How a gateway is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// What it calls itself in `Via` and `CDN-Loop`; must differ between gateways in a row.
    pub name: String,
    /// Where plain HTTP is served; port 0 picks one.
    pub http: Vec<SocketAddr>,
    /// Where HTTPS is served.
    pub https: Vec<SocketAddr>,
    /// Whether somebody else, from whom it is to take over, may listen there as well.
    pub take_over: bool,
    /// Where the admin endpoints are.
    pub admin: Option<SocketAddr>,
    /// Where the gateway is.
    pub locality: Locality,
    /// Where clients are; whom it does not place is where the gateway is.
    pub geography: Arc<Geography>,
    /// Names and addresses that clients reach it at, for others to know.
    pub addresses: Vec<String>,
    /// The number of worker threads.
    pub workers: usize,
    /// Whose `X-Forwarded-*` headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether every connection starts with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// Where requests are logged.
    pub access_log: Option<AccessLogTo>,
    /// The share of requests that are logged, from 0 to 1, picked at random.
    pub access_log_sample: f64,
    /// Whether addresses are probed that no rule asks to be: whether they accept connections.
    pub probe_all: bool,
    /// What clients may ask for.
    pub limits: Limits,
    /// How long requests may take to finish once the gateway is to stop.
    pub drain: Duration,
}

/// Where requests are logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLogTo {
    /// Standard output.
    Stdout,
    /// The end of this file.
    File(PathBuf),
}

/// What clients may ask for.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Client connections at once; more are closed as they come.
    pub connections: usize,
    /// Bytes of a request's head, and of a line of it.
    pub head_bytes: usize,
    /// Bytes of a request's target.
    pub uri_bytes: usize,
    /// Header lines of a request.
    pub headers: usize,
    /// How long a head may take to arrive.
    pub head: Duration,
    /// How long a connection may be idle between requests.
    pub idle: Duration,
    /// Concurrent streams of one HTTP/2 connection.
    pub streams: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 50_000,
            head_bytes: 32 * 1024,
            uri_bytes: 8 * 1024,
            headers: 100,
            head: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            streams: 128,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: format!("limen-{:08x}", crate::upstream::random() as u32),
            http: Vec::new(),
            https: Vec::new(),
            take_over: false,
            admin: None,
            locality: Locality::default(),
            geography: Arc::default(),
            addresses: Vec::new(),
            workers: 1,
            trusted_proxies: Vec::new(),
            proxy_protocol: false,
            access_log: None,
            access_log_sample: 1.0,
            probe_all: true,
            limits: Limits::default(),
            drain: Duration::from_secs(30),
        }
    }
}
