//! A running gateway.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use http::HeaderValue;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::access_log::AccessLog;
use crate::control;
use crate::limit::Clients;
use crate::listen::{Sockets, bind, is_taken};
use crate::metrics::GatewayMetrics;
use crate::options::Options;
use crate::snapshot::Snapshot;
use crate::source::Source;
use crate::tls::ServerTls;
use crate::worker::{self, Shared};

/// Why a gateway could not be started.
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
    /// Somebody listens there, and taking over was not asked for.
    #[error(
        "cannot listen on {address}: somebody else does; stop them first, choose another address, or, to take over from a gateway without a gap, start with --take-over and stop the old one when this one is ready"
    )]
    Taken {
        /// The address.
        address: SocketAddr,
    },
    /// TLS could not be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    /// The name cannot be sent in a header.
    #[error("the name {0:?} cannot be used: take letters, digits, dots and dashes")]
    Name(String),
    /// The access log could not be opened.
    #[error("cannot open the access log: {0}")]
    AccessLog(std::io::Error),
    /// The system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// A running gateway. It goes on until [`Gateway::stop`].
pub struct Gateway {
    shared: Arc<Shared>,
    http: Vec<SocketAddr>,
    https: Vec<SocketAddr>,
    admin: Option<SocketAddr>,
    ready: watch::Receiver<bool>,
    workers: Vec<JoinHandle<()>>,
    control: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Starts a gateway. It accepts connections once its source has given it routes.
    pub fn start(options: Options, source: impl Source) -> Result<Self, StartError> {
        let count = options.workers.max(1);
        if !options.take_over {
            refuse_taken(options.http.iter().chain(&options.https))?;
        }
        let (http, http_sockets) = bind_all(&options.http, count)?;
        let (https, https_sockets) = bind_all(&options.https, count)?;
        let (admin, admin_listener) = match options.admin {
            None => (None, None),
            Some(address) => {
                let failed = |error| StartError::Listen { address, error };
                let listener = std::net::TcpListener::bind(address).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                (Some(listener.local_addr().map_err(failed)?), Some(listener))
            }
        };
        // From here on with the ports that the system has picked.
        let options = Options { http: http.clone(), https: https.clone(), ..options };
        let shared = Arc::new(share(options, https.first().map_or(0, SocketAddr::port))?);
        let (announce, ready) = watch::channel(false);

        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StartError::Thread)?;
        let task = control::run(shared.clone(), Box::new(source), admin_listener, announce);
        let control = spawn("limen-control".to_owned(), move || runtime.block_on(task))?;
        let mut workers = Vec::new();
        for (index, (http, https)) in http_sockets.into_iter().zip(https_sockets).enumerate() {
            let (shared, ready) = (shared.clone(), ready.clone());
            let work = move || worker::run(shared, Sockets { http, https }, ready);
            workers.push(spawn(format!("limen-worker-{index}"), work)?);
        }
        Ok(Self { shared, http, https, admin, ready, workers, control: Some(control) })
    }

    /// Where plain HTTP is served.
    pub fn http(&self) -> &[SocketAddr] {
        &self.http
    }

    /// Where HTTPS is served.
    pub fn https(&self) -> &[SocketAddr] {
        &self.https
    }

    /// Where the admin endpoints are.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Waits until routes are loaded.
    pub async fn ready(&self) {
        // The control thread holds the other end for as long as the gateway runs.
        let _ = self.ready.clone().wait_for(|ready| *ready).await;
    }

    /// Accepts no more connections, lets requests finish for as long as they may take, and returns
    /// when nothing is going on any more.
    pub async fn stop(mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.shared.stop.cancel();
        let (workers, drain) = (std::mem::take(&mut self.workers), self.shared.options.drain);
        let joined = tokio::task::spawn_blocking(move || workers.into_iter().for_each(join));
        if tokio::time::timeout(drain, joined).await.is_err() {
            tracing::warn!("some requests did not finish in time and were cut off");
        }
        self.shared.stopped.cancel();
        if let Some(control) = self.control.take() {
            let _ = tokio::task::spawn_blocking(move || join(control)).await;
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.shared.stop.cancel();
        self.shared.stopped.cancel();
    }
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the gateway panicked");
    }
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StartError> {
    std::thread::Builder::new().name(name).spawn(work).map_err(StartError::Thread)
}

/// Fails if somebody listens at one of these addresses.
fn refuse_taken<'a>(addresses: impl Iterator<Item = &'a SocketAddr>) -> Result<(), StartError> {
    for address in addresses.copied().filter(|address| address.port() != 0) {
        if is_taken(address).map_err(|error| StartError::Listen { address, error })? {
            return Err(StartError::Taken { address });
        }
    }
    Ok(())
}

type BoundSockets = Vec<Vec<tokio::net::TcpSocket>>;

/// Binds every address once for each worker.
fn bind_all(
    addresses: &[SocketAddr],
    workers: usize,
) -> Result<(Vec<SocketAddr>, BoundSockets), StartError> {
    let mut bound = Vec::new();
    let mut sockets: BoundSockets = (0..workers).map(|_| Vec::new()).collect();
    for address in addresses {
        let failed = |error| StartError::Listen { address: *address, error };
        // Port 0 is picked by the first worker; the others take the same one.
        let mut actual = *address;
        for sockets in &mut sockets {
            let socket = bind(actual).map_err(failed)?;
            actual = socket.local_addr().map_err(failed)?;
            sockets.push(socket);
        }
        bound.push(actual);
    }
    Ok((bound, sockets))
}

fn share(options: Options, https_port: u16) -> Result<Shared, StartError> {
    let header = |text: String| {
        HeaderValue::try_from(text).map_err(|_| StartError::Name(options.name.clone()))
    };
    let name = header(options.name.clone())?;
    let via = header(format!("1.1 {}", options.name))?;
    let via_h2 = header(format!("2 {}", options.name))?;
    let snapshot = Arc::new(ArcSwap::from_pointee(Snapshot::default()));
    let tls =
        ServerTls::new(snapshot.clone()).map_err(|error| StartError::Tls(error.to_string()))?;
    let log = match &options.access_log {
        None => AccessLog::off(),
        Some(to) => {
            AccessLog::open(to, options.access_log_sample).map_err(StartError::AccessLog)?
        }
    };
    Ok(Shared {
        options,
        snapshot,
        tls: Arc::new(tls),
        metrics: GatewayMetrics::default(),
        clients: Clients::default(),
        rates: ArcSwap::default(),
        log,
        connections: AtomicUsize::new(0),
        https_port,
        name,
        via,
        via_h2,
        stopping: AtomicBool::new(false),
        stop: CancellationToken::new(),
        stopped: CancellationToken::new(),
    })
}
