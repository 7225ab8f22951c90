//! Whole zones for secondaries (AXFR), and telling them that there is something new (NOTIFY).
//!
//! A secondary answers everybody alike, so it gets what a client at this server's own place would:
//! the clusters it would be sent to, with their addresses. A signed zone comes with all signatures
//! and a chain of NSEC records, so that a secondary needs no key. Only those who are named at the
//! start, come from their address and sign with their secret get anything; an IXFR is answered
//! with the whole zone, or with nothing but the SOA if there is nothing new.

mod content;
mod notify;

use std::net::{IpAddr, SocketAddr};

use limen_dns_wire::tsig::{self, Before, TsigKey};

pub(crate) use notify::Notifier;

use crate::respond::Common;
use crate::wire::query::{Query, Read, read};
use crate::wire::{HEADER, IN, kind, name, u16_at};
use crate::zone::{Apex, Zones};
use content::records_of;

/// Records in one message, in bytes; more go into the next.
const MESSAGE: usize = 16 * 1024;

/// Somebody who may have whole zones.
#[derive(Clone, Debug)]
pub struct Secondary {
    /// Where it is told of changes. It has to ask from the same address, with any port.
    pub address: SocketAddr,
    /// The secret that is shared with it.
    pub key: TsigKey,
}

/// Whether a packet asks for a transfer. What is asked then may take a while.
pub(crate) fn is_asked_for(packet: &[u8]) -> bool {
    let after = name::skip(packet, HEADER);
    let kind = after.and_then(|at| u16_at(packet, at));
    matches!(kind, Some(kind::AXFR | kind::IXFR))
}

/// The messages of a transfer. Nothing if whoever asks may not have it, or it is not ours: then it
/// is answered like any other question. `now` is in seconds since 1970.
pub(crate) fn answer(
    common: &Common,
    packet: &[u8],
    client: IpAddr,
    now: u64,
) -> Option<Vec<Vec<u8>>> {
    let Read::Query(query) = read(packet) else { return None };
    let keys = common.secondaries.iter().filter(|peer| peer.address.ip() == client);
    let signed = tsig::verify(packet, keys.map(|peer| &peer.key), Before::Nothing, now).ok()?;
    let zones = common.zones.load();
    let is_this = |apex: &&Apex| query.class == IN && *apex.name == *query.name.as_bytes();
    let apex = zones.apexes.iter().find(is_this)?;
    let records = if serial_of_client(packet, &query) == Some(apex.serial()) {
        let mut soa = Vec::new();
        content::write(&mut soa, &apex.name, kind::SOA, apex.negative_ttl, &apex.soa);
        vec![soa]
    } else {
        records_of(common, &zones, apex, now as u32)
    };
    tracing::info!(zone = name::to_text(&apex.name), %client, records = records.len(), "transfer");
    common.counters.transfers.add();
    Some(messages(packet, query.question, &records, signed.key, &signed.mac, now))
}

/// What a client of an IXFR has already.
fn serial_of_client(packet: &[u8], query: &Query<'_>) -> Option<u32> {
    if query.kind != kind::IXFR || u16_at(packet, 8) != Some(1) {
        return None;
    }
    let at = name::skip(packet, HEADER + query.question.len())?;
    let data = name::skip(packet, name::skip(packet, at + 10)?)?;
    packet.get(data..data + 4)?.try_into().ok().map(u32::from_be_bytes)
}

/// Packs records into messages, each signed after the one before.
fn messages(
    packet: &[u8],
    question: &[u8],
    records: &[Vec<u8>],
    key: &TsigKey,
    request: &[u8],
    now: u64,
) -> Vec<Vec<u8>> {
    let mut messages: Vec<Vec<u8>> = Vec::new();
    let mut before: Option<Vec<u8>> = None;
    let mut rest = records;
    while !rest.is_empty() {
        let mut message = vec![packet[0], packet[1], 0x84, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        if before.is_none() {
            message[5] = 1;
            message.extend_from_slice(question);
        }
        let mut count = 0;
        while let Some(record) = rest.get(count)
            && (count == 0 || message.len() + record.len() <= MESSAGE)
        {
            message.extend_from_slice(record);
            count += 1;
        }
        message[6..8].copy_from_slice(&(count as u16).to_be_bytes());
        rest = &rest[count..];
        let follows = before.as_deref().map_or(Before::Request(request), Before::Message);
        before = Some(tsig::sign(&mut message, key, follows, now));
        messages.push(message);
    }
    messages
}

/// Which zones may have other answers than before.
#[derive(Clone, Copy)]
pub(crate) enum Touched<'a> {
    /// All have.
    All,
    /// These have, and no others.
    Only(&'a [u16]),
    /// It has to be looked at.
    Unknown,
}

/// Gives zones that are the same as before the serial that they had, and all others a higher one.
pub(crate) fn number(zones: &mut Zones, before: &Zones, touched: Touched<'_>, now: u32) {
    for index in 0..zones.apexes.len() {
        let name = &zones.apexes[index].name;
        let old = before.apexes.iter().position(|old| old.name == *name);
        let Some(old) = old else { continue };
        let same = match touched {
            Touched::All => false,
            Touched::Only(touched) => touched.iter().all(|zone| usize::from(*zone) != index),
            Touched::Unknown => content::is_same(zones, index, before, old),
        };
        let (serial, numbered) = (before.apexes[old].serial(), before.apexes[old].numbered);
        // Signatures of long ago, or of a time that is yet to come, are to be fetched anew.
        let age = now.wrapping_sub(numbered) as i32;
        let stays = same && (-content::AHEAD..content::RENEW).contains(&age);
        let apex = &mut zones.apexes[index];
        apex.set_serial(if stays { serial } else { next_serial(serial, now) });
        apex.numbered = if stays { numbered } else { now };
    }
}

/// The time, unless that is not higher: several changes within a second, or a clock that is set
/// back, leave serials ahead of it.
fn next_serial(old: u32, now: u32) -> u32 {
    let is_higher = now.wrapping_sub(old) as i32 > 0;
    if is_higher { now } else { old.wrapping_add(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u32 = 24 * 3600;

    /// A zone whose serial was given to it at some time.
    fn zone(serial: u32, numbered: u32) -> Zones {
        let mut apex = Apex { soa: [0; 22].into(), numbered, ..Apex::default() };
        apex.set_serial(serial);
        Zones { apexes: vec![apex], ..Zones::default() }
    }

    #[test]
    fn a_serial_goes_up_with_a_change_and_stays_without_one() {
        for (what, old, changed, now, expected) in [
            ("a change", (1000, 1000), true, 1005, 1005),
            ("another in the same second", (1000, 1000), true, 1000, 1001),
            ("a day without", (1000, 1000), false, 1000 + DAY - 1, 1000),
            ("more than a day", (1000, 1000), false, 1000 + DAY, 1000 + DAY),
            ("ahead of the clock", (2000, 1000), false, 1001, 2000),
            ("ahead for a day", (2 * DAY, 1000), false, 1000 + DAY, 2 * DAY + 1),
            ("a clock set back a little", (1000, 1000), false, 940, 1000),
            ("a clock set back", (9000, 9000), false, 1000, 9001),
            ("the end of numbers", (u32::MAX, u32::MAX), true, u32::MAX, 0),
            ("beyond it", (u32::MAX, u32::MAX), true, 5, 5),
        ] {
            let before = zone(old.0, old.1);
            let mut zones = before.clone();
            let touched = if changed { Touched::All } else { Touched::Only(&[]) };
            number(&mut zones, &before, touched, now);
            assert_eq!(zones.apexes[0].serial(), expected, "{what}");
            // However often it is looked at, that was it.
            let before = zones.clone();
            number(&mut zones, &before, Touched::Only(&[]), now);
            assert_eq!(zones.apexes[0].serial(), expected, "{what}");
        }
    }
}
