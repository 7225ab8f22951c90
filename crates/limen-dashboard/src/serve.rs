//! The listener.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::Config;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::requests::Desk;
use crate::sessions::Sessions;

/// So many connections are open at a time; others wait.
const CONNECTIONS: usize = 512;
const SLOWEST_HEAD: Duration = Duration::from_secs(10);

/// Where the dashboard listens, and which hub it shows.
pub struct DashboardOptions {
    /// The address. It speaks plain HTTP: put it on loopback, or behind something that has TLS.
    pub listen: SocketAddr,
    /// The hub's address and authority. Credentials in it are not used: people bring their own.
    pub hub: Config,
    /// Makes trouble for the members, if they are those of a playground.
    pub play: Option<Play>,
}

/// Does something to a member of a playground: its name, and what to do. The error is for people.
pub type Play = Arc<dyn Fn(String, String) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// A dashboard that is being served. It ends when it is dropped.
pub struct Dashboard {
    address: SocketAddr,
    _accepting: JoinSet<()>,
}

impl Dashboard {
    /// Starts to serve.
    ///
    /// # Errors
    ///
    /// When the address cannot be listened on.
    pub async fn start(options: DashboardOptions) -> std::io::Result<Self> {
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        let desk =
            Arc::new(Desk { hub: options.hub, play: options.play, sessions: Sessions::default() });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, desk));
        Ok(Self { address, _accepting: accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept(listener: TcpListener, desk: Arc<Desk>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let desk = desk.clone();
                connections.spawn(async move {
                    serve(stream, desk).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the dashboard cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, desk: Arc<Desk>) {
    let service = service_fn(move |request| {
        let desk = desk.clone();
        async move { Ok::<_, Infallible>(desk.answer(request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SLOWEST_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection to the dashboard ended");
    }
}
