//! Reading updates, and the answers to them.

use limen_api::ChallengeChange;

use super::code;
use crate::wire::{HEADER, IN, kind, name, u16_at};
use crate::zone::Zones;

const NONE: u16 = 254;
const ANY: u16 = 255;
/// What names must begin with.
const CHALLENGE: &[u8] = b"\x0f_acme-challenge";
/// Changes in one update at most.
const MOST_CHANGES: u16 = 32;
const LONGEST_TEXT: usize = 255;

/// An answer: the head and the zone of a packet, and a code.
pub(super) fn answer(packet: &[u8], code: u8) -> Vec<u8> {
    let zone = (u16_at(packet, 4) == Some(1)).then(|| name::skip(packet, HEADER)).flatten();
    let zone = zone.and_then(|end| packet.get(HEADER..end + 4)).unwrap_or_default();
    let mut answer = vec![packet[0], packet[1], 0x80 | packet[2] & 0x78, code];
    answer.extend([0, u8::from(!zone.is_empty()), 0, 0, 0, 0, 0, 0]);
    answer.extend(zone);
    answer
}

/// What an update wants changed, by name; or the code that says why it may not.
pub(super) fn changes(packet: &[u8], zones: &Zones) -> Result<Vec<(String, ChallengeChange)>, u8> {
    let count = |at| u16_at(packet, at).ok_or(code::FORM_ERR);
    let [zone_count, prerequisites, updates] = [count(4)?, count(6)?, count(8)?];
    if zone_count != 1 || updates > MOST_CHANGES {
        return Err(code::FORM_ERR);
    }
    let (zone, at) = name::read_compressed(packet, HEADER).ok_or(code::FORM_ERR)?;
    if u16_at(packet, at) != Some(kind::SOA) {
        return Err(code::FORM_ERR);
    }
    let is_ours = zones.apexes.iter().any(|apex| *apex.name == *zone);
    if u16_at(packet, at + 2) != Some(IN) || !is_ours {
        return Err(code::NOT_AUTH);
    }
    // No ACME client has conditions, and pretending to have checked them would be wrong.
    if prerequisites != 0 {
        return Err(code::NOT_IMP);
    }
    let mut at = at + 4;
    let mut changes = Vec::new();
    for _ in 0..updates {
        let (name, after) = name::read_compressed(packet, at).ok_or(code::FORM_ERR)?;
        let (change, end) = change(packet, &name, &zone, after)?;
        changes.push((name::to_text(&name), change));
        at = end;
    }
    Ok(changes)
}

fn change(
    packet: &[u8],
    name: &[u8],
    zone: &[u8],
    at: usize,
) -> Result<(ChallengeChange, usize), u8> {
    let number = |at| u16_at(packet, at).ok_or(code::FORM_ERR);
    let (record_kind, class, length) = (number(at)?, number(at + 2)?, number(at + 8)?);
    let end = at + 10 + usize::from(length);
    let data = packet.get(at + 10..end).ok_or(code::FORM_ERR)?;
    if !name::is_within(name, zone) {
        return Err(code::NOT_ZONE);
    }
    let whole = record_kind == kind::ANY && class == ANY;
    if !name.starts_with(CHALLENGE) || record_kind != kind::TXT && !whole {
        return Err(code::REFUSED);
    }
    let change = match class {
        IN => ChallengeChange::Add(text(data)?),
        NONE => ChallengeChange::Remove(text(data)?),
        ANY if data.is_empty() => ChallengeChange::Clear,
        _ => return Err(code::FORM_ERR),
    };
    Ok((change, end))
}

/// The text of a TXT record.
fn text(mut data: &[u8]) -> Result<String, u8> {
    let mut whole = Vec::new();
    while let [length, rest @ ..] = data {
        let (part, after) = rest.split_at_checked(usize::from(*length)).ok_or(code::FORM_ERR)?;
        whole.extend_from_slice(part);
        data = after;
    }
    let fits = !whole.is_empty() && whole.len() <= LONGEST_TEXT;
    if !fits || !whole.iter().all(u8::is_ascii_graphic) {
        return Err(code::REFUSED);
    }
    String::from_utf8(whole).map_err(|_| code::REFUSED)
}
