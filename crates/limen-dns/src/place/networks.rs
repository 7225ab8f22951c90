//! A table of networks. They are cut into ranges that do not overlap, so that the longest match is
//! one binary search, and so that it is known how far around an address the answer is the same.

use std::cmp::Reverse;
use std::net::IpAddr;

use ipnet::IpNet;
use limen_core::locality::{Coordinates, Locality};
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::Place;

/// Ranges of both families.
#[derive(Default)]
pub(super) struct Networks {
    places: Vec<Place>,
    four: Ranges,
    six: Ranges,
}

/// Where each range starts, and the place of all up to the next start.
#[derive(Default)]
struct Ranges {
    starts: Vec<u128>,
    places: Vec<Option<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    networks: Vec<Network>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Network {
    cidr: Spanned<String>,
    region: Option<String>,
    zone: Option<String>,
    country: Option<String>,
    coordinates: Option<Spanned<String>>,
}

impl Networks {
    /// Reads the YAML of a table. The error names the line.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let options = serde_saphyr::options! { budget: None };
        let file: File = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| error.to_string())?;
        let mut networks = Self::default();
        let (mut four, mut six) = (Vec::new(), Vec::new());
        for network in file.networks {
            let line = network.cidr.defined.line();
            let cidr: IpNet = network.cidr.value.parse().map_err(|_| {
                let value = &network.cidr.value;
                format!("line {line}: {value:?} is not a network such as 10.1.0.0/16")
            })?;
            let coordinates = match network.coordinates {
                None => None,
                Some(text) => Some(
                    text.value
                        .parse::<Coordinates>()
                        .map_err(|error| format!("line {}: {error}", text.defined.line()))?,
                ),
            };
            let place = Place {
                locality: Locality { region: network.region, zone: network.zone, coordinates },
                country: network.country.map(|country| country.to_ascii_uppercase()),
            };
            let index = networks.intern(place);
            let cidr = cidr.trunc();
            let range = (number(cidr.addr()), number(cidr.broadcast()), index);
            let list = if cidr.addr().is_ipv4() { &mut four } else { &mut six };
            if list.iter().any(|(first, last, _)| (*first, *last) == (range.0, range.1)) {
                return Err(format!("line {line}: {cidr} is there twice; remove one"));
            }
            list.push(range);
        }
        networks.four = Ranges::new(four, u128::from(u32::MAX));
        networks.six = Ranges::new(six, u128::MAX);
        Ok(networks)
    }

    fn intern(&mut self, place: Place) -> u32 {
        let known = self.places.iter().position(|known| *known == place);
        let index = known.unwrap_or_else(|| {
            self.places.push(place);
            self.places.len() - 1
        });
        index as u32
    }

    /// The place of an address, and for how many bits around it the answer is the same.
    pub(super) fn find(&self, address: IpAddr) -> (Option<u32>, u8) {
        match address {
            IpAddr::V4(_) => self.four.find(number(address), 32),
            IpAddr::V6(_) => self.six.find(number(address), 128),
        }
    }

    pub(super) fn place(&self, key: u64) -> Option<Place> {
        self.places.get(usize::try_from(key).ok()?).cloned()
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

impl Ranges {
    /// From networks, of which each two are either apart or one within the other.
    fn new(mut networks: Vec<(u128, u128, u32)>, highest: u128) -> Self {
        networks.sort_by_key(|(first, last, _)| (*first, Reverse(*last)));
        let mut ranges = Self { starts: vec![0], places: vec![None] };
        let mut open: Vec<(u128, u32)> = Vec::new();
        for (first, last, place) in networks {
            ranges.close_before(first, highest, &mut open);
            ranges.start(first, Some(place));
            open.push((last, place));
        }
        ranges.close_before(u128::MAX, highest, &mut open);
        ranges
    }

    fn close_before(&mut self, first: u128, highest: u128, open: &mut Vec<(u128, u32)>) {
        while let Some((last, _)) = open.last().copied().filter(|(last, _)| *last < first) {
            open.pop();
            if last < highest {
                self.start(last + 1, open.last().map(|(_, place)| *place));
            }
        }
    }

    fn start(&mut self, at: u128, place: Option<u32>) {
        if self.starts.last() == Some(&at) {
            self.starts.pop();
            self.places.pop();
        }
        if self.places.last() != Some(&place) {
            self.starts.push(at);
            self.places.push(place);
        }
    }

    fn find(&self, address: u128, bits: u32) -> (Option<u32>, u8) {
        let after = self.starts.partition_point(|start| *start <= address);
        let Some(index) = after.checked_sub(1) else { return (None, 0) };
        // A block must not reach the last address before the range, nor the first after it.
        let beyond = |other: u128| (address ^ other).leading_zeros() - (128 - bits) + 1;
        let before = self.starts[index].checked_sub(1).map_or(0, beyond);
        let behind = self.starts.get(after).copied().map_or(0, beyond);
        (self.places[index], before.max(behind) as u8)
    }
}
