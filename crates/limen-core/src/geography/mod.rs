//! Where clients are, by their addresses: networks, each with a place. The narrowest network that
//! holds an address decides. Gateways, DNS servers and `limen explain` read the same table.

mod network;
mod ranges;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use network::number;
pub use network::{Network, NetworkError};
use ranges::Ranges;

use crate::locality::Locality;

/// Where a client is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    /// The region, the zone, and the place on Earth.
    pub locality: Locality,
    /// Two letters, in upper case.
    pub country: Option<String>,
}

impl Place {
    /// What residency rules may call it. Countries are written in either case.
    pub fn names(&self) -> Vec<String> {
        let Locality { region, zone, .. } = &self.locality;
        let lower = self.country.as_ref().map(|country| country.to_ascii_lowercase());
        [region, zone, &self.country, &lower].into_iter().flatten().cloned().collect()
    }
}

/// Where clients are.
#[derive(Clone, Debug, Default)]
pub struct Geography {
    /// With their names.
    places: Vec<(Place, Vec<String>)>,
    four: Ranges,
    six: Ranges,
}

/// A network is there twice, at this place of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Twice(pub usize);

impl Geography {
    /// From networks and their places.
    pub fn new(networks: Vec<(Network, Place)>) -> Result<Self, Twice> {
        let mut made = Self::default();
        let mut known = std::collections::HashSet::new();
        let (mut four, mut six) = (Vec::new(), Vec::new());
        for (index, (network, place)) in networks.into_iter().enumerate() {
            let (first, last) = network.ends();
            if !known.insert((network.is_ipv4(), first, last)) {
                return Err(Twice(index));
            }
            let place = made.number_of(place);
            let list = if network.is_ipv4() { &mut four } else { &mut six };
            list.push((first, last, place));
        }
        made.four = Ranges::new(four, u128::from(u32::MAX));
        made.six = Ranges::new(six, u128::MAX);
        Ok(made)
    }

    fn number_of(&mut self, place: Place) -> u32 {
        let known = self.places.iter().position(|(known, _)| *known == place);
        let index = known.unwrap_or_else(|| {
            let names = place.names();
            self.places.push((place, names));
            self.places.len() - 1
        });
        index as u32
    }

    /// The number of an address's place, and for how many bits around it the answer is the same.
    pub fn find(&self, address: IpAddr) -> (Option<u32>, u8) {
        match address {
            IpAddr::V4(_) => self.four.find(number(address), 32),
            IpAddr::V6(_) => self.six.find(number(address), 128),
        }
    }

    /// A place by its number.
    pub fn place(&self, number: u32) -> Option<&Place> {
        self.places.get(number as usize).map(|(place, _)| place)
    }

    /// What the place of a client is called; nothing if nobody knows where it is.
    pub fn names(&self, client: IpAddr) -> &[String] {
        let (place, _) = self.find(client.to_canonical());
        place.and_then(|place| self.places.get(place as usize)).map_or(&[], |(_, names)| names)
    }
}
