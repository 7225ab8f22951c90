//! Pods that really answer: each listens on a loopback address of its own.

mod behaviour;
mod zone_printer;

use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use behaviour::{Behaviour, POD_TAKES, PodState};
pub(crate) use zone_printer::{Identity, Version};

/// How long a pod goes on after it was deleted, so that those who send it requests hear of it.
const GRACE: Duration = Duration::from_secs(1);
/// How many addresses are tried.
const TRIES: u32 = 4096;

/// The loopback addresses that pods of one member have: `127.x.0.0/16`.
pub(crate) struct Addresses {
    second: u8,
    next: u16,
}

impl Addresses {
    pub(crate) fn new(second: u8) -> Self {
        Self { second, next: 0x100 }
    }

    fn next(&mut self) -> Ipv4Addr {
        // Not .0 and not .255, which look like networks.
        loop {
            self.next = self.next.checked_add(1).unwrap_or(0x101);
            let [third, fourth] = self.next.to_be_bytes();
            if fourth != 0 && fourth != 255 {
                return Ipv4Addr::new(127, self.second, third, fourth);
            }
        }
    }

    /// Listens on all ports of one address: the preferred one, or any that is free.
    fn listen(
        &mut self,
        preferred: Option<Ipv4Addr>,
        ports: &[u16],
    ) -> std::io::Result<(Ipv4Addr, Vec<TcpListener>)> {
        let mut preferred = preferred.filter(|address| address.octets()[1] == self.second);
        let mut last = None;
        for _ in 0..TRIES {
            let address = preferred.take().unwrap_or_else(|| self.next());
            let listeners: std::io::Result<Vec<_>> =
                ports.iter().map(|port| listen((address, *port).into())).collect();
            match listeners {
                Ok(listeners) => return Ok((address, listeners)),
                // Somebody else has it, such as another playground.
                Err(error) if error.kind() == ErrorKind::AddrInUse => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| Error::other("no address is free")))
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(1024)
}

/// A pod at work.
pub(crate) struct RunningPod {
    pub(crate) address: IpAddr,
    pub(crate) state: Arc<PodState>,
    /// No more connections; requests under way finish.
    leaving: CancellationToken,
    /// Everything ends at once.
    killed: CancellationToken,
}

impl RunningPod {
    /// Starts a pod on its ports.
    pub(crate) fn start(
        addresses: &mut Addresses,
        preferred: Option<Ipv4Addr>,
        ports: &[u16],
        identity: Identity,
        killed: CancellationToken,
    ) -> std::io::Result<Self> {
        let (address, listeners) = addresses.listen(preferred, ports)?;
        let state = Arc::new(PodState::default());
        let leaving = CancellationToken::new();
        let identity = Arc::new(identity);
        for listener in listeners {
            let serving = serve(listener, identity.clone(), state.clone(), leaving.clone());
            let killed = killed.clone();
            tokio::spawn(async move { killed.run_until_cancelled(serving).await });
        }
        Ok(Self { address: address.into(), state, leaving, killed })
    }

    /// Ends the pod, a little later.
    pub(crate) fn leave(self) {
        tokio::spawn(async move {
            tokio::time::sleep(GRACE).await;
            self.leaving.cancel();
            tokio::time::sleep(GRACE).await;
            drop(self.killed);
        });
    }
}

async fn serve(
    listener: TcpListener,
    identity: Arc<Identity>,
    state: Arc<PodState>,
    leaving: CancellationToken,
) {
    let tasks = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = leaving.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a pod cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let (identity, state, leaving) = (identity.clone(), state.clone(), leaving.clone());
        tasks.spawn(async move {
            let service = service_fn(move |request| {
                let (identity, state) = (identity.clone(), state.clone());
                async move { zone_printer::answer(&identity, &state, &request).await }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service);
            tokio::pin!(connection);
            // What goes wrong on a connection is the business of who opened it.
            let _ = tokio::select! {
                ended = connection.as_mut() => ended,
                () = leaving.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
        });
    }
    drop(listener);
    tasks.close();
    tasks.wait().await;
}
