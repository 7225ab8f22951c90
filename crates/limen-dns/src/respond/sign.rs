//! Signatures for an answer, and the proof that there is none.

use super::answer::{Asked, Memory, found};
use super::reply::{Reply, TO_QUESTION};
use crate::dnssec::{Content, Signatures, Signer, bitmap, next_name};
use crate::wire::{Rcode, kind, name, u16_at};
use crate::zone::{Found, Node, Zones};

/// Every record has its owner as a pointer, then type, class, TTL and length.
const RECORD_HEAD: usize = 12;

/// Records of one name and type within an answer.
struct Set {
    owner: [u8; 2],
    kind: u16,
    ttl: u32,
    /// Where the data of each is.
    data: Vec<(usize, usize)>,
}

impl Memory {
    /// Signs an answer for who wants that, if its zone is signed. `now` is in seconds since 1970.
    pub(super) fn sign(
        &mut self,
        zones: &Zones,
        asked: &Asked<'_>,
        now: u32,
        reply: &mut Reply<'_>,
    ) {
        let wants = asked.query.edns.as_ref().is_some_and(|edns| edns.dnssec);
        if !wants || !reply.is_authoritative() && reply.refers == 0 {
            return;
        }
        if reply.refers != 0 {
            vouch(zones, asked, reply);
        } else if !reply.has_answers() {
            deny(zones, asked, reply);
        }
        let is_answer = reply.has_answers();
        for set in sets(reply) {
            let (signatures, ttl) = (&mut self.signatures, set.ttl);
            for signature in signatures_of(zones, &set, now, reply, signatures) {
                if is_answer {
                    reply.answer(set.owner, kind::RRSIG, ttl, &signature);
                } else {
                    reply.authority(set.owner, kind::RRSIG, ttl, &signature);
                }
            }
        }
    }
}

fn signatures_of(
    zones: &Zones,
    set: &Set,
    now: u32,
    reply: &Reply<'_>,
    signatures: &mut Signatures,
) -> Vec<Box<[u8]>> {
    let (_, packet) = reply.records_so_far();
    let pointer = usize::from(u16::from_be_bytes(set.owner) & 0x3FFF);
    let Some((owner, _)) = name::read_compressed(packet, pointer) else { return Vec::new() };
    let Some(signer) = signer(zones, &owner, set.kind) else { return Vec::new() };
    let mut data: Vec<&[u8]> = set.data.iter().map(|(start, end)| &packet[*start..*end]).collect();
    let mut content = Content::default();
    content.set(signer, &owner, set.kind, set.ttl, &mut data);
    signatures.of(signer, &content, now).to_vec()
}

/// What signs records of a name and type.
fn signer<'a>(zones: &'a Zones, owner: &[u8], kind: u16) -> Option<&'a Signer> {
    let zone = zones.zone_of(owner)?;
    let apex = &zones.apexes[usize::from(zone)];
    // Of a name that is delegated only whether it is signed is this zone's to say.
    let is_cut = zones.nodes.get(owner).is_some_and(|node| node.cut != 0);
    if is_cut && !matches!(kind, kind::DS | kind::NSEC) {
        return None;
    }
    // Where a zone begins, what says whether it is signed is the zone's above.
    let is_above = kind == kind::DS && *apex.name == *owner;
    let above = || name::parent(owner).and_then(|parent| zones.zone_of(parent));
    let zone = if is_above { above()? } else { zone };
    zones.apexes[usize::from(zone)].signer.as_deref()
}

/// The records of an answer by name and type.
fn sets(reply: &Reply<'_>) -> Vec<Set> {
    let (mut at, packet) = reply.records_so_far();
    let mut sets: Vec<Set> = Vec::new();
    while let Some(head) = packet.get(at..at + RECORD_HEAD) {
        let owner = [head[0], head[1]];
        let kind = u16::from_be_bytes([head[2], head[3]]);
        let ttl = u32::from_be_bytes([head[6], head[7], head[8], head[9]]);
        let start = at + RECORD_HEAD;
        let end = start + usize::from(u16_at(head, 10).unwrap_or_default());
        match sets.iter_mut().find(|set| set.owner == owner && set.kind == kind) {
            Some(set) => set.data.push((start, end)),
            None => sets.push(Set { owner, kind, ttl, data: vec![(start, end)] }),
        }
        at = end;
    }
    sets
}

/// Adds what says whether a zone that is delegated is signed.
fn vouch(zones: &Zones, asked: &Asked<'_>, reply: &mut Reply<'_>) {
    let asked_name = asked.query.name.as_bytes();
    let cut = &asked_name[asked_name.len() - usize::from(reply.refers)..];
    let Some(node) = zones.nodes.get(cut) else { return };
    let apex = &zones.apexes[usize::from(node.zone)];
    if apex.signer.is_none() {
        return;
    }
    let owner = reply.delegated(asked_name.len());
    match node.set(kind::DS) {
        Some(set) => {
            set.data.iter().for_each(|data| reply.authority(owner, kind::DS, set.ttl, data));
        }
        None => {
            let data = [next_name(cut, &apex.name), bitmap(&mut kinds(node))].concat();
            reply.authority(owner, kind::NSEC, apex.negative_ttl, &data);
        }
    }
}

/// The types that a name has in this zone.
fn kinds(node: &Node) -> Vec<u16> {
    let mut kinds = vec![kind::RRSIG, kind::NSEC];
    let shown = |kind: u16| node.cut == 0 || matches!(kind, kind::NS | kind::DS);
    kinds.extend(node.records.iter().map(|set| set.kind).filter(|kind| shown(*kind)));
    kinds
}

/// Adds the record that says what the name has instead.
fn deny(zones: &Zones, asked: &Asked<'_>, reply: &mut Reply<'_>) {
    let query = asked.query;
    let asked_name = query.name.as_bytes();
    let mut kinds = kinds(&Node::default());
    let zone = match found(zones, query) {
        Found::Foreign | Found::Delegated { .. } => return,
        Found::Cut { above, .. } => {
            kinds.push(kind::NS);
            above
        }
        Found::Nothing(zone) => {
            kinds.push(kind::NXNAME);
            zone
        }
        Found::Node(node) | Found::Wildcard { node, .. } => {
            kinds = self::kinds(node);
            if let Some(host) = &node.host {
                let any = |has: &dyn Fn(&crate::zone::Ways) -> bool| host.ways.iter().any(has);
                kinds.extend(any(&|ways| !ways.four.is_empty()).then_some(kind::A));
                kinds.extend(any(&|ways| !ways.six.is_empty()).then_some(kind::AAAA));
            }
            node.zone
        }
    };
    let apex = &zones.apexes[usize::from(zone)];
    let Some(signer) = &apex.signer else { return };
    // The proof is that of a name that has nothing, and the code has to agree with it, unless the
    // client knows how to read it.
    if !query.edns.as_ref().is_some_and(|edns| edns.compact) {
        reply.rcode = Rcode::NoError;
    }
    if *apex.name == *asked_name {
        kinds.push(kind::SOA);
        kinds.extend(signer.sets.iter().map(|set| set.kind));
    }
    // What was asked for is not there for this client, whatever others are answered.
    kinds.retain(|kind| *kind != query.kind || *kind == kind::RRSIG || *kind == kind::NSEC);
    let data = [next_name(asked_name, &apex.name), bitmap(&mut kinds)].concat();
    if query.kind == kind::NSEC {
        reply.forget_authorities();
        reply.answer(TO_QUESTION, kind::NSEC, apex.negative_ttl, &data);
    } else {
        reply.authority(TO_QUESTION, kind::NSEC, apex.negative_ttl, &data);
    }
}
