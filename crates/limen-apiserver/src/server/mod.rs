//! The network side: TLS connections in, requests to the API, answers out.
//!
//! Nothing here knows what a request means. Slow or silent clients are bounded in time,
//! connections in number; a client that misbehaves costs itself and nobody else.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::api::{Api, Caller};

const MAX_CONNECTIONS: usize = 10_000;
const HANDSHAKE: Duration = Duration::from_secs(10);
const HEADERS: Duration = Duration::from_secs(30);
/// How long connections may take to finish once the server is to stop.
pub(crate) const FAREWELL: Duration = Duration::from_secs(5);

/// Serves the API until `stopping`, and returns when the last connection is done or was given up.
pub(crate) async fn serve(
    api: Arc<Api>,
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    stopping: CancellationToken,
) {
    let acceptor = TlsAcceptor::from(tls);
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (stream, peer) = tokio::select! {
            () = stopping.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: wait for some to come free.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let connection = Connection { api: api.clone(), peer, stopping: stopping.clone() };
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            connection.run(acceptor, stream).await;
            drop(place);
        });
    }
    let all = u32::try_from(MAX_CONNECTIONS).expect("it is a small number");
    if tokio::time::timeout(FAREWELL, places.acquire_many(all)).await.is_err() {
        tracing::warn!("some clients did not finish in time and were cut off");
    }
}

struct Connection {
    api: Arc<Api>,
    peer: SocketAddr,
    stopping: CancellationToken,
}

impl Connection {
    async fn run(self, acceptor: TlsAcceptor, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(peer = %self.peer, %error, "TLS handshake failed");
                return;
            }
            Err(_) => return,
        };
        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let caller = Caller::new(certificate.map(AsRef::as_ref), self.peer.ip());

        let api = self.api;
        let service = service_fn(move |request: Request<Incoming>| {
            let (api, caller) = (api.clone(), caller.clone());
            async move { Ok::<_, std::convert::Infallible>(api.call(caller, request).await) }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(250)
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .keep_alive_timeout(Duration::from_secs(20));
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let finished = tokio::select! {
            finished = connection.as_mut() => finished,
            () = self.stopping.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = finished {
            tracing::debug!(peer = %self.peer, %error, "connection ended");
        }
    }
}
