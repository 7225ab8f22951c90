//! The query log: one JSON line for each answer, or for a share of them.
//!
//! Workers hand entries to a thread of the log's own and never wait for it: when it cannot keep
//! up, entries are dropped and counted. An entry has what was asked and what came of it, and no
//! data of records, cookies or signatures.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use serde::Serialize;

use crate::metrics::Counter;
use crate::options::{LoggedClients, QueryLogOptions, QueryLogTo};
use crate::respond::Transport;
use crate::wire::{Rcode, kind, name};
use crate::zone::HostPlan;

/// Entries that may wait to be written.
const WAITING: usize = 16 * 1024;

/// What is logged of one question.
pub(crate) struct Entry {
    /// When it came, in milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) client: IpAddr,
    /// The name that was asked for, as it came.
    pub(crate) name: Box<[u8]>,
    pub(crate) kind: u16,
    pub(crate) transport: Transport,
    /// The network that was asked for.
    pub(crate) subnet: Option<(IpAddr, u8)>,
    pub(crate) rcode: Rcode,
    pub(crate) received: usize,
    pub(crate) sent: usize,
    /// The host, and the first of its targets that was answered.
    pub(crate) led_to: Option<(Arc<HostPlan>, usize)>,
    /// Why it got no whole answer.
    pub(crate) refusal: Option<&'static str>,
}

/// The form of an entry.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    host: String,
    #[serde(rename = "type")]
    kind: String,
    protocol: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subnet: Option<String>,
    status: &'static str,
    received: usize,
    sent: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'static str>,
}

/// Where entries are handed in.
#[derive(Default)]
pub(crate) struct QueryLog {
    entries: Option<SyncSender<Box<Entry>>>,
    /// The share of questions that are logged, of all numbers of 64 bits.
    share: u64,
    /// Entries that are missing from the log.
    pub(crate) dropped: Arc<Counter>,
    thread: Option<JoinHandle<()>>,
}

impl QueryLog {
    /// Opens the log and starts its thread.
    pub(crate) fn open(options: &QueryLogOptions) -> std::io::Result<Self> {
        let out: Box<dyn Write + Send> = match &options.to {
            QueryLogTo::Stdout => Box::new(std::io::stdout()),
            QueryLogTo::File(path) => {
                Box::new(OpenOptions::new().create(true).append(true).open(path)?)
            }
        };
        let (sender, entries) = sync_channel(WAITING);
        let (clients, dropped) = (options.clients, Arc::new(Counter::default()));
        let missing = dropped.clone();
        let thread = std::thread::Builder::new()
            .name("limen-dns-log".to_owned())
            .spawn(move || write_all(&entries, BufWriter::new(out), clients, &missing))?;
        // Casts of floating point numbers stop at the ends of the range.
        let share = (options.sample * u64::MAX as f64) as u64;
        Ok(Self { entries: Some(sender), share, dropped, thread: Some(thread) })
    }

    /// Whether a question that has come is one that is logged.
    pub(crate) fn picks(&self) -> bool {
        self.entries.is_some() && (self.share == u64::MAX || rand::random::<u64>() < self.share)
    }

    /// Hands an entry in, if there is room for it.
    pub(crate) fn write(&self, entry: Box<Entry>) {
        if self.entries.as_ref().is_some_and(|log| log.try_send(entry).is_err()) {
            self.dropped.add();
        }
    }
}

impl Drop for QueryLog {
    fn drop(&mut self) {
        // What has been handed in is written before the log ends.
        self.entries = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the query log panicked");
        }
    }
}

fn write_all(
    entries: &Receiver<Box<Entry>>,
    mut out: BufWriter<Box<dyn Write + Send>>,
    clients: LoggedClients,
    dropped: &Counter,
) {
    while let Ok(first) = entries.recv() {
        // Whatever waits is written in one go.
        for entry in std::iter::once(first).chain(entries.try_iter()) {
            // A full disk must not end the log: later lines may fit again.
            if write_one(&entry, clients, &mut out).is_err() {
                dropped.add();
            }
        }
        let _ = out.flush();
    }
}

fn write_one(entry: &Entry, clients: LoggedClients, out: &mut impl Write) -> std::io::Result<()> {
    let milliseconds = i64::try_from(entry.at).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_millisecond(milliseconds).unwrap_or_default();
    let network = |(address, prefix)| clients.shown(address, prefix);
    let led_to = entry.led_to.as_ref();
    let target = led_to.and_then(|(plan, target)| plan.backend.targets.get(*target));
    let line = Line {
        time: time.to_string(),
        client: clients.shown(entry.client, u8::MAX),
        host: name::to_text(&entry.name),
        kind: kind::text(entry.kind),
        protocol: entry.transport.text(),
        subnet: entry.subnet.and_then(network),
        status: entry.rcode.text(),
        received: entry.received,
        sent: entry.sent,
        cluster: target.map(|target| target.cluster.as_str()),
        refusal: entry.refusal,
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

impl LoggedClients {
    /// How an address, of which so many bits are known, is written; if it is.
    fn shown(self, address: IpAddr, known: u8) -> Option<String> {
        let (whole, network) = if address.is_ipv4() { (32, 24) } else { (128, 56) };
        let bits = match self {
            Self::Nothing => return None,
            Self::Whole => whole,
            Self::Network => network,
        };
        let bits = known.min(bits);
        if bits == whole {
            return Some(address.to_string());
        }
        let net = ipnet::IpNet::new(address, bits).ok()?.trunc();
        Some(net.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_as_far_as_wished() {
        for (clients, address, known, expected) in [
            (LoggedClients::Whole, "192.0.2.7", u8::MAX, Some("192.0.2.7")),
            (LoggedClients::Network, "192.0.2.7", u8::MAX, Some("192.0.2.0/24")),
            (LoggedClients::Nothing, "192.0.2.7", u8::MAX, None),
            (LoggedClients::Network, "2001:db8:1:2:3::4", u8::MAX, Some("2001:db8:1::/56")),
            (LoggedClients::Whole, "10.1.0.0", 16, Some("10.1.0.0/16")),
            (LoggedClients::Network, "10.1.0.0", 16, Some("10.1.0.0/16")),
        ] {
            let shown = clients.shown(address.parse().unwrap(), known);
            assert_eq!(shown.as_deref(), expected, "{clients:?} {address}/{known}");
        }
    }

    /// Somewhere that takes nothing until it is told to.
    struct Stuck(std::sync::mpsc::Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // Once whoever holds it up has gone, everything is taken.
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn entry() -> Box<Entry> {
        Box::new(Entry {
            at: 0,
            client: IpAddr::from([192, 0, 2, 7]),
            name: Box::from(&b"\x01a\x00"[..]),
            kind: kind::A,
            transport: Transport::Udp,
            subnet: None,
            rcode: Rcode::NoError,
            received: 1,
            sent: 1,
            led_to: None,
            refusal: None,
        })
    }

    #[test]
    fn a_log_that_cannot_keep_up_loses_entries_and_counts_them() {
        let (go, stuck) = std::sync::mpsc::channel();
        let (sender, entries) = sync_channel(4);
        let out: Box<dyn Write + Send> = Box::new(Stuck(stuck));
        let missing = Arc::new(Counter::default());
        let counted = missing.clone();
        let thread = std::thread::spawn(move || {
            // Every line is more than its buffer holds.
            write_all(&entries, BufWriter::with_capacity(1, out), LoggedClients::Whole, &counted);
        });
        let log =
            QueryLog { entries: Some(sender), share: u64::MAX, dropped: missing, thread: None };
        // One is being written, four wait, and there is no room for the others.
        for _ in 0..10 {
            log.write(entry());
        }
        assert!(log.dropped.get() >= 5, "{} dropped", log.dropped.get());
        drop(go);
        drop(log);
        thread.join().unwrap();
    }
}
