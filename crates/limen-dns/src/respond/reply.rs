//! Writing an answer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::cookie::CookieKey;
use crate::wire::edns::{Edns, option, write_subnet};
use crate::wire::{HEADER, IN, Rcode, kind, u16_at};
use crate::zone::{Apex, RrSet, Zones};

/// Reasons beyond the response code (RFC 8914).
pub(super) mod extended {
    pub(crate) const NOT_READY: u16 = 14;
    pub(crate) const PROHIBITED: u16 = 18;
    pub(crate) const NOT_AUTHORITATIVE: u16 = 20;
    pub(crate) const NOT_SUPPORTED: u16 = 21;
    pub(crate) const INVALID_TYPE: u16 = 30;
}

/// The size that this server takes by UDP.
const OUR_UDP_SIZE: u16 = 1232;
/// The name of the question, where every question has it.
pub(super) const TO_QUESTION: [u8; 2] = [0xC0, HEADER as u8];
const TRUNCATED: u8 = 0x02;
const AUTHORITATIVE: u8 = 0x04;

/// What the server says of itself.
pub(super) struct Identity<'a> {
    pub(super) nsid: &'a [u8],
    pub(super) key: &'a CookieKey,
    pub(super) client: IpAddr,
    pub(super) now: u64,
}

/// An answer in the making.
pub(super) struct Reply<'a> {
    out: &'a mut Vec<u8>,
    after_question: usize,
    /// The name that records are written for: that of the question, or an alias of it.
    owner: [u8; 2],
    answers: u16,
    authorities: u16,
    additionals: u16,
    /// The length of the name that is delegated, if it says who answers for it.
    pub(super) refers: u8,
    pub(super) rcode: Rcode,
    pub(super) scope: u8,
    /// How long it may be.
    pub(super) limit: usize,
    /// How long a refusal may be, so that nobody gets more out than they put in.
    pub(super) room: usize,
    extended: Option<u16>,
}

impl<'a> Reply<'a> {
    /// An answer to a packet, with its question.
    pub(super) fn new(out: &'a mut Vec<u8>, packet: &[u8], question: &[u8]) -> Self {
        out.clear();
        // The number, the opcode and whether recursion was wished for are the client's own; and it
        // is told whether it may check signatures itself.
        let flags = [0x80 | packet[2] & 0x79, packet[3] & 0x10];
        out.extend_from_slice(&[packet[0], packet[1], flags[0], flags[1]]);
        out.extend_from_slice(&[0, u8::from(!question.is_empty()), 0, 0, 0, 0, 0, 0]);
        out.extend_from_slice(question);
        let after_question = out.len();
        Self {
            out,
            after_question,
            owner: TO_QUESTION,
            answers: 0,
            authorities: 0,
            additionals: 0,
            refers: 0,
            rcode: Rcode::NoError,
            scope: 0,
            limit: 512,
            room: 0,
            extended: None,
        }
    }

    pub(super) fn authoritative(&mut self) {
        self.out[2] |= AUTHORITATIVE;
    }

    pub(super) fn is_authoritative(&self) -> bool {
        self.out[2] & AUTHORITATIVE != 0
    }

    pub(super) fn refuse(&mut self, why: u16) {
        self.fail(Rcode::Refused, why);
    }

    /// There is no answer, whatever has been written so far.
    pub(super) fn fail(&mut self, rcode: Rcode, why: u16) {
        self.out.truncate(self.after_question);
        self.answers = 0;
        self.out[2] &= !AUTHORITATIVE;
        self.rcode = rcode;
        self.extended = Some(why);
    }

    /// Everything after the question so far.
    pub(super) fn records_so_far(&self) -> (usize, &[u8]) {
        (self.after_question, self.out)
    }

    /// A record that goes where there are no answers.
    pub(super) fn authority(&mut self, owner: [u8; 2], kind: u16, ttl: u32, data: &[u8]) {
        self.write(owner, kind, ttl, data);
        self.authorities += 1;
    }

    /// Leaves out what is said where there are no answers.
    pub(super) fn forget_authorities(&mut self) {
        self.out.truncate(self.after_question);
        self.authorities = 0;
    }

    /// A record of a name that is there already.
    pub(super) fn answer(&mut self, owner: [u8; 2], kind: u16, ttl: u32, data: &[u8]) {
        self.write(owner, kind, ttl, data);
        self.answers += 1;
    }

    pub(super) fn has_answers(&self) -> bool {
        self.answers > 0
    }

    /// From here on the name that the last record leads to is answered for. `length` is that of
    /// the name, which the record ends with. Whether that is possible.
    pub(super) fn follow(&mut self, length: usize) -> bool {
        let at = self.out.len() - length;
        // A pointer reaches no further.
        let reaches = at < 0x4000;
        if reaches {
            self.owner = (0xC000 | at as u16).to_be_bytes();
        }
        reaches
    }

    /// A record of the name that is answered for.
    pub(super) fn record(&mut self, kind: u16, ttl: u32, data: &[u8]) {
        self.write(self.owner, kind, ttl, data);
        self.answers += 1;
    }

    pub(super) fn records(&mut self, set: &RrSet, turn: usize) {
        for data in set.starting_with(turn) {
            self.record(set.kind, set.ttl, data);
        }
    }

    /// Addresses, of which the next has its turn. Returns how many there was room for.
    pub(super) fn addresses<A: Octets>(
        &mut self,
        kind: u16,
        ttl: u32,
        addresses: &[A],
        turn: usize,
        room: usize,
    ) -> usize {
        let count = addresses.len().min(room);
        for index in 0..count {
            let address = &addresses[(turn + index) % addresses.len()];
            address.with(|octets| self.record(kind, ttl, octets));
        }
        count
    }

    /// The SOA record that says how long to remember that there is nothing.
    pub(super) fn soa(&mut self, apex: &Apex, name_length: usize) {
        let at = HEADER + name_length - apex.name.len();
        // A name is at most 255 bytes long, so that a pointer always reaches.
        let pointer = (0xC000 | at as u16).to_be_bytes();
        self.write(pointer, kind::SOA, apex.negative_ttl, &apex.soa);
        self.authorities += 1;
    }

    /// Says who answers for a name that is delegated: the last `cut` bytes of the one that was
    /// asked for.
    pub(super) fn refer(&mut self, servers: &RrSet, name_length: usize, cut: u8) {
        self.refers = cut;
        let owner = self.delegated(name_length);
        for data in &servers.data {
            self.authority(owner, servers.kind, servers.ttl, data);
        }
    }

    /// Where the name that is delegated is.
    pub(super) fn delegated(&self, name_length: usize) -> [u8; 2] {
        // A name is at most 255 bytes long, so that a pointer always reaches.
        (0xC000 | (HEADER + name_length - usize::from(self.refers)) as u16).to_be_bytes()
    }

    /// The addresses of servers that it refers to. Nothing may be signed after them.
    pub(super) fn glue(&mut self, zones: &Zones) {
        if self.refers == 0 {
            return;
        }
        let mut servers = Vec::new();
        let mut at = self.after_question;
        while let Some(head) = self.out.get(at..at + 12) {
            let (kind, length) = (u16_at(head, 2), u16_at(head, 10).unwrap_or_default());
            let data = at + 12..at + 12 + usize::from(length);
            at = data.end;
            if kind == Some(kind::NS) {
                servers.extend(self.out.get(data).map(<[u8]>::to_vec));
            }
        }
        for server in servers {
            let Some(node) = zones.nodes.get(&*server) else { continue };
            for set in node.records.iter().filter(|set| matches!(set.kind, kind::A | kind::AAAA)) {
                for data in &set.data {
                    self.out.extend_from_slice(&server);
                    self.write_rest(set.kind, set.ttl, data);
                    self.additionals += 1;
                }
            }
        }
    }

    fn write(&mut self, owner: [u8; 2], kind: u16, ttl: u32, data: &[u8]) {
        let [kind_high, kind_low] = kind.to_be_bytes();
        let [class_high, class_low] = IN.to_be_bytes();
        let [t0, t1, t2, t3] = ttl.to_be_bytes();
        let [length_high, length_low] = (data.len() as u16).to_be_bytes();
        let [owner_high, owner_low] = owner;
        self.out.extend_from_slice(&[
            owner_high,
            owner_low,
            kind_high,
            kind_low,
            class_high,
            class_low,
            t0,
            t1,
            t2,
            t3,
            length_high,
            length_low,
        ]);
        self.out.extend_from_slice(data);
    }

    /// A record whose name is written already.
    fn write_rest(&mut self, kind: u16, ttl: u32, data: &[u8]) {
        self.out.extend_from_slice(&kind.to_be_bytes());
        self.out.extend_from_slice(&IN.to_be_bytes());
        self.out.extend_from_slice(&ttl.to_be_bytes());
        self.out.extend_from_slice(&(data.len() as u16).to_be_bytes());
        self.out.extend_from_slice(data);
    }

    /// The answer to what could not be read.
    pub(super) fn finish_bare(mut self, rcode: Rcode) {
        self.rcode = rcode;
        self.write_head();
    }

    /// Completes the answer.
    pub(super) fn finish(mut self, edns: Option<&Edns<'_>>, identity: &Identity<'_>) {
        let before = self.out.len();
        if let Some(edns) = edns {
            self.write_opt(edns, identity);
        }
        if self.out.len() > self.limit {
            let opt = self.out[before..].to_vec();
            self.out.truncate(self.after_question);
            (self.answers, self.authorities, self.additionals) = (0, 0, 0);
            self.out[2] |= TRUNCATED;
            self.out.extend_from_slice(&opt);
        }
        self.additionals += u16::from(edns.is_some());
        self.write_head();
    }

    fn write_head(&mut self) {
        self.out[3] |= self.rcode as u8 & 0x0F;
        self.out[6..8].copy_from_slice(&self.answers.to_be_bytes());
        self.out[8..10].copy_from_slice(&self.authorities.to_be_bytes());
        self.out[10..12].copy_from_slice(&self.additionals.to_be_bytes());
    }

    fn write_opt(&mut self, edns: &Edns<'_>, identity: &Identity<'_>) {
        let [size_high, size_low] = OUR_UDP_SIZE.to_be_bytes();
        let dnssec_ok = if edns.dnssec { 0x80 } else { 0 };
        let high_rcode = self.rcode as u8 >> 4;
        let [kind_high, kind_low] = kind::OPT.to_be_bytes();
        self.out.extend_from_slice(&[
            0, kind_high, kind_low, size_high, size_low, high_rcode, 0, dnssec_ok, 0, 0, 0,
        ]);
        let start = self.out.len();
        // Who is turned away gets no more than they sent.
        let refused = matches!(self.rcode, Rcode::FormErr | Rcode::NotImp | Rcode::Refused);
        if let Some(subnet) = &edns.subnet {
            write_subnet(subnet, self.scope, self.out);
        }
        if let Some(cookie) = edns.cookie
            && let Some(client) = cookie.first_chunk::<8>()
        {
            let server = identity.key.make(client, identity.client, identity.now);
            let fits = !refused || self.out.len() + 28 <= self.room;
            if fits {
                self.option(option::COOKIE, &[&client[..], &server].concat());
            }
        }
        if edns.wants_nsid && !identity.nsid.is_empty() && !refused {
            self.option(option::NSID, identity.nsid);
        }
        if let Some(why) = self.extended
            && self.out.len() + 6 <= self.room
        {
            self.option(option::EXTENDED_ERROR, &why.to_be_bytes());
        }
        let length = (self.out.len() - start) as u16;
        self.out[start - 2..start].copy_from_slice(&length.to_be_bytes());
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.out.extend_from_slice(&code.to_be_bytes());
        self.out.extend_from_slice(&(value.len() as u16).to_be_bytes());
        self.out.extend_from_slice(value);
    }
}

/// Addresses of either family.
pub(super) trait Octets {
    fn with(&self, use_octets: impl FnOnce(&[u8]));
}

impl Octets for Ipv4Addr {
    fn with(&self, use_octets: impl FnOnce(&[u8])) {
        use_octets(&self.octets());
    }
}

impl Octets for Ipv6Addr {
    fn with(&self, use_octets: impl FnOnce(&[u8])) {
        use_octets(&self.octets());
    }
}

/// Makes an answer a mere hint to come back by TCP: its question, and that it was cut short.
pub(super) fn truncate(out: &mut Vec<u8>, packet: &[u8]) {
    let question = crate::wire::name::Name::read(packet, HEADER).map_or(HEADER, |(_, end)| end + 4);
    out.truncate(question);
    out[2] |= TRUNCATED;
    out[6..HEADER].fill(0);
}
