//! Raw HTTP requests: one connection each, and the path is sent as it is written.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use crate::{
    run::{Answer, Content, content},
    script::Request,
    subject::Subject,
};

const LIMIT: Duration = Duration::from_secs(60);

/// The headers that tell a client something; the others are the server's own affair.
const HEADERS: [&str; 7] = [
    "content-type",
    "warning",
    "location",
    "allow",
    "retry-after",
    "www-authenticate",
    "cache-control",
];

pub(crate) async fn send(subject: &Subject, request: &Request, body: Vec<u8>) -> Result<Answer> {
    let exchange = timeout(LIMIT, exchange(subject, request, body)).await;
    // A server that hangs up is an answer too, to be compared with the other's.
    Ok(match exchange {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => failure(&format!("failed: {error:#}")),
        Err(_) => failure("no end within the time limit"),
    })
}

fn failure(text: &str) -> Answer {
    Answer { parts: vec![("status".to_owned(), Content::Text(text.to_owned()))] }
}

async fn exchange(subject: &Subject, request: &Request, body: Vec<u8>) -> Result<Answer> {
    let tls = if request.without_certificate { &subject.anonymous } else { &subject.admin };
    let stream = TcpStream::connect(subject.address).await?;
    let name = ServerName::IpAddress(subject.address.ip().into());
    let stream = TlsConnector::from(tls.clone()).connect(name, stream).await.context("TLS")?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);

    let mut message = http::Request::builder()
        .method(request.method.as_bytes())
        .uri(&request.path)
        .header("host", subject.address.to_string());
    for (name, value) in &request.headers {
        message = message.header(name, value);
    }
    let response = sender.send_request(message.body(Full::new(Bytes::from(body)))?).await?;

    let mut parts = vec![("status".to_owned(), text(response.status().as_str()))];
    for name in HEADERS {
        let mut values: Vec<_> = response
            .headers()
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect();
        values.sort();
        if !values.is_empty() {
            parts.push((format!("header {name}"), text(&values.join("\n"))));
        }
    }
    let body = read(response.into_body(), request.lines).await?;
    let body = match String::from_utf8(body) {
        Ok(body) if !body.contains('\0') => content(&body),
        _ => text("(binary)"),
    };
    parts.push(("body".to_owned(), body));
    connection.abort();
    Ok(Answer { parts })
}

/// The body, or as many of its lines as wanted.
async fn read(mut body: Incoming, lines: Option<usize>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
        let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        if let Some(lines) = lines
            && let Some((end, _)) = ends.nth(lines - 1)
        {
            bytes.truncate(end + 1);
            break;
        }
    }
    Ok(bytes)
}

fn text(text: &str) -> Content {
    Content::Text(text.to_owned())
}
