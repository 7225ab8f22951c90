//! One probe.

use limen_core::global::HealthCheckKind;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::tls;
use crate::knowledge::Probe;

/// The longest beginning of an answer that is looked at.
const LONGEST: usize = 256;

/// Asks once. The error is for a person.
pub(super) async fn probe(probe: &Probe) -> Result<(), String> {
    let address = (probe.address.host.as_str(), probe.address.port);
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    match probe.kind {
        HealthCheckKind::Tcp | HealthCheckKind::None => Ok(()),
        HealthCheckKind::Http => ask(probe, stream).await,
        HealthCheckKind::Https => ask(probe, tls::connect(&probe.host, stream).await?).await,
        // Whether a service serves is for gateways to ask, who speak HTTP/2.
        HealthCheckKind::Grpc => Ok(()),
    }
}

async fn ask(probe: &Probe, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let Probe { host, path, .. } = probe;
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {host}\r\nuser-agent: limen-dns-probe\r\n\
         accept: */*\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.map_err(text)?;
    let mut answer = Vec::new();
    while answer.len() < LONGEST && !answer.contains(&b'\n') {
        let mut part = [0; LONGEST];
        match stream.read(&mut part).await.map_err(text)? {
            0 => break,
            length => answer.extend_from_slice(&part[..length]),
        }
    }
    judge(&answer)
}

fn judge(answer: &[u8]) -> Result<(), String> {
    let line = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let is_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
    match words.next().and_then(|status| status.parse::<u16>().ok()).filter(|_| is_http) {
        Some(100..400) => Ok(()),
        Some(status) => Err(format!("answered {status}")),
        None => Err("does not answer in HTTP".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_below_400_are_well() {
        for (answer, outcome) in [
            ("HTTP/1.1 200 OK\r\n", Ok(())),
            ("HTTP/1.0 302 Found\r\n", Ok(())),
            ("HTTP/1.1 503 Service Unavailable\r\n", Err("answered 503".to_owned())),
            ("SSH-2.0-OpenSSH\r\n", Err("does not answer in HTTP".to_owned())),
            ("", Err("does not answer in HTTP".to_owned())),
        ] {
            assert_eq!(judge(answer.as_bytes()), outcome, "{answer:?}");
        }
    }
}
