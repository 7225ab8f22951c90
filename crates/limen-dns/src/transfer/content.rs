//! Everything in a zone, as records.

use std::collections::BTreeMap;
use std::sync::Arc;

use limen_core::decide::Vantages;

use crate::choose::{Choice, Family};
use crate::dnssec::{Content, KEY_TTL, Signatures, Signer, bitmap};
use crate::place::Place;
use crate::respond::Common;
use crate::wire::{IN, kind, name};
use crate::zone::{Apex, Host, Node, RrSet, Ways, Zones};

/// A signed zone is given a new number at least so often, in seconds, so that secondaries fetch
/// new signatures long before the old ones expire.
pub(super) const RENEW: i32 = 24 * 3600;
/// So is one that was given its number so many seconds later than it is now: its signatures are
/// dated back by an hour only.
pub(super) const AHEAD: i32 = 60;

/// A name by its labels from the root, which is how names are ordered in a chain of NSEC records.
type Ordered = Vec<Box<[u8]>>;
type Sets = BTreeMap<Ordered, (Arc<[u8]>, Vec<RrSet>)>;

/// All records of a zone, from SOA to SOA. `now` is in seconds since 1970.
pub(super) fn records_of(common: &Common, zones: &Zones, apex: &Apex, now: u32) -> Vec<Vec<u8>> {
    let mut sets = sets(common, zones, apex);
    let mut records = Vec::new();
    let mut signing = Signing { memory: Signatures::default(), now };
    let soa = RrSet { kind: kind::SOA, ttl: apex.negative_ttl, data: vec![apex.soa.clone()] };
    signing.add(&mut records, apex.signer.as_deref(), &apex.name, &soa);
    let end = records[0].clone();
    if let Some(signer) = &apex.signer {
        add_chain(&mut sets, apex, signer);
    }
    for (owner, sets) in sets.values() {
        // What is said of a zone below is that zone's to sign, but for whether it is signed.
        let below = **owner != *apex.name && sets.iter().any(|set| set.kind == kind::NS);
        for set in sets {
            let ours = !below || matches!(set.kind, kind::DS | kind::NSEC);
            let glue = matches!(set.kind, kind::A | kind::AAAA) && is_below_cut(owner, apex, zones);
            let signer = apex.signer.as_deref().filter(|_| ours && !glue);
            signing.add(&mut records, signer, owner, set);
        }
    }
    records.push(end);
    records
}

struct Signing {
    memory: Signatures,
    now: u32,
}

impl Signing {
    fn add(&mut self, to: &mut Vec<Vec<u8>>, signer: Option<&Signer>, owner: &[u8], set: &RrSet) {
        for data in &set.data {
            let mut record = Vec::new();
            write(&mut record, owner, set.kind, set.ttl, data);
            to.push(record);
        }
        let Some(signer) = signer else { return };
        let mut content = Content::default();
        let mut data: Vec<&[u8]> = set.data.iter().map(|data| &**data).collect();
        content.set(signer, owner, set.kind, set.ttl, &mut data);
        for signature in self.memory.of(signer, &content, self.now) {
            let mut record = Vec::new();
            write(&mut record, owner, kind::RRSIG, set.ttl, signature);
            to.push(record);
        }
    }
}

/// Everything but the SOA record, signatures and the chain.
fn sets(common: &Common, zones: &Zones, apex: &Apex) -> Sets {
    let mut sets = Sets::new();
    let mut add = |name: &Arc<[u8]>, more: Vec<RrSet>| {
        if !more.is_empty() {
            let entry = sets.entry(ordered(name)).or_insert_with(|| (name.clone(), Vec::new()));
            entry.1.extend(more);
        }
    };
    let is_ours = |node: &Node| *zones.apexes[usize::from(node.zone)].name == *apex.name;
    for (name, node) in zones.nodes.iter().filter(|(_, node)| is_ours(node)) {
        let mut found = node.records.to_vec();
        if let Some(host) = &node.host {
            found.extend(host_sets(host, common.places.here(), &zones.vantages));
        }
        add(name, found);
    }
    if let Some(signer) = &apex.signer {
        add(&apex.name, signer.sets.clone());
    }
    for below in zones.apexes.iter().filter(|below| begins_in(zones, apex, below)) {
        let node = zones.nodes.get(&*below.name);
        let servers = node.and_then(|node| node.records.iter().find(|set| set.kind == kind::NS));
        let mut found: Vec<RrSet> = servers.cloned().into_iter().collect();
        if let Some(signer) = &below.signer {
            found.push(RrSet { kind: kind::DS, ttl: KEY_TTL, data: signer.ds().collect() });
        }
        add(&below.name, found);
        for server in servers.iter().flat_map(|set| &set.data) {
            if let Some((name, node)) = zones.nodes.get_key_value(&**server)
                && name::is_within(name, &below.name)
            {
                let is_address = |set: &&RrSet| matches!(set.kind, kind::A | kind::AAAA);
                add(name, node.records.iter().filter(is_address).cloned().collect());
            }
        }
    }
    sets
}

/// Whether a zone begins directly in another.
fn begins_in(zones: &Zones, apex: &Apex, below: &Apex) -> bool {
    let above = name::parent(&below.name).and_then(|parent| zones.zone_of(parent));
    above.is_some_and(|above| *zones.apexes[usize::from(above)].name == *apex.name)
}

fn is_below_cut(owner: &[u8], apex: &Apex, zones: &Zones) -> bool {
    let zone = zones.zone_of(owner).map(|zone| &zones.apexes[usize::from(zone)].name);
    let delegated = || zones.nodes.get(owner).is_some_and(|node| node.cut != 0);
    zone.is_some_and(|zone| **zone != *apex.name) || delegated()
}

/// What a client at this server's place may be answered, all of it.
fn host_sets(host: &Host, here: &Place, vantages: &Vantages) -> Vec<RrSet> {
    let chosen = |family| -> Vec<&Ways> {
        let shares = Choice::new(host, family, here, vantages).shares;
        shares.iter().map(|(target, _)| &host.ways[usize::from(*target)]).collect()
    };
    let set = |kind, data| RrSet { kind, ttl: host.ttl, data };
    if host.aliases {
        // An alias stands alone, so that it waits until no cluster with addresses is chosen.
        let led = chosen(Family::Any);
        let alias = led.first().and_then(|ways| ways.names.first());
        if let Some(alias) = alias.filter(|_| led.iter().all(|ways| ways.is_alias())) {
            return vec![set(kind::CNAME, vec![alias.clone()])];
        }
    }
    let (four, mut six) = (chosen(Family::Four), chosen(Family::Six));
    // A secondary answers everybody alike: IPv6 for some would be IPv6 for all.
    if six.iter().any(|ways| ways.six.is_empty() && !ways.four.is_empty()) {
        six.clear();
    }
    let four = four.iter().flat_map(|ways| &ways.four).map(|one| one.octets().as_slice().into());
    let six = six.iter().flat_map(|ways| &ways.six).map(|one| one.octets().as_slice().into());
    let sets = [set(kind::A, four.collect()), set(kind::AAAA, six.collect())];
    sets.into_iter().filter(|set| !set.data.is_empty()).collect()
}

/// Adds the records that say which name is next, so that a secondary can deny all others.
fn add_chain(sets: &mut Sets, apex: &Apex, signer: &Signer) {
    let glue = |owner: &[u8], sets: &Sets| {
        let mut above = name::parent(owner);
        std::iter::from_fn(move || {
            let this = above.filter(|this| this.len() > apex.name.len())?;
            above = name::parent(this);
            Some(this)
        })
        .any(|this| {
            sets.get(&ordered(this)).is_some_and(|(_, s)| s.iter().any(|set| set.kind == kind::NS))
        })
    };
    let names: Vec<Arc<[u8]>> =
        sets.values().map(|(name, _)| name.clone()).filter(|name| !glue(name, sets)).collect();
    for (index, name) in names.iter().enumerate() {
        let next = &names[(index + 1) % names.len()];
        let Some((_, found)) = sets.get_mut(&ordered(name)) else { continue };
        let is_cut = **name != *apex.name && found.iter().any(|set| set.kind == kind::NS);
        let shown = found.iter().map(|set| set.kind);
        let mut kinds: Vec<u16> =
            shown.filter(|kind| !is_cut || matches!(*kind, kind::NS | kind::DS)).collect();
        kinds.extend([kind::RRSIG, kind::NSEC]);
        if *name == apex.name {
            kinds.push(kind::SOA);
            kinds.extend(signer.sets.iter().map(|set| set.kind));
        }
        let data = vec![[&next[..], &bitmap(&mut kinds)].concat().into_boxed_slice()];
        found.push(RrSet { kind: kind::NSEC, ttl: apex.negative_ttl, data });
    }
}

fn ordered(name: &[u8]) -> Ordered {
    let mut labels = Vec::new();
    let mut rest = name;
    while let Some(length) = rest.first().map(|length| usize::from(*length)).filter(|l| *l > 0) {
        labels.push(rest[1..=length].into());
        rest = &rest[1 + length..];
    }
    labels.reverse();
    labels
}

/// Writes one record.
pub(super) fn write(out: &mut Vec<u8>, owner: &[u8], kind: u16, ttl: u32, data: &[u8]) {
    out.extend_from_slice(owner);
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&IN.to_be_bytes());
    out.extend_from_slice(&ttl.to_be_bytes());
    out.extend_from_slice(&(data.len() as u16).to_be_bytes());
    out.extend_from_slice(data);
}

/// Whether two states of a zone are answered alike.
pub(super) fn is_same(zones: &Zones, index: usize, before: &Zones, old: usize) -> bool {
    let of = |zones: &Zones, index: usize| {
        let mine = zones.nodes.values().filter(move |node| usize::from(node.zone) == index);
        mine.count()
    };
    let same_host = |one: &Option<Arc<Host>>, other: &Option<Arc<Host>>| match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    };
    let same_signer = match (&zones.apexes[index].signer, &before.apexes[old].signer) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    };
    let mut mine = zones.nodes.iter().filter(|(_, node)| usize::from(node.zone) == index);
    same_signer
        && zones.apexes[index].is_like(&before.apexes[old])
        && of(zones, index) == of(before, old)
        && mine.all(|(name, node)| {
            before.nodes.get(name).is_some_and(|was| {
                usize::from(was.zone) == old
                    && same_host(&node.host, &was.host)
                    && node.records == was.records
            })
        })
}
