//! One probe.

use std::time::Instant;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, TE, USER_AGENT};
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use limen_core::global::HealthCheckKind;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::{Health, Question};
use crate::upstream::tcp;

const AGENT: &str = "limen-gateway-probe";

/// Asks once. The error is for a person.
pub(super) async fn probe(health: &Health) -> Result<(), String> {
    let started = Instant::now();
    let question = &health.question;
    let stream = tcp(&question.destination).await.map_err(|error| error.to_string())?;
    health.connected(started.elapsed());
    match question.kind {
        HealthCheckKind::Tcp | HealthCheckKind::None => Ok(()),
        // On the heap, so that the many who only connect are small.
        _ => Box::pin(speak(health, stream)).await,
    }
}

async fn speak(health: &Health, stream: TcpStream) -> Result<(), String> {
    let Question { kind, host, .. } = &health.question;
    if *kind == HealthCheckKind::Http {
        return http(health, stream).await;
    }
    let Some(tls) = &health.tls else { return grpc(health, stream).await };
    let stream = tls.connect(host, stream).await.map_err(|error| error.to_string())?;
    if *kind == HealthCheckKind::Grpc {
        return grpc(health, stream).await;
    }
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        return http_over_h2(health, stream).await;
    }
    http(health, stream).await
}

async fn http<I>(health: &Health, stream: I) -> Result<(), String>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let text = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
    let request = Request::get(health.question.path.as_str())
        .header(HOST, &health.question.host)
        .header(USER_AGENT, AGENT)
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request);
    tokio::pin!(answer, connection);
    tokio::select! {
        biased;
        answer = &mut answer => judge(&answer.map_err(text)?),
        _ = &mut connection => judge(&answer.await.map_err(text)?),
    }
}

async fn http_over_h2<I>(health: &Health, stream: I) -> Result<(), String>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let uri = format!("https://{}{}", health.question.host, health.question.path);
    let request = Request::get(uri)
        .header(USER_AGENT, AGENT)
        .body(Full::default())
        .map_err(|error| error.to_string())?;
    judge(&over_h2(stream, request).await?)
}

fn judge(answer: &Response<Incoming>) -> Result<(), String> {
    match answer.status().as_u16() {
        100..400 => Ok(()),
        _ => Err(format!("answered {}", answer.status())),
    }
}

/// `grpc.health.v1.Health/Check` for the server as a whole.
async fn grpc<I>(health: &Health, stream: I) -> Result<(), String>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let scheme = if health.tls.is_some() { "https" } else { "http" };
    let uri = format!("{scheme}://{}/grpc.health.v1.Health/Check", health.question.host);
    let request = Request::post(uri)
        .header(CONTENT_TYPE, "application/grpc")
        .header(TE, "trailers")
        .header(USER_AGENT, AGENT)
        // An uncompressed message of no bytes: a request without a service name.
        .body(Full::new(Bytes::from_static(&[0; 5])))
        .map_err(|error| error.to_string())?;
    let answer = over_h2(stream, request).await?;
    judge(&answer)?;
    let body = Limited::new(answer.into_body(), 1024).collect().await;
    let body = body.map_err(|error| error.to_string())?;
    let status = body.trailers().and_then(|trailers| trailers.get("grpc-status"));
    if status.is_some_and(|status| status != "0") {
        return Err(format!(
            "grpc-status is {}",
            status.and_then(|s| s.to_str().ok()).unwrap_or("?")
        ));
    }
    // The answer's only field: number 1, an enumeration of which 1 is SERVING.
    match body.to_bytes().get(5..) {
        Some([0x08, 0x01]) => Ok(()),
        _ => Err("does not say SERVING".to_owned()),
    }
}

async fn over_h2<I>(stream: I, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let text = |error: hyper::Error| error.to_string();
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(text)?;
    // It ends when the sender and the answer are gone.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(text)
}
