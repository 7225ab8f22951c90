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

mod cookie;
mod rate;
mod reply;
mod sign;
#[cfg(test)]
mod tests;
mod tsig;

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use foldhash::fast::FixedState;
use limen_dns_wire::tsig::TsigKey;

pub(crate) use cookie::CookieKey;
pub(crate) use rate::RateLimit;

use crate::choose::{Choice, Family, point, sticky_prefix};
use crate::dnssec::{KEY_TTL, Signatures};
use crate::metrics::{AllCounters, Counters};
use crate::place::Places;
use crate::transfer::Secondary;
use crate::update::Challenges;
use crate::wire::edns::Edns;
use crate::wire::query::{Query, Read, read};
use crate::wire::{IN, Rcode, kind};
use crate::zone::{Found, Host, Node, RrSet, Zones};
use rate::{Limiter, Verdict};
use reply::Reply;

/// Choices that a worker remembers at most.
const MOST_CHOICES: usize = 1 << 18;
/// Addresses in one answer at most; they take turns.
const MOST_ADDRESSES: usize = 16;
/// Aliases that are followed within one answer.
const MOST_ALIASES: u8 = 6;
/// How long the answer to ANY is remembered.
const ANY_TTL: u32 = 300;

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
}

/// How a packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

/// Answers packets.
pub(crate) struct Responder {
    common: Arc<Common>,
    zones: Cache<Arc<ArcSwap<Zones>>, Arc<Zones>>,
    counters: Arc<Counters>,
    memory: Memory,
}

type Choices = HashMap<(u64, u64, Family), Choice, FixedState>;

/// What a worker remembers.
struct Memory {
    choices: Choices,
    limiter: Limiter,
    signatures: Signatures,
    /// Goes up with every answer, so that equals take turns.
    turn: usize,
    /// How many aliases have been followed for the answer in the making.
    aliases: u8,
}

impl Responder {
    pub(crate) fn new(common: Arc<Common>) -> Self {
        let limiter = Limiter::new(common.rate_limit);
        let zones = Cache::new(common.zones.clone());
        let counters = common.counters.for_worker();
        let signatures = Signatures::default();
        let memory =
            Memory { choices: HashMap::default(), limiter, signatures, turn: 0, aliases: 0 };
        Self { common, zones, counters, memory }
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
                let held = transport == Transport::Udp
                    && memory.limiter.ask(client, 0, now) != Verdict::Send;
                if held {
                    counters.limited.add();
                }
                return !held;
            }
            Read::Query(query) if query.signed && !common.tsig_keys.is_empty() => {
                return self.respond_signed(packet, &query, client, transport, now, out);
            }
            Read::Query(query) => query,
        };
        memory.turn = memory.turn.wrapping_add(1);
        let mut reply = Reply::new(out, packet, query.question);
        reply.limit = match transport {
            Transport::Tcp => usize::from(u16::MAX),
            Transport::Udp => udp_limit(query.edns.as_ref()),
        };
        reply.limit -= reserved;
        let asked = Asked { common, query: &query, client };
        let zones = zones.load();
        let key = memory.answer(zones, &asked, packet.len(), &mut reply);
        // Before anything is signed, which costs most.
        let verdict = match transport {
            Transport::Udp => memory.limit(&asked, key, now),
            Transport::Tcp => Verdict::Send,
        };
        if verdict == Verdict::Send {
            memory.sign(zones, &asked, (now / 1000) as u32, &mut reply);
        } else {
            counters.limited.add();
        }
        counters.of(reply.rcode).add();
        let identity = reply::Identity { nsid: &common.nsid, key: &common.cookie, client, now };
        reply.finish(query.edns.as_ref(), &identity);
        if verdict == Verdict::Truncate {
            reply::truncate(out, packet);
        }
        verdict != Verdict::Drop
    }
}

/// A question, and who asked it.
struct Asked<'a> {
    common: &'a Common,
    query: &'a Query<'a>,
    client: IpAddr,
}

impl Memory {
    /// Whether an answer goes out.
    fn limit(&mut self, asked: &Asked<'_>, key: u64, now: u64) -> Verdict {
        let Asked { common, query, client } = *asked;
        let cookie = query.edns.as_ref().and_then(|edns| edns.cookie);
        if cookie.is_some_and(|cookie| common.cookie.is_valid(cookie, client, now)) {
            return Verdict::Send;
        }
        self.limiter.ask(client, key, now)
    }

    /// Fills in an answer. Returns what stands for it in the rate limit.
    fn answer(
        &mut self,
        zones: &Zones,
        asked: &Asked<'_>,
        asked_with: usize,
        reply: &mut Reply<'_>,
    ) -> u64 {
        reply.room = asked_with;
        let query = asked.query;
        if query.edns.as_ref().is_some_and(|edns| edns.version != 0) {
            reply.rcode = Rcode::BadVers;
            return 1;
        }
        match query.kind {
            kind::MAILA | kind::MAILB | kind::TKEY | kind::TSIG => {
                reply.rcode = Rcode::NotImp;
                return 2;
            }
            kind::AXFR | kind::IXFR => {
                reply.refuse(reply::extended::PROHIBITED);
                return 3;
            }
            kind::NXNAME => {
                reply.fail(Rcode::FormErr, reply::extended::INVALID_TYPE);
                return 6;
            }
            _ if query.class != IN => {
                reply.refuse(reply::extended::NOT_SUPPORTED);
                return 4;
            }
            _ => {}
        }
        let node = match found(zones, query) {
            Found::Foreign => {
                reply.refuse(reply::extended::NOT_AUTHORITATIVE);
                return 5;
            }
            Found::Nothing(zone) => {
                reply.authoritative();
                reply.rcode = Rcode::NxDomain;
                let apex = &zones.apexes[usize::from(zone)];
                reply.soa(apex, query.name.as_bytes().len());
                // All names that do not exist are one to a flood of them.
                return u64::from(zone) + 16;
            }
            Found::Cut { above, below } => {
                reply.authoritative();
                self.answer_cut(zones, above, below, query, reply);
                return FixedState::default().hash_one(query.name.as_bytes());
            }
            Found::Node(node) => node,
        };
        reply.authoritative();
        if !self.answer_from(zones, node, asked, reply) {
            let apex = &zones.apexes[usize::from(node.zone)];
            reply.soa(apex, query.name.as_bytes().len());
        }
        FixedState::default().hash_one(query.name.as_bytes())
    }

    /// Whether the zone below is signed: only the zone above can say so.
    fn answer_cut(
        &self,
        zones: &Zones,
        above: u16,
        below: u16,
        query: &Query<'_>,
        reply: &mut Reply<'_>,
    ) {
        let above = &zones.apexes[usize::from(above)];
        match &zones.apexes[usize::from(below)].signer {
            Some(signer) => signer.ds().for_each(|ds| reply.record(kind::DS, KEY_TTL, &ds)),
            None => reply.soa(above, query.name.as_bytes().len()),
        }
    }

    /// Whether the node has anything of that kind.
    fn answer_from(
        &mut self,
        zones: &Zones,
        node: &Node,
        asked: &Asked<'_>,
        reply: &mut Reply<'_>,
    ) -> bool {
        let query = asked.query;
        let apex = &zones.apexes[usize::from(node.zone)];
        let is_apex = query.name.as_bytes().len() == apex.name.len();
        match query.kind {
            kind::ANY if node.host.is_some() || !node.records.is_empty() => {
                // RFC 8482: the least that stops somebody from asking again.
                reply.record(kind::HINFO, ANY_TTL, b"\x07RFC8482\x00");
                return true;
            }
            kind::SOA if is_apex => {
                reply.record(kind::SOA, apex.negative_ttl, &apex.soa);
                return true;
            }
            _ => {}
        }
        let keys = apex.signer.as_ref().filter(|_| is_apex).map_or(&[][..], |signer| &signer.sets);
        if let Some(set) = keys.iter().find(|set| set.kind == query.kind) {
            reply.records(set, 0);
            return true;
        }
        if let Some(set) = node.records.iter().find(|set| set.kind == query.kind) {
            reply.records(set, self.turn);
            return true;
        }
        if let Some(alias) = node.records.iter().find(|set| set.kind == kind::CNAME) {
            reply.records(alias, 0);
            self.follow(zones, alias, asked, reply);
            return true;
        }
        let Some(host) = &node.host else { return false };
        let family = match query.kind {
            kind::A => Family::Four,
            kind::AAAA => Family::Six,
            // An alias stands for all kinds; where none is possible there is nothing else here.
            _ if host.plan.may_alias => Family::Four,
            _ => return false,
        };
        self.answer_host(host, family, asked, reply)
    }

    /// Answers for the name that an alias leads to, if that is ours: a forwarder in front asks no
    /// second time.
    fn follow(&mut self, zones: &Zones, alias: &RrSet, asked: &Asked<'_>, reply: &mut Reply<'_>) {
        self.aliases += 1;
        let node = alias.data.first().and_then(|name| zones.nodes.get(&**name));
        let follows = !matches!(asked.query.kind, kind::ANY | kind::SOA | kind::CNAME);
        if let (Some(name), Some(node)) = (alias.data.first(), node)
            && follows
            && self.aliases <= MOST_ALIASES
            && reply.follow(name.len())
        {
            self.answer_from(zones, node, asked, reply);
        }
        self.aliases -= 1;
    }

    fn answer_host(
        &mut self,
        host: &Host,
        family: Family,
        asked: &Asked<'_>,
        reply: &mut Reply<'_>,
    ) -> bool {
        let Asked { common, query, client } = *asked;
        let subnet = query.edns.as_ref().and_then(|edns| edns.subnet);
        let asked_for = subnet.filter(|subnet| subnet.prefix > 0);
        let client = asked_for.map_or(client, |subnet| subnet.address);
        let (choice, prefix) = choice(&mut self.choices, &common.places, host, family, client);
        if asked_for.is_some() {
            let sticky = if choice.is_shared() { sticky_prefix(client) } else { 0 };
            let by_place = if choice.by_place { prefix } else { 0 };
            reply.scope = sticky.max(by_place);
        }
        let dns = &host.plan.dns;
        let first = if dns.round_robin {
            choice.ready.get(self.turn % choice.ready.len().max(1)).map(|t| usize::from(*t))
        } else {
            choice.at(point(client, host.plan.hash))
        };
        let Some(first) = first else { return false };
        let others = choice.ready.iter().map(|target| usize::from(*target));
        let others = others.filter(|target| *target != first);
        let clusters = usize::from(dns.clusters.max(1));
        let mut room = MOST_ADDRESSES;
        for target in std::iter::once(first).chain(others).take(clusters) {
            let ways = &host.ways[target];
            match query.kind {
                kind::A if !ways.four.is_empty() => {
                    room -= reply.addresses(kind::A, host.ttl, &ways.four, self.turn, room);
                }
                kind::AAAA if !ways.six.is_empty() => {
                    room -= reply.addresses(kind::AAAA, host.ttl, &ways.six, self.turn, room);
                }
                _ if !ways.names.is_empty() && ways.four.is_empty() && ways.six.is_empty() => {
                    let name = &ways.names[self.turn % ways.names.len()];
                    reply.record(kind::CNAME, host.ttl, name);
                }
                _ => {}
            }
        }
        reply.has_answers()
    }
}

/// Where the answer to a question is found.
fn found<'a>(zones: &'a Zones, query: &Query<'_>) -> Found<'a> {
    let from_above = (query.kind == kind::DS).then(|| zones.find_from_above(&query.name)).flatten();
    from_above.unwrap_or_else(|| zones.find(&query.name))
}

/// What is answered to a client, and for how many bits around it.
fn choice<'a>(
    choices: &'a mut Choices,
    places: &Places,
    host: &Host,
    family: Family,
    client: IpAddr,
) -> (&'a Choice, u8) {
    let found = places.find(client);
    if choices.len() >= MOST_CHOICES {
        choices.clear();
    }
    let choice = choices
        .entry((host.id, found.key, family))
        .or_insert_with(|| Choice::new(host, family, &places.place(found, client)));
    (choice, found.prefix)
}

/// How long an answer by UDP may be. Above 1232 bytes it could arrive in pieces, or not at all.
fn udp_limit(edns: Option<&Edns<'_>>) -> usize {
    edns.map_or(512, |edns| usize::from(edns.udp_size.clamp(512, 1232)))
}
