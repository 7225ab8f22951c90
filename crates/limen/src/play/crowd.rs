//! Clients that keep asking, and what they were told.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::task::JoinSet;

/// Failures that are remembered.
const REMEMBERED: usize = 3;
const PATIENCE: Duration = Duration::from_secs(10);

/// What clients were told over some time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// Answers by cluster.
    pub(crate) clusters: BTreeMap<String, u64>,
    /// Answers by version.
    pub(crate) versions: BTreeMap<String, u64>,
    /// Requests without a good answer.
    pub(crate) failed: u64,
    /// What the first of them met.
    pub(crate) failures: Vec<String>,
    /// The longest that a good answer took.
    pub(crate) slowest: Duration,
}

impl Told {
    /// Requests with a good answer.
    pub(crate) fn answered(&self) -> u64 {
        self.clusters.values().sum()
    }

    /// The share of answers from a cluster, in percent.
    pub(crate) fn share(&self, cluster: &str) -> u64 {
        let from = self.clusters.get(cluster).copied().unwrap_or(0);
        from * 100 / self.answered().max(1)
    }

    /// In one line.
    pub(crate) fn summary(&self) -> String {
        let all = self.answered().max(1);
        let mut shares: Vec<_> = self.clusters.iter().collect();
        shares.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let shares: Vec<String> =
            shares.iter().map(|(name, count)| format!("{name} {} %", *count * 100 / all)).collect();
        let failed = match self.failed {
            0 => "none failed".to_owned(),
            failed => format!("{failed} FAILED ({})", self.failures.join("; ")),
        };
        let shares = if shares.is_empty() { "nobody".to_owned() } else { shares.join(", ") };
        format!("{} answers: {shares}; {failed}", self.answered())
    }
}

/// Clients that keep asking.
pub(crate) struct Crowd {
    told: Arc<Mutex<Told>>,
    clients: JoinSet<()>,
}

impl Crowd {
    /// So many clients, each of which asks so often in a second.
    pub(crate) fn gather(gateway: SocketAddr, clients: usize, rate: f64) -> Self {
        let told = Arc::new(Mutex::new(Told::default()));
        let mut set = JoinSet::new();
        for number in 0..clients {
            let pause = Duration::from_secs_f64(1.0 / rate);
            let first = pause.mul_f64(number as f64 / clients as f64);
            set.spawn(keep_asking(gateway, first, pause, told.clone()));
        }
        Self { told, clients: set }
    }

    /// What they were told since this was last asked.
    pub(crate) fn told(&self) -> Told {
        std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What they are told during some time, and nothing from before it.
    pub(crate) async fn listen(&self, time: Duration) -> Told {
        self.told();
        tokio::time::sleep(time).await;
        self.told()
    }

    /// Sends them home.
    pub(crate) async fn disperse(mut self) {
        self.clients.shutdown().await;
    }
}

async fn keep_asking(
    gateway: SocketAddr,
    first: Duration,
    pause: Duration,
    told: Arc<Mutex<Told>>,
) {
    tokio::time::sleep(first).await;
    let mut ticks = tokio::time::interval(pause);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut sender = None;
    loop {
        ticks.tick().await;
        let start = Instant::now();
        let answer = tokio::time::timeout(PATIENCE, ask(gateway, &mut sender)).await;
        let answer = answer.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer in time")));
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Ok(answer) => {
                let text = |field: &str| answer[field].as_str().unwrap_or("nobody").to_owned();
                *told.clusters.entry(text("cluster")).or_default() += 1;
                *told.versions.entry(text("version")).or_default() += 1;
                told.slowest = told.slowest.max(start.elapsed());
            }
            Err(error) => {
                sender = None;
                told.failed += 1;
                if told.failures.len() < REMEMBERED {
                    told.failures.push(error.to_string());
                }
            }
        }
    }
}

type Sender = SendRequest<Empty<Bytes>>;

/// Asks over a connection that is kept.
async fn ask(gateway: SocketAddr, kept: &mut Option<Sender>) -> Result<Value> {
    let mut sender = match kept.take().filter(|sender| !sender.is_closed()) {
        Some(sender) => sender,
        None => {
            let stream = tokio::net::TcpStream::connect(gateway).await?;
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            sender
        }
    };
    sender.ready().await?;
    let request = Request::builder()
        .uri("/")
        .header("host", gateway.to_string())
        .header("accept", "application/json")
        .body(Empty::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    *kept = Some(sender);
    if !status.is_success() {
        anyhow::bail!("{status}: {}", String::from_utf8_lossy(&body).trim());
    }
    Ok(serde_json::from_slice(&body)?)
}
