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
use tokio::task::{AbortHandle, JoinSet};

use super::live::{Screen, keep_drawing};

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
    /// What one client was told once.
    fn once(answer: &Result<Value>, took: Duration) -> Self {
        match answer {
            Ok(answer) => {
                let text = |field: &str| answer[field].as_str().unwrap_or("nobody").to_owned();
                Self {
                    clusters: [(text("cluster"), 1)].into(),
                    versions: [(text("version"), 1)].into(),
                    slowest: took,
                    ..Self::default()
                }
            }
            Err(error) => Self { failed: 1, failures: vec![error.to_string()], ..Self::default() },
        }
    }

    /// This, and what was told at another time.
    pub(crate) fn add(&mut self, other: &Self) {
        for (ours, theirs) in
            [(&mut self.clusters, &other.clusters), (&mut self.versions, &other.versions)]
        {
            for (name, count) in theirs {
                *ours.entry(name.clone()).or_default() += count;
            }
        }
        self.failed += other.failed;
        let room = REMEMBERED.saturating_sub(self.failures.len());
        self.failures.extend(other.failures.iter().take(room).cloned());
        self.slowest = self.slowest.max(other.slowest);
    }

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
    gateway: SocketAddr,
    told: Arc<Mutex<Told>>,
    /// The same once more, for the picture.
    shown: Arc<Mutex<Told>>,
    screen: Arc<Mutex<Screen>>,
    tasks: JoinSet<()>,
}

impl Crowd {
    /// Nobody yet, before a gateway of these clusters.
    pub(crate) fn new(
        gateway: SocketAddr,
        clusters: Vec<String>,
        screen: Arc<Mutex<Screen>>,
    ) -> Self {
        let (told, shown) = (Arc::default(), Arc::<Mutex<Told>>::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(keep_drawing(screen.clone(), shown.clone(), clusters));
        Self { gateway, told, shown, screen, tasks }
    }

    /// So many clients more, each of which asks so often in a second, until they are sent home.
    pub(crate) fn gather(&mut self, clients: usize, rate: f64) -> Vec<AbortHandle> {
        let pause = Duration::from_secs_f64(1.0 / rate);
        let client = |number: usize| {
            let first = pause.mul_f64(number as f64 / clients as f64);
            let told = [self.told.clone(), self.shown.clone()];
            self.tasks.spawn(keep_asking(self.gateway, first, pause, told))
        };
        (0..clients).map(client).collect()
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
        self.tasks.shutdown().await;
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

async fn keep_asking(
    gateway: SocketAddr,
    first: Duration,
    pause: Duration,
    told: [Arc<Mutex<Told>>; 2],
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
        if answer.is_err() {
            sender = None;
        }
        let once = Told::once(&answer, start.elapsed());
        for told in &told {
            told.lock().unwrap_or_else(PoisonError::into_inner).add(&once);
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
