//! Questions as HTTP requests (RFC 8484).

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::tcp::Answering;
use super::udp::milliseconds;
use crate::wire::{HEADER, kind, name, u16_at};

const PATH: &str = "/dns-query";
const MESSAGE: &str = "application/dns-message";
/// The longest question that is read; real ones are far shorter.
const LONGEST: usize = 4096;
/// Requests of one connection at once, and what may wait to be read or sent, in bytes.
const STREAMS: u32 = 32;
const WINDOW: u32 = 64 * 1024;
const HEADERS: u32 = 16 * 1024;

type Answer = Response<Full<Bytes>>;

/// Answers requests until the client goes or has been silent for too long.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    client: IpAddr,
    answering: Arc<Answering>,
) {
    let idle = answering.idle;
    let last = Arc::new(AtomicU64::new(milliseconds()));
    let heard = last.clone();
    let service = service_fn(move |request| {
        heard.store(milliseconds(), Ordering::Relaxed);
        let answering = answering.clone();
        async move {
            let answer = timeout(idle, answer(request, client, &answering)).await;
            let late = || text(StatusCode::REQUEST_TIMEOUT, "the question came too slowly\n");
            Ok::<_, Infallible>(answer.unwrap_or_else(|_| late()))
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_buf_size(HEADERS as usize);
    builder
        .http2()
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_header_list_size(HEADERS)
        .max_send_buf_size(WINDOW as usize);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    loop {
        tokio::select! {
            // How a connection ends is the client's business.
            _ = connection.as_mut() => return,
            () = tokio::time::sleep(idle) => {
                let silent = milliseconds().saturating_sub(last.load(Ordering::Relaxed));
                if u128::from(silent) >= idle.as_millis() {
                    connection.as_mut().graceful_shutdown();
                    let _ = timeout(idle, connection.as_mut()).await;
                    return;
                }
            }
        }
    }
}

async fn answer(request: Request<Incoming>, client: IpAddr, answering: &Answering) -> Answer {
    if request.uri().path() != PATH {
        return text(StatusCode::NOT_FOUND, "questions are answered at /dns-query\n");
    }
    let packet = match *request.method() {
        Method::GET => match from_query(request.uri().query().unwrap_or_default()) {
            Some(packet) => packet,
            None => {
                return text(StatusCode::BAD_REQUEST, "give ?dns= and a message in base64url\n");
            }
        },
        Method::POST => {
            let kind = request.headers().get(CONTENT_TYPE);
            if kind.is_none_or(|kind| kind != MESSAGE) {
                let why = "send application/dns-message\n";
                return text(StatusCode::UNSUPPORTED_MEDIA_TYPE, why);
            }
            match Limited::new(request.into_body(), LONGEST).collect().await {
                Ok(body) => body.to_bytes().to_vec(),
                Err(_) => return text(StatusCode::PAYLOAD_TOO_LARGE, "the message is too long\n"),
            }
        }
        _ => {
            let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "use GET or POST\n");
            refused.headers_mut().insert(ALLOW, http::HeaderValue::from_static("GET, POST"));
            return refused;
        }
    };
    let mut out = Vec::new();
    if !answering.respond(&packet, client, &mut out) {
        return text(StatusCode::BAD_REQUEST, "that is not a question\n");
    }
    let age = format!("max-age={}", shortest_ttl(&out));
    let mut response = Response::new(Full::new(Bytes::from(out)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(MESSAGE));
    if let Ok(age) = http::HeaderValue::from_str(&age) {
        headers.insert(CACHE_CONTROL, age);
    }
    response
}

fn from_query(query: &str) -> Option<Vec<u8>> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("dns="))?;
    if value.len() > LONGEST {
        return None;
    }
    URL_SAFE_NO_PAD.decode(value.trim_end_matches('=')).ok()
}

fn text(status: StatusCode, why: &'static str) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from_static(why.as_bytes())));
    *response.status_mut() = status;
    response
}

/// How long an answer may be remembered: as long as its shortest record.
fn shortest_ttl(packet: &[u8]) -> u32 {
    let count = |at| usize::from(u16_at(packet, at).unwrap_or_default());
    let walk = || {
        let mut at = HEADER;
        if count(4) == 1 {
            at = name::skip(packet, at)? + 4;
        }
        let mut shortest = None;
        for _ in 0..count(6) + count(8) {
            at = name::skip(packet, at)?;
            let ttl = u32::from_be_bytes(packet.get(at + 4..at + 8)?.try_into().ok()?);
            if u16_at(packet, at)? != kind::OPT {
                shortest = Some(shortest.map_or(ttl, |shortest: u32| shortest.min(ttl)));
            }
            at += 10 + usize::from(u16_at(packet, at + 8)?);
        }
        shortest
    };
    walk().unwrap_or_default()
}
