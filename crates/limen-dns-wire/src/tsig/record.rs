//! The record that carries a signature.

use super::{Before, FUDGE, TsigError, TsigKey};
use crate::name;
use crate::u16_at;

const TSIG: u16 = 250;
const ANY: u16 = 255;
const HEADER: usize = 12;

/// A signature with all that belongs to it.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// Names on the wire, in lower case.
    pub(super) key: Vec<u8>,
    pub(super) algorithm: Vec<u8>,
    pub(super) time: u64,
    pub(super) fudge: u16,
    pub(super) mac: Vec<u8>,
    pub(super) original_id: u16,
    pub(super) error: u16,
    pub(super) other: Vec<u8>,
}

impl Record {
    pub(super) fn new(key: &TsigKey, original_id: u16, now: u64) -> Self {
        Self {
            key: key.wire_name().to_vec(),
            algorithm: key.algorithm().wire_name().to_vec(),
            time: now,
            fudge: FUDGE,
            mac: Vec::new(),
            original_id,
            error: 0,
            other: Vec::new(),
        }
    }

    /// Reads the record that starts at a position.
    pub(super) fn read(packet: &[u8], start: usize) -> Option<Self> {
        let (key, at) = name::read_compressed(packet, start)?;
        let length = usize::from(u16_at(packet, at + 8)?);
        let data = packet.get(at + 10..at + 10 + length)?;
        let (algorithm, at) = name::Name::read(data, 0).ok()?;
        let time = data.get(at..at + 6)?.iter().fold(0, |time, byte| time << 8 | u64::from(*byte));
        let fudge = u16_at(data, at + 6)?;
        let mac_length = usize::from(u16_at(data, at + 8)?);
        let mac = data.get(at + 10..at + 10 + mac_length)?.to_vec();
        let at = at + 10 + mac_length;
        let (original_id, error) = (u16_at(data, at)?, u16_at(data, at + 2)?);
        let other_length = usize::from(u16_at(data, at + 4)?);
        let other = data.get(at + 6..at + 6 + other_length)?.to_vec();
        if at + 6 + other_length != data.len() {
            return None;
        }
        let algorithm = algorithm.as_bytes().to_vec();
        Some(Self { key, algorithm, time, fudge, mac, original_id, error, other })
    }

    /// Gives everything that a signature of this message covers, in order.
    pub(super) fn digest(&self, message: &[u8], before: Before<'_>, mut give: impl FnMut(&[u8])) {
        if let Before::Request(mac) | Before::Message(mac) = before {
            give(&(mac.len() as u16).to_be_bytes());
            give(mac);
        }
        give(message);
        let timers = [&self.time.to_be_bytes()[2..], &self.fudge.to_be_bytes()].concat();
        if matches!(before, Before::Message(_)) {
            give(&timers);
            return;
        }
        give(&self.key);
        give(&ANY.to_be_bytes());
        give(&[0; 4]);
        give(&self.algorithm);
        give(&timers);
        give(&self.error.to_be_bytes());
        give(&(self.other.len() as u16).to_be_bytes());
        give(&self.other);
    }

    /// How long it is on the wire, as it is.
    pub(super) fn length(&self) -> usize {
        self.key.len() + 10 + self.algorithm.len() + 16 + self.mac.len() + self.other.len()
    }

    /// Makes it the last record of a message.
    pub(super) fn append_to(&self, message: &mut Vec<u8>) {
        let length = self.length() - self.key.len() - 10;
        message.extend_from_slice(&self.key);
        message.extend_from_slice(&TSIG.to_be_bytes());
        message.extend_from_slice(&ANY.to_be_bytes());
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(&(length as u16).to_be_bytes());
        message.extend_from_slice(&self.algorithm);
        message.extend_from_slice(&self.time.to_be_bytes()[2..]);
        message.extend_from_slice(&self.fudge.to_be_bytes());
        message.extend_from_slice(&(self.mac.len() as u16).to_be_bytes());
        message.extend_from_slice(&self.mac);
        message.extend_from_slice(&self.original_id.to_be_bytes());
        message.extend_from_slice(&self.error.to_be_bytes());
        message.extend_from_slice(&(self.other.len() as u16).to_be_bytes());
        message.extend_from_slice(&self.other);
        if let Some(count) = u16_at(message, 10) {
            message[10..HEADER].copy_from_slice(&count.wrapping_add(1).to_be_bytes());
        }
    }
}

/// Where the record with the signature starts, if a message has one. It must be the last of all.
pub fn find(packet: &[u8]) -> Result<Option<usize>, TsigError> {
    let count = |at| u16_at(packet, at).map(usize::from).ok_or(TsigError::Malformed);
    let (questions, additionals) = (count(4)?, count(10)?);
    let records = count(6)? + count(8)? + additionals;
    let mut at = HEADER;
    let skip = |at| name::skip(packet, at).ok_or(TsigError::Malformed);
    for _ in 0..questions {
        at = skip(at)? + 4;
    }
    for index in 0..records {
        let start = at;
        at = skip(at)?;
        let kind = u16_at(packet, at).ok_or(TsigError::Malformed)?;
        let class = u16_at(packet, at + 2).ok_or(TsigError::Malformed)?;
        at += 10 + usize::from(u16_at(packet, at + 8).ok_or(TsigError::Malformed)?);
        if kind != TSIG {
            continue;
        }
        let is_last = index + 1 == records && additionals > 0 && at == packet.len();
        return if is_last && class == ANY { Ok(Some(start)) } else { Err(TsigError::Malformed) };
    }
    Ok(None)
}

/// A message as it was before it was signed.
pub(super) fn without(packet: &[u8], start: usize, original_id: u16) -> Vec<u8> {
    let mut message = packet[..start].to_vec();
    let count = u16_at(&message, 10).unwrap_or(1);
    message[..2].copy_from_slice(&original_id.to_be_bytes());
    message[10..HEADER].copy_from_slice(&count.saturating_sub(1).to_be_bytes());
    message
}
