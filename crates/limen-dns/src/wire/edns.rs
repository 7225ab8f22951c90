//! EDNS(0): what a client says about itself, and what is said back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::name::Malformed;
use super::u16_at;

/// Option codes.
pub(crate) mod option {
    pub(crate) const NSID: u16 = 3;
    pub(crate) const SUBNET: u16 = 8;
    pub(crate) const COOKIE: u16 = 10;
    pub(crate) const EXTENDED_ERROR: u16 = 15;
}

/// What a client says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edns<'a> {
    pub(crate) udp_size: u16,
    pub(crate) version: u8,
    pub(crate) dnssec: bool,
    /// Whether it understands that a name does not exist although no code says so (RFC 9824).
    pub(crate) compact: bool,
    pub(crate) wants_nsid: bool,
    pub(crate) subnet: Option<Subnet>,
    /// Eight bytes of the client's and, later, what the server has given it.
    pub(crate) cookie: Option<&'a [u8]>,
}

/// The network of the client that a resolver asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subnet {
    pub(crate) family: u16,
    pub(crate) address: IpAddr,
    pub(crate) prefix: u8,
}

/// Reads an OPT record from after its name.
pub(crate) fn read<'a>(class: u16, ttl: [u8; 4], data: &'a [u8]) -> Result<Edns<'a>, Malformed> {
    let mut edns = Edns {
        udp_size: class,
        version: ttl[1],
        dnssec: ttl[2] & 0x80 != 0,
        compact: ttl[2] & 0x40 != 0,
        ..Edns::default()
    };
    // The options of another version may look like anything.
    if edns.version != 0 {
        return Ok(edns);
    }
    let mut at = 0;
    while at < data.len() {
        let code = u16_at(data, at).ok_or(Malformed)?;
        let length = usize::from(u16_at(data, at + 2).ok_or(Malformed)?);
        let value: &'a [u8] = data.get(at + 4..at + 4 + length).ok_or(Malformed)?;
        match code {
            option::NSID => edns.wants_nsid = true,
            option::SUBNET => edns.subnet = Some(read_subnet(value)?),
            option::COOKIE if value.len() == 8 || (16..=40).contains(&value.len()) => {
                edns.cookie = Some(value);
            }
            option::COOKIE => return Err(Malformed),
            _ => {}
        }
        at += 4 + length;
    }
    Ok(edns)
}

fn read_subnet(value: &[u8]) -> Result<Subnet, Malformed> {
    let [family_high, family_low, prefix, scope, address @ ..] = value else {
        return Err(Malformed);
    };
    let family = u16::from_be_bytes([*family_high, *family_low]);
    let most = match family {
        1 => 32,
        2 => 128,
        // "No family" is how some say that they give no address.
        0 if *prefix == 0 => 0,
        _ => return Err(Malformed),
    };
    let exact = usize::from(*prefix).div_ceil(8);
    if *prefix > most || *scope != 0 || address.len() != exact {
        return Err(Malformed);
    }
    let spare = (exact * 8 - usize::from(*prefix)) as u32;
    if address.last().is_some_and(|last| last.trailing_zeros() < spare) {
        return Err(Malformed);
    }
    let address = if family == 2 {
        let mut bytes = [0; 16];
        bytes[..exact].copy_from_slice(address);
        IpAddr::V6(Ipv6Addr::from(bytes))
    } else {
        let mut bytes = [0; 4];
        bytes[..exact].copy_from_slice(address);
        IpAddr::V4(Ipv4Addr::from(bytes))
    };
    Ok(Subnet { family, address, prefix: *prefix })
}

/// Writes a client subnet option with the scope that the answer holds for.
pub(crate) fn write_subnet(subnet: &Subnet, scope: u8, out: &mut Vec<u8>) {
    let length = usize::from(subnet.prefix).div_ceil(8);
    out.extend_from_slice(&option::SUBNET.to_be_bytes());
    out.extend_from_slice(&(4 + length as u16).to_be_bytes());
    out.extend_from_slice(&subnet.family.to_be_bytes());
    out.extend_from_slice(&[subnet.prefix, scope]);
    match subnet.address {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()[..length]),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()[..length]),
    }
}
