//! What is answered: from records, or from a host and the choice among its clusters.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;

use foldhash::fast::FixedState;
use limen_core::decide::Vantages;

use super::rate::{Limiter, Verdict};
use super::reply::{self, Reply};
use super::{Common, Noted};
use crate::choose::{Choice, Family, point, sticky_prefix};
use crate::dnssec::{KEY_TTL, Signatures};
use crate::place::Places;
use crate::wire::query::Query;
use crate::wire::{IN, Rcode, kind};
use crate::zone::{Found, Host, Node, RrSet, Zones};

/// Choices that a worker remembers at most.
const MOST_CHOICES: usize = 1 << 18;
/// Addresses in one answer at most; they take turns.
const MOST_ADDRESSES: usize = 16;
/// Aliases that are followed within one answer.
const MOST_ALIASES: u8 = 6;
/// How long the answer to ANY is remembered.
const ANY_TTL: u32 = 300;

/// What a worker remembers.
pub(super) struct Memory {
    choices: Choices,
    pub(super) limiter: Limiter,
    pub(super) signatures: Signatures,
    /// Goes up with every answer, so that equals take turns.
    pub(super) turn: usize,
    /// How many aliases have been followed for the answer in the making.
    aliases: u8,
    /// Whether who asks may have whole zones.
    pub(super) is_secondary: bool,
    /// What is noted of the answer in the making, if it is logged.
    pub(super) noted: Option<Noted>,
}

/// Choices that have been made, as long as gateways have measured what they were made from.
#[derive(Default)]
struct Choices {
    made: HashMap<(u64, u64, Family), Choice, FixedState>,
    vantages: Arc<Vantages>,
}

/// A question, and who asked it.
pub(super) struct Asked<'a> {
    pub(super) common: &'a Common,
    pub(super) query: &'a Query<'a>,
    pub(super) client: IpAddr,
}

impl Memory {
    pub(super) fn new(limiter: Limiter) -> Self {
        let (choices, signatures) = (Choices::default(), Signatures::default());
        Self { choices, limiter, signatures, turn: 0, aliases: 0, is_secondary: false, noted: None }
    }

    /// Whether an answer goes out.
    pub(super) fn limit(&mut self, asked: &Asked<'_>, key: u64, now: u64) -> Verdict {
        let Asked { common, query, client } = *asked;
        let cookie = query.edns.as_ref().and_then(|edns| edns.cookie);
        if cookie.is_some_and(|cookie| common.cookie.is_valid(cookie, client, now)) {
            return Verdict::Send;
        }
        self.limiter.ask(client, key, now)
    }

    /// Fills in an answer. Returns what stands for it in the rate limit.
    pub(super) fn answer(
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
            kind::IXFR if self.is_secondary && is_zone(zones, query) => {}
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
        let name = query.name.as_bytes();
        let (node, key) = match found(zones, query) {
            Found::Foreign => {
                reply.refuse(reply::extended::NOT_AUTHORITATIVE);
                return 5;
            }
            Found::Nothing(zone) => {
                reply.authoritative();
                reply.rcode = Rcode::NxDomain;
                let apex = &zones.apexes[usize::from(zone)];
                reply.soa(apex, name.len());
                // All names that do not exist are one to a flood of them.
                return u64::from(zone) + 16;
            }
            Found::Cut { above, below } => {
                reply.authoritative();
                self.answer_cut(zones, above, below, query, reply);
                return FixedState::default().hash_one(name);
            }
            Found::Delegated { zone, cut } => return refer(zones, zone, cut, query, reply),
            Found::Node(node) => (node, FixedState::default().hash_one(name)),
            // So are all names that one wildcard stands for.
            Found::Wildcard { node, above } => {
                (node, FixedState::default().hash_one((b'*', &name[above..])))
            }
        };
        if waits(node, query) {
            // To say that there is nothing would be remembered.
            reply.fail(Rcode::ServFail, reply::extended::NOT_READY);
            return key;
        }
        reply.authoritative();
        if !self.answer_from(zones, node, asked, reply) {
            let apex = &zones.apexes[usize::from(node.zone)];
            reply.soa(apex, name.len());
        }
        key
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
        match query.kind {
            kind::ANY if node.host.is_some() || !node.records.is_empty() => {
                // RFC 8482: the least that stops somebody from asking again.
                reply.record(kind::HINFO, ANY_TTL, b"\x07RFC8482\x00");
                return true;
            }
            // RFC 1995: what does not fit is the SOA alone, and the client comes by TCP.
            kind::SOA | kind::IXFR if node.is_apex => {
                reply.record(kind::SOA, apex.negative_ttl, &apex.soa);
                return true;
            }
            _ => {}
        }
        let keys =
            apex.signer.as_ref().filter(|_| node.is_apex).map_or(&[][..], |signer| &signer.sets);
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
            // An alias stands for all kinds; where there is none there is nothing else here.
            _ if host.aliases => Family::Any,
            _ => return false,
        };
        self.answer_host(zones, host, family, asked, reply)
    }

    /// Answers for the name that an alias leads to, if that is ours: a forwarder in front asks no
    /// second time.
    fn follow(&mut self, zones: &Zones, alias: &RrSet, asked: &Asked<'_>, reply: &mut Reply<'_>) {
        self.aliases += 1;
        let node = alias.data.first().and_then(|name| zones.nodes.get(&**name));
        let follows = !matches!(asked.query.kind, kind::ANY | kind::SOA | kind::CNAME);
        if let (Some(name), Some(node)) = (alias.data.first(), node)
            && node.cut == 0
            && follows
            && self.aliases <= MOST_ALIASES
            && reply.follow(name.len())
        {
            if waits(node, asked.query) {
                // Without an address the alias would be remembered as leading nowhere.
                reply.fail(Rcode::ServFail, reply::extended::NOT_READY);
            } else {
                self.answer_from(zones, node, asked, reply);
            }
        }
        self.aliases -= 1;
    }

    fn answer_host(
        &mut self,
        zones: &Zones,
        host: &Host,
        family: Family,
        asked: &Asked<'_>,
        reply: &mut Reply<'_>,
    ) -> bool {
        let Asked { common, query, client } = *asked;
        let subnet = query.edns.as_ref().and_then(|edns| edns.subnet);
        let asked_for = subnet.filter(|subnet| subnet.prefix > 0);
        let client = asked_for.map_or(client, |subnet| subnet.address);
        let leads = |target: &usize| {
            let ways = &host.ways[*target];
            ways.is_alias() || family.is_in(ways)
        };
        let (mut first, mut scope) = (None, 0);
        if host.aliases {
            // An alias stands for all kinds, so that whoever is led to a cluster with addresses by
            // one kind must get none by another.
            let (led, bits) = self.led(zones, host, Family::Any, common, client);
            (first, scope) = (led.filter(leads), bits);
        }
        if first.is_none() {
            let (led, bits) = self.led(zones, host, family, common, client);
            (first, scope) = (led, scope.max(bits));
        }
        if asked_for.is_some() {
            reply.scope = scope;
        }
        let Some(first) = first.filter(leads) else { return false };
        if let Some(noted) = &mut self.noted {
            noted.led_to = Some((host.plan.clone(), first));
        }
        let mut room = add_ways(host, first, query.kind, self.turn, MOST_ADDRESSES, reply);
        let others = usize::from(host.plan.dns.clusters).saturating_sub(1);
        if others > 0 {
            let (choice, _) =
                self.choices.of(host, family, client, &common.places, &zones.vantages);
            let ready = choice.ready.iter().map(|target| usize::from(*target));
            let ready = ready.filter(|target| *target != first).take(others);
            for target in ready {
                room = add_ways(host, target, query.kind, self.turn, room, reply);
            }
        }
        reply.has_answers()
    }

    /// The cluster that a client is led to, and for how many bits around it.
    fn led(
        &mut self,
        zones: &Zones,
        host: &Host,
        family: Family,
        common: &Common,
        client: IpAddr,
    ) -> (Option<usize>, u8) {
        let (choice, prefix) =
            self.choices.of(host, family, client, &common.places, &zones.vantages);
        let sticky = if choice.is_shared() { sticky_prefix(client) } else { 0 };
        let by_place = if choice.by_place { prefix } else { 0 };
        let first = if host.plan.dns.round_robin {
            choice.ready.get(self.turn % choice.ready.len().max(1)).map(|t| usize::from(*t))
        } else {
            choice.at(point(client, host.plan.hash))
        };
        (first, sticky.max(by_place))
    }
}

/// Answers with the ways into one cluster, as far as there is room. Returns how much is left.
fn add_ways(
    host: &Host,
    target: usize,
    kind: u16,
    turn: usize,
    room: usize,
    reply: &mut Reply<'_>,
) -> usize {
    let ways = &host.ways[target];
    match kind {
        kind::A if !ways.four.is_empty() => {
            room - reply.addresses(kind::A, host.ttl, &ways.four, turn, room)
        }
        kind::AAAA if !ways.six.is_empty() => {
            room - reply.addresses(kind::AAAA, host.ttl, &ways.six, turn, room)
        }
        _ if ways.is_alias() => {
            reply.record(kind::CNAME, host.ttl, &ways.names[turn % ways.names.len()]);
            room
        }
        _ => room,
    }
}

fn is_zone(zones: &Zones, query: &Query<'_>) -> bool {
    zones.nodes.get(query.name.as_bytes()).is_some_and(|node| node.is_apex)
}

/// Whether it is a host of which it cannot be said yet what it has.
fn waits(node: &Node, query: &Query<'_>) -> bool {
    node.host.as_ref().is_some_and(|host| host.waits_for(query.kind))
}

/// Where the answer to a question is found.
pub(super) fn found<'a>(zones: &'a Zones, query: &Query<'_>) -> Found<'a> {
    let from_above = (query.kind == kind::DS).then(|| zones.find_from_above(&query.name)).flatten();
    from_above.unwrap_or_else(|| zones.find(&query.name))
}

/// Says who answers for a name that is delegated. Returns what stands for it in the rate limit.
fn refer(zones: &Zones, zone: u16, cut: u8, query: &Query<'_>, reply: &mut Reply<'_>) -> u64 {
    let asked = query.name.as_bytes();
    let name = &asked[asked.len() - usize::from(cut)..];
    let servers = zones.nodes.get(name).and_then(|node| node.set(kind::NS));
    match servers {
        Some(servers) => reply.refer(servers, asked.len(), cut),
        // There is no delegation without servers.
        None => reply.soa(&zones.apexes[usize::from(zone)], asked.len()),
    }
    FixedState::default().hash_one(name)
}

impl Choices {
    /// What is answered to a client, and for how many bits around it.
    fn of(
        &mut self,
        host: &Host,
        family: Family,
        client: IpAddr,
        places: &Places,
        vantages: &Arc<Vantages>,
    ) -> (&Choice, u8) {
        let found = places.find(client);
        let measured_anew = !Arc::ptr_eq(&self.vantages, vantages);
        if measured_anew || self.made.len() >= MOST_CHOICES {
            self.made.clear();
            self.vantages = vantages.clone();
        }
        let choice = self
            .made
            .entry((host.id, found.key, family))
            .or_insert_with(|| Choice::new(host, family, &places.place(found, client), vantages));
        (choice, found.prefix)
    }
}
