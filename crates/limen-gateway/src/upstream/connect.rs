//! A new connection to an endpoint.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use limen_core::global::Protocol;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::body::OutBody;
use super::endpoint::{Destination, Endpoint};
use super::failure::{Failure, FailureKind};

/// An answer is read in pieces of at most this, and its head must fit into one. How slowly a client
/// may take an answer over HTTP/2 depends on it, as a client is seen to take pieces, not bytes.
const LARGEST_PIECE: usize = 64 * 1024;

/// What sends requests over a connection.
pub(crate) enum Sender {
    /// With the task of its connection.
    Http1(http1::SendRequest<OutBody>, AbortHandle),
    Http2(http2::SendRequest<OutBody>),
}

impl Sender {
    pub(crate) async fn send(
        &mut self,
        request: Request<OutBody>,
    ) -> Result<Response<Incoming>, TrySendError<Request<OutBody>>> {
        match self {
            Self::Http1(sender, _) => sender.try_send_request(request).await,
            Self::Http2(sender) => sender.try_send_request(request).await,
        }
    }

    pub(crate) fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(_))
    }
}

/// Counts an open connection until it is dropped.
pub(super) struct Open(Arc<Endpoint>);

impl Open {
    /// Counts a connection, unless there are `most` already.
    pub(super) fn new(endpoint: &Arc<Endpoint>, most: u32) -> Result<Self, Failure> {
        if endpoint.connections.fetch_add(1, Ordering::Relaxed) >= most {
            endpoint.connections.fetch_sub(1, Ordering::Relaxed);
            let detail = format!("{most} connections to {} are open", endpoint.destination);
            return Err(Failure::new(FailureKind::Full, detail));
        }
        Ok(Self(endpoint.clone()))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Opens a connection, unless there are `most` already.
pub(crate) async fn connect(
    endpoint: &Arc<Endpoint>,
    server_name: &str,
    patience: Duration,
    most: u32,
) -> Result<Sender, Failure> {
    let open = Open::new(endpoint, most)?;
    let failed = |step: &str, error: &dyn std::fmt::Display| {
        let detail = format!("{step} {}: {error}", endpoint.destination);
        Failure::new(FailureKind::Connect, detail)
    };
    let stream = timeout(patience, tcp(&endpoint.destination))
        .await
        .map_err(|_| failed("cannot connect to", &"no answer in time"))?
        .map_err(|error| failed("cannot connect to", &error))?;
    let Some(tls) = &endpoint.tls else {
        return handshake(stream, endpoint.protocol == Protocol::H2c, open)
            .await
            .map_err(|error| failed("cannot speak to", &error));
    };
    let stream = timeout(patience, tls.connect(server_name, stream))
        .await
        .map_err(|_| failed("no TLS with", &"no answer in time"))?
        .map_err(|error| failed("no TLS with", &error))?;
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    handshake(stream, http2, open).await.map_err(|error| failed("cannot speak to", &error))
}

/// A stream to a destination.
pub(crate) async fn tcp(destination: &Destination) -> std::io::Result<TcpStream> {
    let stream = match destination {
        Destination::Ip(address) => TcpStream::connect(address).await?,
        Destination::Name(name, port) => TcpStream::connect((name.as_str(), *port)).await?,
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn handshake<I>(stream: I, http2: bool, open: Open) -> Result<Sender, hyper::Error>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    if http2 {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(Some(Duration::from_secs(20)))
            .keep_alive_timeout(Duration::from_secs(10))
            .initial_stream_window_size(Some(1 << 20))
            .initial_connection_window_size(Some(4 << 20))
            .handshake(io)
            .await?;
        tokio::spawn(async move {
            let _open = open;
            // Requests hear of it themselves.
            let _ = connection.await;
        });
        return Ok(Sender::Http2(sender));
    }
    let (sender, connection) =
        http1::Builder::new().max_buf_size(LARGEST_PIECE).handshake(io).await?;
    let task = tokio::spawn(async move {
        let _open = open;
        let _ = connection.with_upgrades().await;
    });
    Ok(Sender::Http1(sender, task.abort_handle()))
}
