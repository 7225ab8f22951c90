//! A request to something on this machine.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Asks, on a connection of its own; status and body as JSON, or null if it is not.
pub(crate) async fn ask(
    to: SocketAddr,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<(StatusCode, Value)> {
    let asked = async {
        let stream = tokio::net::TcpStream::connect(to).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", to.to_string())
            .header("accept", "application/json")
            .header("content-type", "application/json")
            .body(Full::new(bytes))?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        drop(sender);
        connection.abort();
        anyhow::Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    };
    let answer = tokio::time::timeout(PATIENCE, asked).await;
    answer.context("no answer in time")?
}
