//! Clients over real HTTP, and what they were told.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::world::{HOST, eventually};

/// A request that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// One answer: the cluster and the version that gave it, or what went wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answer {
    From { cluster: String, version: String },
    Failed(String),
}

impl Answer {
    pub(crate) fn cluster(&self) -> &str {
        match self {
            Self::From { cluster, .. } => cluster,
            Self::Failed(what) => what,
        }
    }

    pub(crate) fn version(&self) -> &str {
        match self {
            Self::From { version, .. } => version,
            Self::Failed(what) => what,
        }
    }

    pub(crate) fn failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

/// How often each of some names comes.
pub(crate) fn count<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

/// Asks once, over a connection of its own: the status, and the body as JSON or text.
pub(crate) async fn ask(
    address: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
) -> (u16, Value) {
    let mut connection = Connection::new(address);
    let asked = connection.send(method, path, headers).await;
    asked.unwrap_or_else(|error| (0, Value::String(error)))
}

/// A client that keeps its connection.
pub(crate) struct Connection {
    to: SocketAddr,
    kept: Option<SendRequest<Empty<Bytes>>>,
    /// Sent with every request for the application.
    headers: Vec<(String, String)>,
}

impl Connection {
    pub(crate) fn new(to: SocketAddr) -> Self {
        Self { to, kept: None, headers: Vec::new() }
    }

    /// A client that a trusted proxy says is at that address.
    pub(crate) fn from_address(to: SocketAddr, client: &str) -> Self {
        let headers = vec![("x-forwarded-for".to_owned(), client.to_owned())];
        Self { to, kept: None, headers }
    }

    /// One request for the application.
    pub(crate) async fn shop(&mut self) -> Answer {
        let own = self.headers.clone();
        let mut headers = vec![("host", HOST), ("accept", "application/json")];
        headers.extend(own.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let sent = tokio::time::timeout(PATIENCE, self.send(Method::GET, "/", &headers)).await;
        match sent.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
            Ok((200, body)) => {
                let text = |field: &str| body[field].as_str().unwrap_or("nobody").to_owned();
                Answer::From { cluster: text("cluster"), version: text("version") }
            }
            Ok((status, body)) => Answer::Failed(format!("{status}: {body}")),
            Err(error) => Answer::Failed(error),
        }
    }

    /// So many requests for the application, one after the other.
    pub(crate) async fn shop_times(&mut self, times: usize) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(times);
        for _ in 0..times {
            answers.push(self.shop().await);
        }
        answers
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<(u16, Value), String> {
        let mut sender = match self.kept.take().filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let text = |error: hyper::Error| error.to_string();
        sender.ready().await.map_err(text)?;
        let mut request = Request::builder().method(method).uri(path);
        if headers.iter().all(|(name, _)| *name != "host") {
            request = request.header("host", self.to.to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Empty::new()).map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(text)?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(text)?.to_bytes();
        self.kept = Some(sender);
        let whole = || Value::String(String::from_utf8_lossy(&body).into_owned());
        Ok((status, serde_json::from_slice(&body).unwrap_or_else(|_| whole())))
    }

    /// A gateway listens a moment after it is ready.
    async fn connect(&self) -> Result<SendRequest<Empty<Bytes>>, String> {
        let mut left = 200;
        let stream = loop {
            match tokio::net::TcpStream::connect(self.to).await {
                Ok(stream) => break stream,
                Err(error) if left == 0 => return Err(error.to_string()),
                Err(_) => left -= 1,
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// Clients that keep asking for the application.
pub(crate) struct Crowd {
    answers: Arc<Mutex<Vec<Answer>>>,
    clients: JoinSet<()>,
}

impl Crowd {
    /// Clients of these gateways, each of which asks again after a pause.
    pub(crate) fn gather(gateways: &[SocketAddr], clients: usize, pause: Duration) -> Self {
        let answers: Arc<Mutex<Vec<Answer>>> = Arc::default();
        let mut set = JoinSet::new();
        for number in 0..clients {
            let mut client = Connection::new(gateways[number % gateways.len()]);
            let answers = answers.clone();
            let mut ticks = tokio::time::interval(pause);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            set.spawn(async move {
                loop {
                    ticks.tick().await;
                    let answer = client.shop().await;
                    answers.lock().unwrap().push(answer);
                }
            });
        }
        Self { answers, clients: set }
    }

    /// What they were told since this was last asked.
    pub(crate) fn told(&self) -> Vec<Answer> {
        std::mem::take(&mut *self.answers.lock().unwrap())
    }

    /// The next so many answers, of which none has failed.
    pub(crate) async fn next(&self, wanted: usize) -> Vec<Answer> {
        self.told();
        let mut answers = Vec::new();
        eventually("answers", async || {
            answers.extend(self.told());
            (answers.len() >= wanted, format!("{} of {wanted}", answers.len()))
        })
        .await;
        none_failed(&answers);
        answers
    }

    /// Waits until so many answers in a row are all from one cluster. None may fail meanwhile.
    pub(crate) async fn settled(&self, wanted: usize, cluster: &str) {
        let (mut run, mut last) = (0, Vec::new());
        eventually(&format!("all answers come from {cluster}"), async || {
            let answers = self.told();
            none_failed(&answers);
            for answer in answers {
                run = if answer.cluster() == cluster { run + 1 } else { 0 };
                last.push(answer);
            }
            last.drain(..last.len().saturating_sub(wanted));
            (run >= wanted, format!("{:?}", count(last.iter().map(Answer::cluster))))
        })
        .await;
    }

    /// Sends them home; what they were told that nobody has asked for.
    pub(crate) async fn disperse(mut self) -> Vec<Answer> {
        self.clients.shutdown().await;
        self.told()
    }
}

/// No request has failed.
pub(crate) fn none_failed(answers: &[Answer]) {
    let failed: Vec<_> = answers.iter().filter(|answer| answer.failed()).take(3).collect();
    assert!(failed.is_empty(), "of {} requests these failed, or more: {failed:?}", answers.len());
}
