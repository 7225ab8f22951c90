//! Messages to bytes, and transferred zones from bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use limen_core::publish::{Change, Prerequisite, RecordKind, Records, Update, Zone};
use limen_dns_wire::{name, u16_at};

use super::UpdateError;

const HEADER: usize = 12;
const SOA: u16 = 6;
const AXFR: u16 = 252;
const IN: u16 = 1;
const NONE: u16 = 254;
const ANY: u16 = 255;
/// Signatures and what denies names, which may be beside an alias (RFC 2181, RFC 4034, RFC 5155).
const BESIDE_ANYTHING: [u16; 3] = [46, 47, 50];
/// Records of a zone that are read at most.
const MOST_RECORDS: usize = 1_000_000;

fn number(kind: RecordKind) -> u16 {
    match kind {
        RecordKind::A => 1,
        RecordKind::Cname => 5,
        RecordKind::Txt => 16,
        RecordKind::Aaaa => 28,
    }
}

fn wire_name(text: &str) -> Result<Box<[u8]>, UpdateError> {
    name::from_text(text).map_err(UpdateError::Unwritable)
}

/// The question for a whole zone. Its number is filled in when it is sent.
pub(super) fn transfer(zone: &str) -> Result<Vec<u8>, UpdateError> {
    let mut packet = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    packet.extend(wire_name(zone)?);
    packet.extend(AXFR.to_be_bytes());
    packet.extend(IN.to_be_bytes());
    Ok(packet)
}

/// A change. Its number is filled in when it is sent.
pub(super) fn update(zone: &str, change: &Change) -> Result<Vec<u8>, UpdateError> {
    let mut packet = vec![0, 0, 0x28, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    packet.extend(wire_name(zone)?);
    packet.extend(SOA.to_be_bytes());
    packet.extend(IN.to_be_bytes());
    let mut count = 0_u16;
    for prerequisite in &change.prerequisites {
        match prerequisite {
            Prerequisite::Absent(name, kind) => {
                record(&mut packet, name, *kind, NONE, 0, &[])?;
                count += 1;
            }
            Prerequisite::Exactly(name, kind, data) => {
                for one in data {
                    record(&mut packet, name, *kind, IN, 0, &bytes(*kind, one)?)?;
                    count += 1;
                }
            }
        }
    }
    packet[6..8].copy_from_slice(&count.to_be_bytes());
    count = 0;
    for update in &change.updates {
        match update {
            Update::Remove(name, kind) => {
                record(&mut packet, name, *kind, ANY, 0, &[])?;
                count += 1;
            }
            Update::Add(name, kind, records) => {
                for one in &records.data {
                    record(&mut packet, name, *kind, IN, records.ttl, &bytes(*kind, one)?)?;
                    count += 1;
                }
            }
        }
    }
    packet[8..10].copy_from_slice(&count.to_be_bytes());
    Ok(packet)
}

fn record(
    packet: &mut Vec<u8>,
    name: &str,
    kind: RecordKind,
    class: u16,
    ttl: u32,
    data: &[u8],
) -> Result<(), UpdateError> {
    packet.extend(wire_name(name)?);
    packet.extend(number(kind).to_be_bytes());
    packet.extend(class.to_be_bytes());
    packet.extend(ttl.to_be_bytes());
    packet.extend((data.len() as u16).to_be_bytes());
    packet.extend(data);
    Ok(())
}

fn bytes(kind: RecordKind, text: &str) -> Result<Vec<u8>, UpdateError> {
    let wrong = || UpdateError::Unwritable(format!("{text:?} cannot be a {} record", kind.name()));
    match (kind, text.parse::<IpAddr>()) {
        (RecordKind::A, Ok(IpAddr::V4(address))) => Ok(address.octets().to_vec()),
        (RecordKind::Aaaa, Ok(IpAddr::V6(address))) => Ok(address.octets().to_vec()),
        (RecordKind::Cname, _) => wire_name(text).map(Vec::from),
        (RecordKind::Txt, _) if text.len() <= 255 => {
            Ok([&[text.len() as u8], text.as_bytes()].concat())
        }
        _ => Err(wrong()),
    }
}

/// A zone on its way here.
#[derive(Default)]
pub(super) struct Transfer {
    pub(super) zone: Zone,
    /// The zone begins and ends with the same record.
    started: bool,
    records: usize,
}

impl Transfer {
    /// Takes in one message. Whether it was the last.
    pub(super) fn take(&mut self, packet: &[u8]) -> Result<bool, &'static str> {
        const CUT: &str = "it ends in the middle of a record";
        let questions = u16_at(packet, 4).ok_or(CUT)?;
        let answers = u16_at(packet, 6).ok_or(CUT)?;
        let mut at = HEADER;
        for _ in 0..questions {
            at = name::skip(packet, at).ok_or(CUT)? + 4;
        }
        for _ in 0..answers {
            let (owner, after) = name::read_compressed(packet, at).ok_or(CUT)?;
            let kind = u16_at(packet, after).ok_or(CUT)?;
            let ttl = packet.get(after + 4..after + 8).ok_or(CUT)?;
            let ttl = ttl.iter().fold(0, |ttl, byte| ttl << 8 | u32::from(*byte));
            let start = after + 10;
            at = start + usize::from(u16_at(packet, after + 8).ok_or(CUT)?);
            if packet.len() < at {
                return Err(CUT);
            }
            if kind == SOA && std::mem::replace(&mut self.started, true) {
                return Ok(true);
            }
            if !self.started {
                return Err("a zone that is transferred begins with its SOA record");
            }
            self.records += 1;
            if self.records > MOST_RECORDS {
                return Err("the zone has more than a million records");
            }
            let name = name::to_text(&owner);
            if let Some((kind, text)) = text(packet, kind, start, at) {
                let records = self.zone.records.entry((name, kind)).or_default();
                *records = Records { ttl, data: std::mem::take(&mut records.data) };
                records.data.insert(text);
            } else if !BESIDE_ANYTHING.contains(&kind) {
                self.zone.others.insert(name);
            }
        }
        if answers == 0 {
            return Err("a message of the transfer has no records");
        }
        Ok(false)
    }
}

/// The data of a record, if it is of a kind that matters.
fn text(packet: &[u8], kind: u16, start: usize, end: usize) -> Option<(RecordKind, String)> {
    let data = &packet[start..end];
    match kind {
        1 => {
            let address = Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?);
            Some((RecordKind::A, address.to_string()))
        }
        28 => {
            let address = Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?);
            Some((RecordKind::Aaaa, address.to_string()))
        }
        5 => {
            let (alias, _) = name::read_compressed(packet, start)?;
            Some((RecordKind::Cname, name::to_text(&alias)))
        }
        16 => {
            let (mut rest, mut whole) = (data, Vec::new());
            while let [length, more @ ..] = rest {
                let (part, after) = more.split_at_checked(usize::from(*length))?;
                whole.extend_from_slice(part);
                rest = after;
            }
            Some((RecordKind::Txt, String::from_utf8_lossy(&whole).into_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_one_message_of_conditions_and_updates() {
        let change = Change {
            what: String::new(),
            prerequisites: vec![
                Prerequisite::Absent("a.example".into(), RecordKind::Cname),
                Prerequisite::Exactly("a.example".into(), RecordKind::Txt, ["x".into()].into()),
            ],
            updates: vec![
                Update::Remove("a.example".into(), RecordKind::A),
                Update::Add(
                    "a.example".into(),
                    RecordKind::A,
                    Records { ttl: 30, data: ["192.0.2.1".into()].into() },
                ),
            ],
        };
        let packet = update("example", &change).unwrap();
        let zone = b"\x07example\0\0\x06\0\x01";
        let name = b"\x01a\x07example\0";
        let expected = [
            &b"\0\0\x28\0\0\x01\0\x02\0\x02\0\0"[..],
            zone,
            name,
            b"\0\x05\0\xfe\0\0\0\0\0\0",
            name,
            b"\0\x10\0\x01\0\0\0\0\0\x02\x01x",
            name,
            b"\0\x01\0\xff\0\0\0\0\0\0",
            name,
            b"\0\x01\0\x01\0\0\0\x1e\0\x04\xc0\0\x02\x01",
        ];
        assert_eq!(packet, expected.concat());
    }

    #[test]
    fn a_transfer_that_is_cut_short_is_no_zone() {
        let soa = b"\x07example\0\0\x06\0\x01\0\0\0\x05\0\0";
        let address = b"\x01a\x07example\0\0\x01\0\x01\0\0\0\x05\0\x04\xc0\0\x02\x01";
        let message = |count: u8, parts: &[&[u8]]| {
            [&[0, 0, 0x80, 0, 0, 0, 0, count, 0, 0, 0, 0][..], &parts.concat()].concat()
        };
        let whole = message(3, &[soa, address, soa]);
        let mut transfer = Transfer::default();
        assert_eq!(transfer.take(&whole), Ok(true));
        let found = &transfer.zone.records[&("a.example".to_owned(), RecordKind::A)];
        assert_eq!(*found, Records { ttl: 5, data: ["192.0.2.1".to_owned()].into() });
        let others: Vec<&str> = transfer.zone.others.iter().map(String::as_str).collect();
        assert_eq!(others, ["example"], "which has the SOA record");
        for length in 0..whole.len() {
            assert!(Transfer::default().take(&whole[..length]).is_err(), "{length} bytes");
        }
        assert!(Transfer::default().take(&message(1, &[address])).is_err());
        assert_eq!(Transfer::default().take(&message(2, &[soa, address])), Ok(false));
    }
}
