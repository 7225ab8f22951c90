//! Records of a `DnsZone` object, from text to the wire.

use std::net::{Ipv4Addr, Ipv6Addr};

use limen_api::DnsRecord;

use crate::wire::{kind, name};

/// The records of one name and type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RrSet {
    pub(crate) kind: u16,
    pub(crate) ttl: u32,
    pub(crate) data: Vec<Box<[u8]>>,
}

impl RrSet {
    /// The data of all records, of which the next has its turn.
    pub(crate) fn starting_with(&self, turn: usize) -> impl Iterator<Item = &[u8]> {
        let start = turn % self.data.len().max(1);
        let turned = self.data.iter().cycle().skip(start);
        turned.take(self.data.len()).map(|data| &**data)
    }
}

/// How data of one type is read.
type Reader = fn(&str) -> Result<Vec<u8>, String>;

/// The records that an object describes.
pub(super) fn rrset(record: &DnsRecord, default_ttl: u32) -> Result<RrSet, String> {
    let read: (u16, Reader) = match record.kind.to_ascii_uppercase().as_str() {
        "A" => (kind::A, address_four),
        "AAAA" => (kind::AAAA, address_six),
        "CAA" => (kind::CAA, caa),
        "CNAME" => (kind::CNAME, domain),
        "DS" => (kind::DS, ds),
        "MX" => (kind::MX, mx),
        "NS" => (kind::NS, domain),
        "TXT" => (kind::TXT, txt),
        other => {
            return Err(format!(
                "type {other:?} cannot be served; take A, AAAA, CAA, CNAME, DS, MX, NS or TXT"
            ));
        }
    };
    if record.data.is_empty() {
        return Err("it has no data".to_owned());
    }
    if read.0 == kind::CNAME && record.data.len() != 1 {
        return Err("a CNAME has exactly one name".to_owned());
    }
    let data = record.data.iter().map(|text| read.1(text).map(Vec::into_boxed_slice));
    let ttl = record.ttl_seconds.unwrap_or(default_ttl);
    Ok(RrSet { kind: read.0, ttl, data: data.collect::<Result<_, _>>()? })
}

fn address_four(text: &str) -> Result<Vec<u8>, String> {
    let address: Ipv4Addr = text.parse().map_err(|_| format!("{text:?} is not an IPv4 address"))?;
    Ok(address.octets().to_vec())
}

fn address_six(text: &str) -> Result<Vec<u8>, String> {
    let address: Ipv6Addr = text.parse().map_err(|_| format!("{text:?} is not an IPv6 address"))?;
    Ok(address.octets().to_vec())
}

fn domain(text: &str) -> Result<Vec<u8>, String> {
    name::from_text(text).map(Vec::from)
}

fn mx(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("{text:?} is not a preference and a name, such as \"10 mail.example\"");
    let (preference, exchange) = text.trim().split_once(' ').ok_or_else(wrong)?;
    let preference: u16 = preference.parse().map_err(|_| wrong())?;
    let mut data = preference.to_be_bytes().to_vec();
    data.extend(name::from_text(exchange.trim())?);
    Ok(data)
}

fn ds(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("{text:?} is not TAG ALGORITHM DIGEST-TYPE DIGEST, as in a zone file");
    let mut parts = text.split_ascii_whitespace();
    let mut number = || parts.next().and_then(|part| part.parse::<u16>().ok()).ok_or_else(wrong);
    let (tag, algorithm, digest_type) = (number()?, number()?, number()?);
    let small = |number: u16| u8::try_from(number).map_err(|_| wrong());
    let mut data = tag.to_be_bytes().to_vec();
    data.extend([small(algorithm)?, small(digest_type)?]);
    // A long digest may be written in several parts.
    let digest: String = parts.collect();
    let digits: Option<Vec<u8>> =
        digest.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0 && digits.len() >= 40);
    let digits = digits.ok_or_else(wrong)?;
    data.extend(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]));
    Ok(data)
}

pub(super) fn txt(text: &str) -> Result<Vec<u8>, String> {
    if text.len() > 4000 {
        return Err("a text is longer than 4000 bytes".to_owned());
    }
    let mut data = Vec::with_capacity(text.len() + 2);
    for part in text.as_bytes().chunks(255) {
        data.push(part.len() as u8);
        data.extend_from_slice(part);
    }
    if data.is_empty() {
        data.push(0);
    }
    Ok(data)
}

fn caa(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("{text:?} is not FLAGS TAG VALUE, such as 0 issue \"ca.example\"");
    let mut parts = text.trim().splitn(3, ' ');
    let (Some(flags), Some(tag), Some(value)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(wrong());
    };
    let flags: u8 = flags.parse().map_err(|_| wrong())?;
    if tag.is_empty() || tag.len() > 15 || !tag.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(wrong());
    }
    let mut data = vec![flags, tag.len() as u8];
    data.extend(tag.bytes());
    data.extend(value.trim().trim_matches('"').bytes());
    Ok(data)
}
