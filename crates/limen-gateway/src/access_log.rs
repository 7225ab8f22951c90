//! The access log: one JSON line for each exchange, or for a share of them.
//!
//! Workers hand entries to a thread of the log's own and never wait for it: when it cannot keep
//! up, entries are dropped and counted.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use http::{HeaderValue, Method, Version};
use serde::Serialize;

use crate::options::AccessLogTo;
use crate::upstream::random;

/// Entries that may wait to be written.
const WAITING: usize = 16 * 1024;

/// What is logged of one exchange.
pub(crate) struct Entry {
    pub(crate) client: IpAddr,
    pub(crate) method: Method,
    pub(crate) host: Option<String>,
    pub(crate) path: String,
    pub(crate) version: Version,
    pub(crate) agent: Option<String>,
    pub(crate) tls: Option<&'static str>,
    pub(crate) id: Option<HeaderValue>,
    pub(crate) ingress: Option<String>,
    pub(crate) rule: Option<String>,
    pub(crate) backend: Option<String>,
    pub(crate) cluster: Option<String>,
    pub(crate) address: Option<String>,
    pub(crate) attempts: u32,
    pub(crate) failure: Option<String>,
    pub(crate) refusal: Option<&'static str>,
    pub(crate) status: u16,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) took: Duration,
    pub(crate) complete: bool,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            client: Ipv4Addr::UNSPECIFIED.into(),
            method: Method::GET,
            host: None,
            path: String::new(),
            version: Version::HTTP_11,
            agent: None,
            tls: None,
            id: None,
            ingress: None,
            rule: None,
            backend: None,
            cluster: None,
            address: None,
            attempts: 0,
            failure: None,
            refusal: None,
            status: 0,
            received: 0,
            sent: 0,
            took: Duration::ZERO,
            complete: false,
        }
    }
}

/// The form of an entry.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    client: IpAddr,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    path: &'a str,
    protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<&'a str>,
    status: u16,
    milliseconds: f64,
    received: u64,
    sent: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ingress: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<&'a str>,
    attempts: u32,
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
}

/// Where entries are handed in.
pub(crate) struct AccessLog {
    entries: Option<SyncSender<Box<Entry>>>,
    /// The share of exchanges that are logged, of all numbers of 64 bits.
    share: u64,
}

impl AccessLog {
    /// A log that takes nothing.
    pub(crate) fn off() -> Self {
        Self { entries: None, share: 0 }
    }

    /// Opens the log and starts its thread, which ends when the log is dropped.
    pub(crate) fn open(to: &AccessLogTo, share: f64) -> std::io::Result<Self> {
        let out: Box<dyn Write + Send> = match to {
            AccessLogTo::Stdout => Box::new(std::io::stdout()),
            AccessLogTo::File(path) => {
                Box::new(OpenOptions::new().create(true).append(true).open(path)?)
            }
        };
        let (sender, entries) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("limen-log".to_owned());
        thread.spawn(move || write_all(&entries, BufWriter::new(out)))?;
        // Casts of floating point numbers stop at the ends of the range.
        Ok(Self { entries: Some(sender), share: (share * u64::MAX as f64) as u64 })
    }

    pub(crate) fn is_on(&self) -> bool {
        self.entries.is_some()
    }

    /// Whether an exchange that begins is one that is logged.
    pub(crate) fn picks(&self) -> bool {
        self.is_on() && (self.share == u64::MAX || random() < self.share)
    }

    /// Hands an entry in. Whether there was room for it.
    pub(crate) fn write(&self, entry: Box<Entry>) -> bool {
        self.entries.as_ref().is_none_or(|log| log.try_send(entry).is_ok())
    }
}

fn write_all(entries: &Receiver<Box<Entry>>, mut out: BufWriter<Box<dyn Write + Send>>) {
    while let Ok(first) = entries.recv() {
        // Whatever waits is written in one go.
        for entry in std::iter::once(first).chain(entries.try_iter()) {
            // A full disk must not end the log: later lines may fit again.
            let _ = write_one(&entry, &mut out);
        }
        let _ = out.flush();
    }
}

fn write_one(entry: &Entry, out: &mut impl Write) -> std::io::Result<()> {
    let line = Line {
        time: jiff::Timestamp::now().to_string(),
        client: entry.client,
        method: entry.method.as_str(),
        host: entry.host.as_deref(),
        path: &entry.path,
        protocol: format!("{:?}", entry.version),
        tls: entry.tls,
        status: entry.status,
        milliseconds: entry.took.as_micros() as f64 / 1000.0,
        received: entry.received,
        sent: entry.sent,
        ingress: entry.ingress.as_deref(),
        rule: entry.rule.as_deref(),
        backend: entry.backend.as_deref(),
        cluster: entry.cluster.as_deref(),
        address: entry.address.as_deref(),
        attempts: entry.attempts,
        complete: entry.complete,
        failure: entry.failure.as_deref(),
        refusal: entry.refusal,
        request_id: entry.id.as_ref().and_then(|id| id.to_str().ok()),
        agent: entry.agent.as_deref(),
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}
