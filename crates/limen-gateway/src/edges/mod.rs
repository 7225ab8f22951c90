//! What this gateway tells the other edges, and what it does with what they tell.
//!
//! ```text
//! counters of workers ─► rates ─► report ─► (source) ─► Edge object ─► other edges, the hub
//!                          │
//! reports of others ───────┴──► share ─► what may go to each target ─► workers
//! ```
//!
//! It runs in the control thread, twice a second. Nobody counts requests centrally: every gateway
//! computes the same division from the same reports.

mod rates;
mod report;
mod share;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use limen_api::source::OwnEdge;
use limen_core::edge::{EdgeKind, EdgeReport, Peer};
use limen_core::global;

use tokio::sync::watch;

use crate::compile::Probed;
use crate::options::Options;
use crate::snapshot::{Backend, Ingress, Snapshot};
use rates::Rates;
use share::Shares;

/// How often rates are measured and allowances computed.
pub(crate) const TICK: Duration = Duration::from_millis(500);
/// Reports are no more frequent than this, whatever happens.
const SPACING: Duration = Duration::from_millis(900);
/// And no less frequent than this, so that others know that the gateway is alive.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Who has said nothing for so long is not counted on.
const SILENT: Duration = Duration::from_secs(35);
/// A report that was this old when it came first is of a gateway that is gone, unless another one
/// follows: clocks may be wrong, and only the first is judged by one.
const FORGOTTEN: i64 = 120;

/// The other edges, and what is known of them.
pub(crate) struct Edges {
    own: watch::Sender<OwnEdge>,
    published: Option<Instant>,
    peers: BTreeMap<String, (Peer, Instant)>,
    said: BTreeMap<String, Said>,
    rates: Rates,
    shares: Shares,
}

/// When a gateway last said something.
struct Said {
    /// By its own clock.
    theirs: i64,
    /// By ours, since this one runs; nothing if that was too long ago.
    ours: Option<Instant>,
}

/// Where clients come in, each once.
fn ports(options: &Options) -> Vec<u16> {
    let all = options.http.iter().chain(&options.https);
    let ports: BTreeSet<u16> = all.map(std::net::SocketAddr::port).collect();
    ports.into_iter().collect()
}

impl Edges {
    pub(crate) fn new(options: &Options) -> Self {
        let own = OwnEdge {
            name: options.name.clone(),
            addresses: options.addresses.clone(),
            ports: ports(options),
            locality: options.locality.clone(),
            report: None,
        };
        Self {
            own: watch::Sender::new(own),
            published: None,
            peers: BTreeMap::new(),
            said: BTreeMap::new(),
            rates: Rates::default(),
            shares: Shares::default(),
        }
    }

    /// What sources pass on to others.
    pub(crate) fn own(&self) -> &watch::Sender<OwnEdge> {
        &self.own
    }

    /// All edges, as they are now.
    pub(crate) fn heard(&mut self, edges: BTreeMap<String, Peer>) {
        self.heard_then(edges, Instant::now(), clock());
    }

    fn heard_then(&mut self, edges: BTreeMap<String, Peer>, now: Instant, clock: i64) {
        let own = self.own.borrow().name.clone();
        let before = std::mem::take(&mut self.said);
        self.peers.clear();
        for (name, peer) in edges {
            let Some(theirs) = peer.report.observed_at else { continue };
            if name == own || peer.kind != EdgeKind::Gateway || peer.report.stopping {
                continue;
            }
            let ours = match before.get(&name) {
                Some(said) if said.theirs == theirs => said.ours,
                Some(_) => Some(now),
                None => (theirs >= clock - FORGOTTEN).then_some(now),
            };
            self.said.insert(name.clone(), Said { theirs, ours });
            if let Some(since) = ours.filter(|since| now - *since < SILENT) {
                self.peers.insert(name, (peer, since));
            }
        }
    }

    /// Measures, reports and divides.
    pub(crate) fn tick(&mut self, snapshot: &Snapshot, probed: &Probed, options: &Options) {
        let now = Instant::now();
        self.peers.retain(|_, (_, since)| now - *since < SILENT);
        let busy = busy(snapshot);
        let elapsed = self.rates.measure(busy.iter().map(|busy| busy.backend), now);
        self.shares.divide(&busy, options, &self.rates, &self.peers, elapsed);
        self.publish(probed, &busy, now);
    }

    fn publish(&mut self, probed: &Probed, busy: &[Busy<'_>], now: Instant) {
        // A source that knows no other edges lets go of it.
        if self.own.receiver_count() == 0 || is_withdrawn(&self.own.borrow()) {
            return;
        }
        let since = self.published.map(|at| now - at);
        if since.is_some_and(|since| since < SPACING) {
            return;
        }
        let report = report::report(probed, busy, &self.rates, clock());
        let known = self.own.borrow().report.clone();
        let news = known.is_none_or(|known| report.differs_noticeably(&known));
        if news || since.is_none_or(|since| since >= HEARTBEAT) {
            self.published = Some(now);
            self.own.send_modify(|own| own.report = Some(Arc::new(report)));
        }
    }

    /// By backend that anybody asks for: the requests in a second that come for it.
    pub(crate) fn wanted(&self) -> HashMap<u64, f64> {
        self.rates.all_wanted()
    }
}

/// A backend that has been asked for, or has only so much room.
struct Busy<'a> {
    ingress: &'a Ingress,
    backend: &'a Arc<Backend>,
    global: &'a global::Backend,
}

/// Of tens of thousands of backends most are neither, and nothing has to be done about them.
fn busy(snapshot: &Snapshot) -> Vec<Busy<'_>> {
    let mut found = Vec::new();
    for ingress in snapshot.ingresses.values() {
        for (backend, global) in ingress.backends.iter().zip(&ingress.global.backends) {
            if backend.limited || backend.asked.get() > 0 {
                found.push(Busy { ingress, backend, global });
            }
        }
    }
    found
}

/// Tells others that this gateway takes no more clients, and has no more opinions.
pub(crate) fn withdraw(own: &watch::Sender<OwnEdge>) {
    own.send_if_modified(|own| {
        let news = !is_withdrawn(own);
        if news {
            let (observed_at, stopping) = (Some(clock()), true);
            let report = EdgeReport { observed_at, stopping, ..EdgeReport::default() };
            own.report = Some(Arc::new(report));
        }
        news
    });
}

fn is_withdrawn(own: &OwnEdge) -> bool {
    own.report.as_ref().is_some_and(|report| report.stopping)
}

fn clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_counted_on_while_it_speaks_whatever_its_clock_says() {
        let mut edges = Edges::new(&Options::default());
        let start = Instant::now();
        let mut hear = |seconds: u64, observed_at: i64| {
            let report = EdgeReport { observed_at: Some(observed_at), ..EdgeReport::default() };
            let peer = Peer { report, ..Peer::default() };
            let now = start + Duration::from_secs(seconds);
            edges.heard_then([("other".to_owned(), peer)].into(), now, 1_000_000);
            edges.peers.contains_key("other")
        };
        assert!(!hear(0, 900_000), "it may be gone for a day");
        assert!(!hear(1, 900_000));
        assert!(hear(2, 900_010), "it speaks");
        assert!(hear(30, 900_010));
        assert!(!hear(40, 900_010), "it is silent");
        assert!(!hear(41, 900_010), "and stays so, however often others speak");
        assert!(hear(42, 2_000_000), "its clock was set");
    }
}
