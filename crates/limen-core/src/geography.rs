//! Where clients are, by their addresses.
//!
//! A table of networks, each with the places that its clients are in: regions, countries, or
//! whatever else residency rules name. The narrowest network that holds an address decides.
//!
//! ```text
//! # network          places
//! 10.8.0.0/16        europe-west1 de
//! 2001:db8:40::/44   us-east4 us
//! ```

use std::net::IpAddr;

/// Where clients are.
#[derive(Clone, Debug, Default)]
pub struct Geography {
    /// By family, ordered by length, narrowest first, and then by network.
    tables: [Vec<Length>; 2],
    places: Vec<Vec<String>>,
}

/// The networks of one length.
#[derive(Clone, Debug)]
struct Length {
    bits: u8,
    /// The first address of each, in order, and the number of its places.
    networks: Vec<(u128, u32)>,
}

/// What is wrong with a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}; write a network and its places, as in 10.8.0.0/16 europe-west1 de")]
pub struct GeographyError {
    line: usize,
    what: String,
}

impl std::str::FromStr for Geography {
    type Err = GeographyError;

    fn from_str(text: &str) -> Result<Self, GeographyError> {
        let mut made = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split([' ', '\t', ',']).filter(|word| !word.is_empty());
            let Some(network) = words.next() else { continue };
            let wrong = |what: String| GeographyError { line: index + 1, what };
            let (address, bits) = parse(network).map_err(wrong)?;
            let places: Vec<String> = words.map(str::to_owned).collect();
            if places.is_empty() {
                return Err(wrong(format!("{network} has no places")));
            }
            made.add(address, bits, places);
        }
        Ok(made)
    }
}

impl Geography {
    /// Adds a network. A later one replaces the same network.
    fn add(&mut self, address: IpAddr, bits: u8, places: Vec<String>) {
        let number = self.places.len() as u32;
        self.places.push(places);
        let (family, value) = value(address);
        let table = &mut self.tables[family];
        let at = table.binary_search_by(|length| bits.cmp(&length.bits)).unwrap_or_else(|at| {
            table.insert(at, Length { bits, networks: Vec::new() });
            at
        });
        let network = value & mask(family, bits);
        let networks = &mut table[at].networks;
        match networks.binary_search_by_key(&network, |(network, _)| *network) {
            Ok(at) => networks[at].1 = number,
            Err(at) => networks.insert(at, (network, number)),
        }
    }

    /// The places that a client is in; none if nobody knows.
    pub fn places(&self, client: IpAddr) -> &[String] {
        let (family, value) = value(client.to_canonical());
        for length in &self.tables[family] {
            let network = value & mask(family, length.bits);
            if let Ok(at) = length.networks.binary_search_by_key(&network, |(start, _)| *start) {
                return &self.places[length.networks[at].1 as usize];
            }
        }
        &[]
    }

    /// Whether it says nothing at all.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

fn parse(network: &str) -> Result<(IpAddr, u8), String> {
    let (address, bits) = match network.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (network, None),
    };
    let address: IpAddr = address.parse().map_err(|_| format!("{network} is no network"))?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most));
    Ok((address, bits.ok_or_else(|| format!("{network} has no length between 0 and {most}"))?))
}

fn value(address: IpAddr) -> (usize, u128) {
    match address {
        IpAddr::V4(address) => (0, u128::from(address.to_bits())),
        IpAddr::V6(address) => (1, address.to_bits()),
    }
}

fn mask(family: usize, bits: u8) -> u128 {
    let width = if family == 0 { 32 } else { 128 };
    let ones = u128::MAX.checked_shl(width - u32::from(bits)).unwrap_or(0);
    if family == 0 { ones & u128::from(u32::MAX) } else { ones }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_network_decides() {
        let text = "10.0.0.0/8 eu # all\n\n10.8.0.0/16 eu-west,de\n10.8.0.1 us\n2001:db8::/32 ap\n";
        let table: Geography = text.parse().unwrap();
        for (client, places) in [
            ("10.1.2.3", &["eu"][..]),
            ("10.8.2.3", &["eu-west", "de"]),
            ("10.8.0.1", &["us"]),
            ("::ffff:10.8.0.1", &["us"]),
            ("2001:db8::9", &["ap"]),
            ("192.0.2.1", &[]),
        ] {
            assert_eq!(table.places(client.parse().unwrap()), places, "{client}");
        }
        let all: Geography = "0.0.0.0/0 earth".parse().unwrap();
        assert_eq!(all.places("203.0.113.9".parse().unwrap()), ["earth"]);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, part) in [
            ("10.0.0.0/8 eu\nhere eu", "line 2: here is no network"),
            ("10.0.0.0/33 eu", "no length between 0 and 32"),
            ("10.0.0.0/8", "has no places"),
        ] {
            let error = text.parse::<Geography>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
