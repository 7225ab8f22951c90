//! One client connection: what it speaks, and its requests one after the other or side by side.
//!
//! ```text
//! accepted ─► PROXY header? ─► TLS? ─┬─ HTTP/1 ─► fast ─ unusual ─► strict ─► hyper ─► proxy
//!                                    └─ HTTP/2 ─► hyper ─► fast ─ unusual ────────────► proxy
//! ```

mod fast;
mod held;
mod proxy_header;
mod streams;
pub(crate) mod strict;
mod strict_io;
mod written;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1::UpgradeableConnection;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ProtocolVersion;
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;

use crate::proxy::{self, Client};
use crate::worker::Shared;
use fast::{Ended, Fast};
use held::{Ending, Held};
use streams::{Due, Idle, Streams};
use strict_io::StrictIo;
use written::Written;

/// Counts an open client connection until it is dropped.
pub(crate) struct Open(Arc<Shared>);

impl Open {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        shared.connections.fetch_add(1, Ordering::Relaxed);
        shared.metrics.connections.add(1);
        Self(shared.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
        self.0.metrics.connections_closed.add(1);
    }
}

/// Serves one connection to its end.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    mut stream: TcpStream,
    peer: SocketAddr,
    tls: bool,
    _open: Open,
) {
    let patience = shared.options.limits.head;
    let Ok(local) = stream.local_addr() else { return };
    let mut address = peer;
    if shared.options.proxy_protocol {
        match timeout(patience, proxy_header::read(&mut stream)).await {
            Ok(Ok(named)) => address = named.unwrap_or(peer),
            Ok(Err(error)) => {
                shared.metrics.malformed.add(1);
                tracing::debug!(%peer, %error, "no PROXY header");
                return;
            }
            Err(_) => return,
        }
    }
    if !tls {
        let client = Arc::new(Client::new(address, local, None, None, &shared.options));
        let first = tokio::select! {
            first = timeout(shared.options.limits.idle, starts_http2(&stream, patience)) => first,
            () = shared.stop.cancelled() => return,
        };
        match first {
            // Boxed, as everywhere below: a connection that never gets here need not have room for it.
            Ok(Some(true)) => Box::pin(serve_http2(shared, stream, client)).await,
            Ok(Some(false)) => serve_http1(shared, stream, client).await,
            // Nothing was ever asked.
            Ok(None) | Err(_) => {}
        }
        return;
    }
    let shaken = timeout(patience, Box::pin(handshake(&shared, stream, address, local))).await;
    match shaken {
        Ok(Ok((stream, client))) => {
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                Box::pin(serve_http2(shared, stream, client)).await;
            } else {
                Box::pin(serve_http1(shared, stream, client)).await;
            }
        }
        Ok(Err(error)) => {
            shared.metrics.handshakes_failed.add(1);
            tracing::debug!(%peer, %error, "TLS handshake failed");
        }
        Err(_) => shared.metrics.handshakes_failed.add(1),
    }
}

type Encrypted = tokio_rustls::server::TlsStream<Held<TcpStream>>;

async fn handshake(
    shared: &Shared,
    stream: TcpStream,
    address: SocketAddr,
    local: SocketAddr,
) -> std::io::Result<(Encrypted, Arc<Client>)> {
    let mut acceptor = LazyConfigAcceptor::new(Acceptor::default(), Held::new(stream));
    let start = match (&mut acceptor).await {
        Ok(start) => start,
        Err(error) => return Err(told(acceptor.take_io(), error).await),
    };
    let name = start.client_hello().server_name().map(str::to_owned);
    let mutual = shared.tls.mutual_for(name.as_deref());
    let config = mutual.as_ref().map_or(&shared.tls.config, |mutual| &mutual.config).clone();
    let mut stream = match start.into_stream(config).into_fallible().await {
        Ok(stream) => stream,
        Err((error, io)) => return Err(told(Some(io), error).await),
    };
    stream.get_mut().0.shaken();
    let version = match stream.get_ref().1.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => "1.3",
        _ => {
            // The client waits for the end of the handshake.
            stream.flush().await?;
            "1.2"
        }
    };
    let authority = mutual.map(|mutual| mutual.authority);
    let client = Client::new(address, local, Some(version), authority, &shared.options);
    Ok((stream, Arc::new(client)))
}

/// A handshake has failed, and the client hears why, as far as TLS has a word for it.
async fn told(io: Option<Held<TcpStream>>, error: std::io::Error) -> std::io::Error {
    if let Some(mut io) = io {
        // Who has gone away hears nothing.
        let _ = io.shutdown().await;
    }
    error
}

/// Whether a plain connection starts with the preface of HTTP/2; nothing if that takes too long to
/// tell. Takes nothing from it.
async fn starts_http2(stream: &TcpStream, patience: Duration) -> Option<bool> {
    const START: &[u8] = b"PRI ";
    let mut first = [0; START.len()];
    let (mut pause, mut waited) = (Duration::from_millis(2), Duration::ZERO);
    loop {
        match stream.peek(&mut first).await {
            Ok(length) if length == START.len() => return Some(first == START),
            Ok(length) if length > 0 && START.starts_with(&first[..length]) => {
                if waited >= patience {
                    return None;
                }
                // A preface in pieces: nobody does that, so waiting can be crude, and costs less
                // and less.
                tokio::time::sleep(pause).await;
                waited += pause;
                pause *= 2;
            }
            _ => return Some(false),
        }
    }
}

async fn serve_http1<I>(shared: Arc<Shared>, stream: I, client: Arc<Client>)
where
    I: AsyncRead + AsyncWrite + Ending + Unpin + Send + 'static,
{
    if let Ended::HandOver(stream, read) =
        Fast::new(stream, shared.clone(), client.clone()).run().await
    {
        Box::pin(serve_unusual(shared, stream, read, client)).await;
    }
}

/// Serves a connection that has shown to be out of the ordinary, and of which this has been read.
async fn serve_unusual<I>(shared: Arc<Shared>, stream: I, read: Vec<u8>, client: Arc<Client>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &shared.options.limits;
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .max_headers(limits.headers)
        .max_header_size(limits.head_bytes)
        .half_close(false);
    let io = TokioIo::new(StrictIo::new(stream, read, shared.clone(), client.clone()));
    let (stopping, state) = (shared.clone(), shared.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let (shared, client) = (state.clone(), client.clone());
        async move { Ok::<_, std::convert::Infallible>(proxy::handle(shared, client, request).await) }
    });
    let connection = pin!(builder.serve_connection(io, service).with_upgrades());
    until_stop(&stopping, connection, UpgradeableConnection::graceful_shutdown, None).await;
}

async fn serve_http2<I>(shared: Arc<Shared>, stream: I, client: Arc<Client>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &shared.options.limits;
    let streams = Streams::new(limits.idle);
    let mut builder = http2::Builder::new(streams.clone());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        // Streams that a client opens and resets at once are what floods are made of.
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(256)
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(1024 * 1024)
        .max_send_buf_size(256 * 1024)
        .keep_alive_interval(limits.idle / 2)
        .keep_alive_timeout(limits.head);
    let (stopping, state) = (shared.clone(), shared.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let (shared, client) = (state.clone(), client.clone());
        // Boxed where it is made: on its way to a task of its own it is moved many times.
        let handled = Box::pin(fast::serve_http2_request(shared, client, request));
        async move { Ok::<_, std::convert::Infallible>(handled.await) }
    });
    let connection =
        pin!(builder.serve_connection(TokioIo::new(Written::new(stream, &streams)), service));
    drop(builder);
    let idle = Some(Idle::new(streams));
    until_stop(&stopping, connection, http2::Connection::graceful_shutdown, idle).await;
}

/// Runs a connection to its end, and tells it once when the gateway is to stop. One that is `idle`
/// for too long ends.
async fn until_stop<C>(
    shared: &Shared,
    mut connection: Pin<&mut C>,
    tell: impl Fn(Pin<&mut C>),
    mut idle: Option<Idle>,
) where
    C: Future<Output = hyper::Result<()>>,
{
    let mut stop = pin!(shared.stop.cancelled());
    let (mut registered, mut told) = (false, false);
    let ended = std::future::poll_fn(|context| {
        // Asking once is enough to be woken, and cheaper than asking on every wake.
        if !told && (!registered || shared.is_stopping()) {
            registered = true;
            if stop.as_mut().poll(context).is_ready() || shared.is_stopping() {
                told = true;
                tell(connection.as_mut());
            }
        }
        match idle.as_mut().map_or(Due::Nothing, |idle| idle.look(context)) {
            Due::Nothing => {}
            Due::Tell => tell(connection.as_mut()),
            Due::End => return Poll::Ready(Ok(())),
        }
        connection.as_mut().poll(context)
    });
    // What must be cut off is dropped with the worker's runtime.
    if let Err(error) = ended.await {
        tracing::debug!(%error, "connection ended");
    }
}
