//! A packet in, a packet out.
//!
//! ```text
//! packet ► read ► zone? ► name? ► records, or a host ► place of the client ► choice ► answer
//!           │       │       └ NXDOMAIN, NODATA                                       │
//!           │       └ REFUSED                                           rate limit ◄─┘
//!           └ FORMERR, NOTIMP, silence
//! ```
//!
//! Each worker has a [`Responder`] of its own. It holds what the worker remembers; what all share
//! is immutable.

mod answer;
mod cookie;
mod rate;
mod reply;
mod sign;
#[cfg(test)]
mod tests;
mod tsig;

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use limen_dns_wire::tsig::TsigKey;

pub(crate) use cookie::CookieKey;
pub(crate) use rate::RateLimit;

use crate::metrics::{AllCounters, Counters};
use crate::place::Places;
use crate::query_log::{Entry, QueryLog};
use crate::transfer::Secondary;
use crate::update::Challenges;
use crate::wire::edns::Edns;
use crate::wire::query::{Read, read};
use crate::zone::{HostPlan, Zones};
use answer::{Asked, Memory};
use rate::{Limiter, Verdict};
use reply::Reply;

/// What all workers share.
pub(crate) struct Common {
    pub(crate) zones: Arc<ArcSwap<Zones>>,
    pub(crate) places: Places,
    pub(crate) cookie: CookieKey,
    /// What this server calls itself to who asks.
    pub(crate) nsid: Vec<u8>,
    pub(crate) rate_limit: RateLimit,
    pub(crate) counters: AllCounters,
    /// Who may update challenges.
    pub(crate) challenges: Option<Challenges>,
    /// Secrets that are shared with others, who sign with them.
    pub(crate) tsig_keys: Vec<TsigKey>,
    /// Who may have whole zones.
    pub(crate) secondaries: Vec<Secondary>,
    /// Where questions are logged.
    pub(crate) log: QueryLog,
}

/// How a packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp,
    Tls,
    Https,
}

impl Transport {
    /// What people call it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Https => "HTTPS",
        }
    }
}

/// Answers packets.
pub(crate) struct Responder {
    common: Arc<Common>,
    zones: Cache<Arc<ArcSwap<Zones>>, Arc<Zones>>,
    counters: Arc<Counters>,
    memory: Memory,
}

/// What is noted of an answer, for the log.
#[derive(Default)]
struct Noted {
    /// The host, and the first of its targets that is answered.
    led_to: Option<(Arc<HostPlan>, usize)>,
}

impl Responder {
    pub(crate) fn new(common: Arc<Common>) -> Self {
        let limiter = Limiter::new(common.rate_limit);
        let zones = Cache::new(common.zones.clone());
        let counters = common.counters.for_worker();
        Self { common, zones, counters, memory: Memory::new(limiter) }
    }

    /// Writes the answer to a packet into `out`. Whether there is one.
    pub(crate) fn respond(
        &mut self,
        packet: &[u8],
        client: IpAddr,
        transport: Transport,
        now: u64,
        out: &mut Vec<u8>,
    ) -> bool {
        self.respond_within(packet, client, transport, now, out, 0)
    }

    /// Whether somebody who cannot be told from anybody else gets a refusal by UDP. It counts.
    pub(crate) fn may_refuse(&mut self, client: IpAddr, now: u64) -> bool {
        let may = self.memory.limiter.ask(client, 0, now) == Verdict::Send;
        if !may {
            self.counters.limited.add();
        }
        may
    }

    /// The same, but `reserved` bytes shorter than it might be.
    fn respond_within(
        &mut self,
        packet: &[u8],
        client: IpAddr,
        transport: Transport,
        now: u64,
        out: &mut Vec<u8>,
        reserved: usize,
    ) -> bool {
        let Self { common, zones, counters, memory } = self;
        counters.queries.add();
        let query = match read(packet) {
            Read::Silence => {
                counters.ignored.add();
                return false;
            }
            Read::Wrong(rcode, question) => {
                Reply::new(out, packet, question).finish_bare(rcode);
                counters.of(rcode).add();
                return transport != Transport::Udp || self.may_refuse(client, now);
            }
            Read::Query(query) if query.signed && !common.tsig_keys.is_empty() => {
                return self.respond_signed(packet, &query, client, transport, now, out);
            }
            Read::Query(query) => query,
        };
        memory.turn = memory.turn.wrapping_add(1);
        memory.noted = common.log.picks().then(Noted::default);
        let mut reply = Reply::new(out, packet, query.question);
        reply.limit = match transport {
            Transport::Udp => udp_limit(query.edns.as_ref()),
            _ => usize::from(u16::MAX),
        };
        reply.limit -= reserved;
        let asked = Asked { common, query: &query, client };
        let zones = zones.load();
        let key = memory.answer(zones, &asked, packet.len(), &mut reply);
        // Before anything is signed, which costs most.
        let verdict = match transport {
            Transport::Udp => memory.limit(&asked, key, now),
            _ => Verdict::Send,
        };
        if verdict == Verdict::Send {
            memory.sign(zones, &asked, (now / 1000) as u32, &mut reply);
        } else {
            counters.limited.add();
        }
        reply.glue(zones);
        let rcode = reply.rcode;
        counters.of(rcode).add();
        let identity = reply::Identity { nsid: &common.nsid, key: &common.cookie, client, now };
        reply.finish(query.edns.as_ref(), &identity);
        if verdict == Verdict::Truncate {
            reply::truncate(out, packet);
        }
        if let Some(noted) = memory.noted.take() {
            let subnet = query.edns.as_ref().and_then(|edns| edns.subnet);
            common.log.write(Box::new(Entry {
                at: now,
                client,
                name: query.question[..query.name.as_bytes().len()].into(),
                kind: query.kind,
                transport,
                subnet: subnet.map(|subnet| (subnet.address, subnet.prefix)),
                rcode,
                received: packet.len(),
                sent: if verdict == Verdict::Drop { 0 } else { out.len() },
                led_to: noted.led_to,
                refusal: verdict.refusal(),
            }));
        }
        verdict != Verdict::Drop
    }
}

/// How long an answer by UDP may be. Above 1232 bytes it could arrive in pieces, or not at all.
fn udp_limit(edns: Option<&Edns<'_>>) -> usize {
    edns.map_or(512, |edns| usize::from(edns.udp_size.clamp(512, 1232)))
}
