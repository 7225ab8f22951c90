//! Metrics and readiness, over the plainest HTTP.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::respond::Common;
use crate::zone::Zones;

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Serves for as long as the server runs.
pub(crate) async fn serve(
    common: Arc<Common>,
    listener: TcpListener,
    ready: watch::Receiver<bool>,
) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (common, ready) = (common.clone(), *ready.borrow());
        tokio::spawn(async move {
            // Whoever asked has gone, or was too slow.
            let _ = tokio::time::timeout(PATIENCE, answer(stream, &common, ready)).await;
        });
    }
}

fn problems(zones: &Zones) -> String {
    let lines: Vec<&str> = zones.all_problems().map(String::as_str).collect();
    lines.join("\n")
}

async fn answer(mut stream: TcpStream, common: &Common, ready: bool) -> std::io::Result<()> {
    let mut head = vec![0; 4096];
    let mut length = 0;
    while !head[..length].windows(4).any(|end| end == b"\r\n\r\n") && length < head.len() {
        match stream.read(&mut head[length..]).await? {
            0 => return Ok(()),
            more => length += more,
        }
    }
    let line = String::from_utf8_lossy(&head[..length]);
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let (status, body) = match path.as_str() {
        "/metrics" => {
            let zones = common.zones.load();
            let hosts = zones.hosts;
            let gauge = "limen_dns_hosts";
            let text = format!(
                "{}# HELP {gauge} Hosts that are answered for.\n# TYPE {gauge} gauge\n{gauge} {hosts}\n",
                common.counters.text(&common.log)
            );
            ("200 OK", text)
        }
        "/readyz" if ready => ("200 OK", "ok\n".to_owned()),
        "/readyz" => ("503 Service Unavailable", "nothing to answer from yet\n".to_owned()),
        "/problems" => ("200 OK", problems(&common.zones.load())),
        _ => ("404 Not Found", "there are /metrics, /readyz and /problems\n".to_owned()),
    };
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; version=0.0.4\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await
}
