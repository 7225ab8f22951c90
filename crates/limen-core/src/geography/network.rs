//! A network, as people write it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// All addresses that begin alike: `10.8.0.0/16`, `2001:db8:40::/44`; an address alone is a network
/// of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// What is wrong with a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Not an address.
    #[error("{0:?} is not a network such as 10.1.0.0/16")]
    NoNetwork(String),
    /// A length that no such address has.
    #[error("{0:?} has no length between 0 and {1}")]
    Length(String, u8),
}

impl std::str::FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr =
            address.parse().map_err(|_| NetworkError::NoNetwork(text.to_owned()))?;
        let most = width(address);
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most));
        let bits = bits.ok_or_else(|| NetworkError::Length(text.to_owned(), most))?;
        let first = number(address) & !hosts(most, bits);
        let address = match address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(first as u32)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(first)),
        };
        Ok(Self { address, bits })
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Network {
    pub(super) fn is_ipv4(self) -> bool {
        self.address.is_ipv4()
    }

    /// Its first address and its last.
    pub(super) fn ends(self) -> (u128, u128) {
        let first = number(self.address);
        (first, first | hosts(width(self.address), self.bits))
    }
}

/// An address as a number.
pub(super) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The bits behind the first `bits` of `width`.
fn hosts(width: u8, bits: u8) -> u128 {
    let behind = u32::from(width - bits);
    u128::MAX.checked_shr(128 - behind).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_as_people_write_them() {
        for (text, shown) in [
            ("10.8.1.2/16", "10.8.0.0/16"),
            ("10.8.1.2", "10.8.1.2/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:db8:40:1::/44", "2001:db8:40::/44"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), shown);
        }
        for (text, part) in [
            ("here", "\"here\" is not a network"),
            ("10.0.0.0/33", "no length between 0 and 32"),
            ("::/x", "no length between 0 and 128"),
        ] {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
