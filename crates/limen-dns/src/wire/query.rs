//! What a packet asks, or why it gets no real answer.

use super::edns::{self, Edns};
use super::name::{self, Name};
use super::{HEADER, Rcode, kind, u16_at};

/// A question that can be answered.
pub(crate) struct Query<'a> {
    /// The question as it came, upper and lower case and all.
    pub(crate) question: &'a [u8],
    pub(crate) name: Name,
    pub(crate) kind: u16,
    pub(crate) class: u16,
    pub(crate) edns: Option<Edns<'a>>,
    /// Whether it is signed with a shared secret.
    pub(crate) signed: bool,
}

/// What a packet is.
#[expect(clippy::large_enum_variant, reason = "it lives on the stack for one packet, unboxed")]
pub(crate) enum Read<'a> {
    /// A question.
    Query(Query<'a>),
    /// Wrong in a way that its sender is told. With the question if that much could be read.
    Wrong(Rcode, &'a [u8]),
    /// An answer, or too short to be anything: whoever sent it must not be answered, or two servers
    /// could talk to each other for ever.
    Silence,
}

const QR: u8 = 0x80;
const OPCODE: u8 = 0x78;

/// Reads a packet.
pub(crate) fn read(packet: &[u8]) -> Read<'_> {
    if packet.len() < HEADER || packet[2] & QR != 0 {
        return Read::Silence;
    }
    if packet[2] & OPCODE != 0 {
        return Read::Wrong(Rcode::NotImp, &[]);
    }
    let count = |at| usize::from(u16_at(packet, at).unwrap_or_default());
    let [questions, answers, authorities, additionals] = [count(4), count(6), count(8), count(10)];
    if questions != 1 {
        return Read::Wrong(Rcode::FormErr, &[]);
    }
    let Ok((name, after)) = Name::read(packet, HEADER) else {
        return Read::Wrong(Rcode::FormErr, &[]);
    };
    let (Some(kind), Some(class)) = (u16_at(packet, after), u16_at(packet, after + 2)) else {
        return Read::Wrong(Rcode::FormErr, &[]);
    };
    let question = &packet[HEADER..after + 4];
    // A transfer of changes says in its authority section what it has already.
    let has_serial = kind == kind::IXFR && authorities == 1;
    if answers != 0 || (authorities != 0 && !has_serial) || kind == kind::OPT {
        return Read::Wrong(Rcode::FormErr, question);
    }
    let start = if has_serial { skip_record(packet, after + 4) } else { Some(after + 4) };
    match start.and_then(|start| read_additionals(packet, start, additionals)) {
        Some((edns, signed)) => Read::Query(Query { question, name, kind, class, edns, signed }),
        None => Read::Wrong(Rcode::FormErr, question),
    }
}

fn skip_record(packet: &[u8], start: usize) -> Option<usize> {
    let at = name::skip(packet, start)?;
    Some(at + 10 + usize::from(u16_at(packet, at + 8)?))
}

/// The OPT record, if there is one, and whether there is a signature. Nothing if the section is
/// malformed.
fn read_additionals(packet: &[u8], start: usize, count: usize) -> Option<(Option<Edns<'_>>, bool)> {
    let (mut found, mut signed) = (None, false);
    let mut at = start;
    for _ in 0..count {
        let is_root = *packet.get(at)? == 0;
        at = name::skip(packet, at)?;
        let kind = u16_at(packet, at)?;
        let class = u16_at(packet, at + 2)?;
        let ttl = packet.get(at + 4..at + 8)?.try_into().ok()?;
        let length = usize::from(u16_at(packet, at + 8)?);
        let data = packet.get(at + 10..at + 10 + length)?;
        at += 10 + length;
        if kind == kind::OPT {
            if !is_root || found.is_some() {
                return None;
            }
            found = Some(edns::read(class, ttl, data).ok()?);
        }
        signed |= kind == kind::TSIG;
    }
    // What follows the last record belongs to nothing.
    (at == packet.len()).then_some((found, signed))
}
