//! Networks against a slow but obvious search.

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;

use super::*;

fn region(name: &str) -> Place {
    let locality = Locality { region: Some(name.to_owned()), ..Locality::default() };
    Place { locality, country: None }
}

fn table(networks: &[(&str, &str)]) -> Geography {
    let row = |(network, name): &(&str, &str)| (network.parse().unwrap(), region(name));
    Geography::new(networks.iter().map(row).collect()).unwrap()
}

#[test]
fn the_narrowest_network_decides() {
    let table = table(&[
        ("10.0.0.0/8", "eu"),
        ("10.8.0.0/16", "eu-west"),
        ("10.8.0.1", "us"),
        ("2001:db8::/32", "ap"),
    ]);
    for (client, names) in [
        ("10.1.2.3", &["eu"][..]),
        ("10.8.2.3", &["eu-west"]),
        ("10.8.0.1", &["us"]),
        ("::ffff:10.8.0.1", &["us"]),
        ("2001:db8::9", &["ap"]),
        ("192.0.2.1", &[]),
    ] {
        assert_eq!(table.names(client.parse().unwrap()), names, "{client}");
    }
    assert_eq!(self::table(&[("0.0.0.0/0", "earth")]).names([203, 0, 113, 9].into()), ["earth"]);
}

#[test]
fn a_country_goes_by_its_name_in_either_case() {
    let place = Place { country: Some("DE".to_owned()), ..region("europe-west3") };
    assert_eq!(place.names(), ["europe-west3", "DE", "de"]);
}

#[test]
fn a_network_that_is_there_twice_is_not_taken() {
    let row = |text: &str| (text.parse().unwrap(), Place::default());
    let rows = vec![row("10.0.0.0/8"), row("10.0.0.0/9"), row("10.9.9.9/8")];
    assert_eq!(Geography::new(rows).err(), Some(Twice(2)));
}

/// The first bits of an address, and the region of all that share them.
type Row = (Ipv4Addr, u8, u8);

fn holds((network, bits, _): &Row, address: Ipv4Addr) -> bool {
    let apart = network.to_bits() ^ address.to_bits();
    apart.leading_zeros() >= u32::from(*bits)
}

fn slow(rows: &[Row], address: Ipv4Addr) -> Option<String> {
    let holding = rows.iter().filter(|row| holds(row, address));
    holding.max_by_key(|(_, bits, _)| *bits).map(|(_, _, region)| format!("r{region}"))
}

/// Networks that often lie within each other.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (any::<u8>(), any::<u8>(), 0_u8..=32, 0_u8..4).prop_map(|(a, b, bits, region)| {
        let address = u32::from_be_bytes([a & 0x81, b & 0xC3, b & 0x11, a]);
        let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
        (Ipv4Addr::from_bits(address & mask), bits, region)
    });
    prop::collection::vec(row, 0..20).prop_map(|mut rows| {
        rows.sort_by_key(|(address, bits, _)| (*address, *bits));
        rows.dedup_by_key(|(address, bits, _)| (*address, *bits));
        rows
    })
}

proptest! {
    #[test]
    fn the_narrowest_network_decides_and_the_prefix_is_where_that_holds(
        rows in rows(),
        address in any::<u32>(),
        near in any::<prop::sample::Index>(),
        others in prop::collection::vec(any::<u32>(), 20),
    ) {
        let texts: Vec<_> = rows
            .iter()
            .map(|(address, bits, name)| (format!("{address}/{bits}"), format!("r{name}")))
            .collect();
        let shown: Vec<_> = texts.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        let table = table(&shown);
        let mut addresses = vec![Ipv4Addr::from(address)];
        if !rows.is_empty() {
            let (first, bits, _) = rows[near.index(rows.len())];
            let last = first.to_bits() | u32::MAX.checked_shr(bits.into()).unwrap_or(0);
            addresses.extend([first, Ipv4Addr::from_bits(last)]);
        }
        for address in addresses {
            let (found, prefix) = table.find(IpAddr::V4(address));
            let found = found.and_then(|place| table.place(place)?.locality.region.clone());
            prop_assert_eq!(&found, &slow(&rows, address));
            let free = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
            for bits in others.iter().copied().chain([0, u32::MAX]) {
                let other = Ipv4Addr::from_bits(address.to_bits() & !free | bits & free);
                prop_assert_eq!(&slow(&rows, other), &found, "{} of {}/{}", other, address, prefix);
            }
        }
    }
}
