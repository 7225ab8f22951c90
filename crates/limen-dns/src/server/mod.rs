//! A running server.

mod certificate;
mod https;
mod tcp;
mod udp;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use limen_api::Nameserver;
use limen_api::source::{OwnEdge, Source};
use limen_dns_wire::tsig::TsigKey;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use certificate::Certificate;
pub use certificate::{CertificateError, CertificateFiles};
pub(crate) use tcp::{Speech, Tcp};

use crate::control::{self, Control};
use crate::dnssec::{KeyFolderError, Signers, ds_texts};
use crate::metrics::AllCounters;
use crate::options::Options;
use crate::place::{Places, PlacesError};
use crate::query_log::QueryLog;
use crate::respond::{Common, CookieKey, RateLimit};
use crate::wire::name;
use crate::zone::{ZoneDefaults, Zones};

/// How long a worker waits for a packet before it looks whether it should stop.
const LOOK: Duration = Duration::from_millis(100);
/// Packets that may wait for a worker, in bytes. A burst is answered late rather than not at all.
const BUFFER: usize = 4 << 20;
/// Ports are looked for so often, when one is asked for that is free for both UDP and TCP.
const TRIES: usize = 50;
/// Of so many answers that the rate limit holds back, one tells the client to come by TCP.
const SLIP: u32 = 2;

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address could not be taken.
    #[error("cannot listen on {address}: {error}; choose another address or stop what is there")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// It cannot be known where clients are.
    #[error(transparent)]
    Places(#[from] PlacesError),
    /// The zones cannot be signed.
    #[error(transparent)]
    Keys(#[from] KeyFolderError),
    /// Connections cannot be encrypted.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The query log could not be opened.
    #[error("cannot open the query log: {0}")]
    QueryLog(std::io::Error),
    /// The system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// A running server. It goes on until it is dropped.
pub struct Server {
    listen: Vec<SocketAddr>,
    tls: Vec<SocketAddr>,
    https: Vec<SocketAddr>,
    admin: Option<SocketAddr>,
    ready: watch::Receiver<bool>,
    stopping: Arc<AtomicBool>,
    stop: CancellationToken,
    threads: Vec<JoinHandle<()>>,
    common: Arc<Common>,
}

impl Server {
    /// Starts a server. Until its source has given it something it refuses every question.
    pub fn start(options: &Options, source: impl Source) -> Result<Self, StartError> {
        let networks = options.networks.as_deref();
        let places = Places::read(options.locality.clone(), networks, options.database.as_deref())?;
        let signers = Signers::new(options.dnssec_keys.clone());
        for zone in &options.zones {
            signers.check(zone, udp::milliseconds() / 1000)?;
        }
        let workers = options.workers.max(1);
        let (mut listen, mut sockets, mut listeners) = (Vec::new(), Vec::new(), Vec::new());
        for address in &options.listen {
            let failed = |error| StartError::Listen { address: *address, error };
            let (udp, tcp) = bind(*address, workers).map_err(failed)?;
            listen.push(tcp.local_addr().map_err(failed)?);
            sockets.push(udp);
            listeners.push((tcp, Speech::Plain));
        }
        let (encrypted, certificate) = encrypted(options)?;
        let local = |(listener, _): &(std::net::TcpListener, Speech)| listener.local_addr().ok();
        let tls = encrypted.iter().filter(|(_, speech)| matches!(speech, Speech::Tls(_)));
        let tls = tls.filter_map(local).collect();
        let https = encrypted.iter().filter(|(_, speech)| matches!(speech, Speech::Https(_)));
        let https = https.filter_map(local).collect();
        listeners.extend(encrypted);
        let admin_listener = options.admin.map(bind_tcp).transpose()?;
        let admin = admin_listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let common = Arc::new(Common {
            zones: Arc::new(ArcSwap::from_pointee(Zones::default())),
            places,
            cookie: CookieKey::new(options.cookie_secret.unwrap_or_else(rand::random)),
            nsid: options.nsid.clone().into_bytes(),
            rate_limit: RateLimit { per_second: options.rate_limit, slip: SLIP },
            counters: AllCounters::default(),
            challenges: options.challenges.clone(),
            tsig_keys: tsig_keys(options),
            secondaries: options.secondaries.clone(),
            log: query_log(options)?,
        });
        let (announce, ready) = watch::channel(false);
        let (stopping, stop) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        let threads = Vec::new();
        let common_too = common.clone();
        let mut server =
            Self { listen, tls, https, admin, ready, stopping, stop, threads, common: common_too };
        let defaults = ZoneDefaults {
            zones: options.zones.clone(),
            nameservers: nameservers(options, &server.listen),
            federation: options.federation.clone(),
        };
        let control = Control {
            common: common.clone(),
            defaults,
            signers,
            probe: options.probe,
            ready: announce,
            tcp: Tcp::new(options),
            listeners,
            certificate,
            admin: admin_listener,
            own: own_edge(options, &server.listen),
        };
        server.spawn_control(control, Box::new(source))?;
        for socket in sockets.into_iter().flatten() {
            let (common, stopping) = (common.clone(), server.stopping.clone());
            server.spawn("limen-dns-worker", move || udp::run(&common, &socket, &stopping))?;
        }
        Ok(server)
    }

    fn spawn_control(
        &mut self,
        control: Control,
        source: Box<dyn Source>,
    ) -> Result<(), StartError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StartError::Thread)?;
        let stop = self.stop.clone();
        self.spawn("limen-dns-control", move || {
            runtime.block_on(async {
                tokio::select! {
                    () = control::run(control, source) => {}
                    () = stop.cancelled() => {}
                }
            });
        })
    }

    fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), StartError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        self.threads.push(thread.map_err(StartError::Thread)?);
        Ok(())
    }

    /// Where questions are answered.
    pub fn listen(&self) -> &[SocketAddr] {
        &self.listen
    }

    /// Where questions are answered over TLS.
    pub fn tls(&self) -> &[SocketAddr] {
        &self.tls
    }

    /// Where questions are answered over HTTPS.
    pub fn https(&self) -> &[SocketAddr] {
        &self.https
    }

    /// Where the metrics are.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// The DS records that the parents of the zones should have, as in a zone file.
    pub fn delegation_signers(&self) -> Vec<String> {
        let zones = self.common.zones.load();
        let signed = zones.apexes.iter().filter_map(|apex| Some((apex, apex.signer.as_ref()?)));
        signed.flat_map(|(apex, signer)| ds_texts(&name::to_text(&apex.name), signer)).collect()
    }

    /// Waits until there is something to answer from.
    pub async fn ready(&self) {
        // The control thread holds the other end for as long as the server runs.
        let _ = self.ready.clone().wait_for(|ready| *ready).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.stop.cancel();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the DNS server panicked");
            }
        }
    }
}

/// All shared secrets, also those of secondaries.
fn tsig_keys(options: &Options) -> Vec<TsigKey> {
    let mut keys = options.tsig_keys.clone();
    for secondary in &options.secondaries {
        if !keys.iter().any(|key| key.name() == secondary.key.name()) {
            keys.push(secondary.key.clone());
        }
    }
    keys
}

fn query_log(options: &Options) -> Result<QueryLog, StartError> {
    let log = options.query_log.as_ref().map(QueryLog::open).transpose();
    log.map(Option::unwrap_or_default).map_err(StartError::QueryLog)
}

/// What the hub is told of this server.
fn own_edge(options: &Options, listen: &[SocketAddr]) -> OwnEdge {
    let known = listen.iter().filter(|address| !address.ip().is_unspecified());
    OwnEdge {
        name: options.name.clone(),
        addresses: known.map(ToString::to_string).collect(),
        ports: Vec::new(),
        locality: options.locality.clone(),
        report: None,
    }
}

/// Who serves zones that do not say: who was named at the start, or else this server.
fn nameservers(options: &Options, listen: &[SocketAddr]) -> Vec<Nameserver> {
    if !options.nameservers.is_empty() {
        return options.nameservers.clone();
    }
    let Some(zone) = options.zones.first() else { return Vec::new() };
    let known = listen.iter().map(SocketAddr::ip).filter(|address| !address.is_unspecified());
    let addresses = known.map(|address| address.to_string()).collect();
    vec![Nameserver { name: format!("ns1.{zone}"), addresses }]
}

/// Where encrypted connections are taken, and with which certificate.
type Encrypted = (Vec<(std::net::TcpListener, Speech)>, Option<Arc<Certificate>>);

fn encrypted(options: &Options) -> Result<Encrypted, StartError> {
    if options.tls.is_empty() && options.https.is_empty() {
        return Ok((Vec::new(), None));
    }
    let certificate = Certificate::read(options.certificate.as_ref())?;
    let (tls, https) =
        (certificate.acceptor(&["dot"])?, certificate.acceptor(&["h2", "http/1.1"])?);
    let mut listeners = Vec::new();
    for address in &options.tls {
        listeners.push((bind_tcp(*address)?, Speech::Tls(tls.clone())));
    }
    for address in &options.https {
        listeners.push((bind_tcp(*address)?, Speech::Https(https.clone())));
    }
    Ok((listeners, Some(certificate)))
}

fn bind_tcp(address: SocketAddr) -> Result<std::net::TcpListener, StartError> {
    let failed = |error| StartError::Listen { address, error };
    let listener = std::net::TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

type Bound = (Vec<UdpSocket>, std::net::TcpListener);

/// A UDP socket for each worker and one for TCP, all on the same port.
fn bind(address: SocketAddr, workers: usize) -> std::io::Result<Bound> {
    let tries = if address.port() == 0 { TRIES } else { 1 };
    let mut outcome = try_bind(address, workers);
    for _ in 1..tries {
        if outcome.is_ok() {
            break;
        }
        outcome = try_bind(address, workers);
    }
    outcome
}

fn try_bind(mut address: SocketAddr, workers: usize) -> std::io::Result<Bound> {
    let mut sockets = Vec::new();
    for _ in 0..workers {
        let socket = socket(address, Type::DGRAM, Protocol::UDP)?;
        socket.set_reuse_port(workers > 1)?;
        // More than the system allows becomes what it allows.
        socket.set_recv_buffer_size(BUFFER)?;
        socket.set_read_timeout(Some(LOOK))?;
        socket.bind(&address.into())?;
        let socket = UdpSocket::from(socket);
        address = socket.local_addr()?;
        sockets.push(socket);
    }
    let listener = socket(address, Type::STREAM, Protocol::TCP)?;
    listener.set_reuse_address(true)?;
    listener.set_nonblocking(true)?;
    listener.bind(&address.into())?;
    listener.listen(1024)?;
    Ok((sockets, listener.into()))
}

fn socket(address: SocketAddr, kind: Type, protocol: Protocol) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        // Each family has a socket of its own, so that an address is always what it looks like.
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}
