//! One worker: a thread with a runtime of its own that accepts connections and serves them.
//!
//! ```text
//! bound ──routes are loaded──► listening ──stop──► draining ──all done, or out of time──► ended
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::HeaderValue;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access_log::AccessLog;
use crate::limit::Clients;
use crate::listen::{BACKLOG, Sockets};
use crate::metrics::GatewayMetrics;
use crate::options::Options;
use crate::proxy::forget_all_but;
use crate::server;
use crate::snapshot::Snapshot;
use crate::tls::ServerTls;
use crate::upstream::{Pool, raw};

/// How often idle upstream connections and forgotten backends are cleared away.
const TIDY: Duration = Duration::from_secs(5);

/// What all workers of a gateway share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) snapshot: Arc<ArcSwap<Snapshot>>,
    pub(crate) tls: Arc<ServerTls>,
    pub(crate) metrics: GatewayMetrics,
    pub(crate) clients: Clients,
    /// By the id of a backend: requests in a second that come for it, for those who explain.
    pub(crate) rates: ArcSwap<HashMap<u64, f64>>,
    pub(crate) log: AccessLog,
    /// Client connections that are open.
    pub(crate) connections: AtomicUsize,
    /// The first HTTPS port, or 0.
    pub(crate) https_port: u16,
    pub(crate) name: HeaderValue,
    pub(crate) via: HeaderValue,
    pub(crate) via_h2: HeaderValue,
    /// Mirrors `stop` for those who ask often.
    pub(crate) stopping: AtomicBool,
    /// No more connections; those that are open finish.
    pub(crate) stop: CancellationToken,
    /// Whatever is left is cut off.
    pub(crate) stopped: CancellationToken,
}

impl Shared {
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// Runs a worker until it is told to stop and has finished.
pub(crate) fn run(shared: Arc<Shared>, sockets: Sockets, ready: watch::Receiver<bool>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .event_interval(61)
        .build()
        .expect("the kernel gives every process an event queue");
    runtime.block_on(work(shared, sockets, ready));
}

async fn work(shared: Arc<Shared>, sockets: Sockets, mut ready: watch::Receiver<bool>) {
    tokio::select! {
        loaded = ready.wait_for(|ready| *ready) => if loaded.is_err() { return },
        () = shared.stop.cancelled() => return,
    }
    let tasks = TaskTracker::new();
    let mut accepting = Vec::new();
    for (socket, tls) in with_flag(sockets.http, false).chain(with_flag(sockets.https, true)) {
        match socket.listen(BACKLOG) {
            Ok(listener) => {
                accepting.push(tokio::spawn(accept(shared.clone(), listener, tls, tasks.clone())));
            }
            Err(error) => tracing::error!(%error, "cannot listen"),
        }
    }
    tokio::spawn(tidy(shared.clone()));
    shared.stop.cancelled().await;
    for task in accepting {
        // It ends by itself once the gateway is to stop.
        let _ = task.await;
    }
    tasks.close();
    tokio::select! {
        () = tasks.wait() => {}
        () = shared.stopped.cancelled() => {}
    }
}

fn with_flag<T>(sockets: Vec<T>, flag: bool) -> impl Iterator<Item = (T, bool)> {
    sockets.into_iter().map(move |socket| (socket, flag))
}

async fn accept(shared: Arc<Shared>, listener: TcpListener, tls: bool, tasks: TaskTracker) {
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            // Biased: what waits to be accepted is accepted before the socket is closed, since
            // closing it would reset those connections.
            () = shared.stop.cancelled() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: wait for some to come free.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let open = server::Open::new(&shared);
        if shared.connections.load(Ordering::Relaxed) > shared.options.limits.connections {
            shared.metrics.connections_refused.add(1);
            continue;
        }
        tasks.spawn(server::serve(shared.clone(), stream, peer, tls, open));
    }
}

async fn tidy(shared: Arc<Shared>) {
    let mut seen = None;
    loop {
        tokio::time::sleep(TIDY).await;
        Pool::tidy();
        raw::tidy();
        let snapshot = shared.snapshot.load();
        if snapshot.made != seen {
            seen = snapshot.made;
            forget_all_but(&snapshot);
        }
    }
}
