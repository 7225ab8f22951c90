//! Networks against a slow but obvious search, and a database that the test makes itself.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use proptest::prelude::*;

use super::networks::Networks;
use super::*;

fn table(networks: &[(Ipv4Net, u8)]) -> Networks {
    let mut text = "networks:\n".to_owned();
    for (network, region) in networks {
        text.push_str(&format!("- {{ cidr: {network}, region: r{region} }}\n"));
    }
    if networks.is_empty() {
        text = "networks: []".to_owned();
    }
    Networks::parse(&text).unwrap()
}

fn slow(networks: &[(Ipv4Net, u8)], address: Ipv4Addr) -> Option<String> {
    let holding = networks.iter().filter(|(network, _)| network.contains(&address));
    let narrowest = holding.max_by_key(|(network, _)| network.prefix_len());
    narrowest.map(|(_, region)| format!("r{region}"))
}

fn fast(networks: &Networks, address: Ipv4Addr) -> (Option<String>, u8) {
    let (place, prefix) = networks.find(IpAddr::V4(address));
    let place = place.and_then(|place| networks.place(u64::from(place)));
    (place.and_then(|place| place.locality.region), prefix)
}

/// Networks that often lie within each other.
fn networks() -> impl Strategy<Value = Vec<(Ipv4Net, u8)>> {
    let network =
        (any::<u8>(), any::<u8>(), 0_u8..=32, 0_u8..4).prop_map(|(a, b, length, region)| {
            let address = Ipv4Addr::new(a & 0x81, b & 0xC3, b & 0x11, a);
            (Ipv4Net::new(address, length).unwrap().trunc(), region)
        });
    prop::collection::vec(network, 0..20).prop_map(|mut networks| {
        networks.sort_by_key(|(network, _)| *network);
        networks.dedup_by_key(|(network, _)| *network);
        networks
    })
}

proptest! {
    #[test]
    fn the_narrowest_network_decides_and_the_prefix_is_where_that_holds(
        networks in networks(),
        address in any::<u32>(),
        near in any::<prop::sample::Index>(),
        others in prop::collection::vec(any::<u32>(), 20),
    ) {
        let table = table(&networks);
        let mut addresses = vec![Ipv4Addr::from(address)];
        if !networks.is_empty() {
            let (network, _) = networks[near.index(networks.len())];
            addresses.extend([network.addr(), network.broadcast()]);
        }
        for address in addresses {
            let (found, prefix) = fast(&table, address);
            prop_assert_eq!(&found, &slow(&networks, address));
            let around = Ipv4Net::new(address, prefix).unwrap();
            let same = [around.network(), around.broadcast()];
            let inside = others.iter().map(|bits| {
                Ipv4Addr::from(u32::from(around.network()) | bits & u32::from(around.hostmask()))
            });
            for other in same.into_iter().chain(inside) {
                prop_assert_eq!(&slow(&networks, other), &found, "{} of {}", other, around);
            }
        }
    }
}

#[test]
fn mistakes_are_named_with_their_line() {
    for (text, part) in [
        (
            "networks:\n- { cidr: 10.0.0.0/8 }\n- { cidr: here }\n",
            "line 3: \"here\" is not a network",
        ),
        ("networks:\n- { cidr: 10.0.0.0/8, coordinates: '91,0' }\n", "line 2: latitude 91"),
        (
            "networks:\n- { cidr: 10.0.0.0/8 }\n- { cidr: 10.0.0.1/8 }\n",
            "line 3: 10.0.0.0/8 is there twice",
        ),
        ("networks:\n- { cidr: 10.0.0.0/8, wrong: 1 }\n", "line 2"),
    ] {
        let error = Networks::parse(text).err().unwrap();
        assert!(error.contains(part), "{error}");
    }
}

/// A database of two networks: 10.0.0.0/9 is in Germany, 10.128.0.0/9 in Japan, the rest unknown.
fn database() -> Vec<u8> {
    let text = |text: &str| [&[0x40 | text.len() as u8][..], text.as_bytes()].concat();
    let map = |count: u8| vec![0xE0 | count];
    let double = |value: f64| [&[0x68][..], &value.to_be_bytes()].concat();
    let number = |value: u16| [&[0xA2][..], &value.to_be_bytes()].concat();
    let place = |code: &str, latitude: f64, longitude: f64| {
        [
            map(2),
            text("country"),
            map(1),
            text("iso_code"),
            text(code),
            text("location"),
            map(2),
            text("latitude"),
            double(latitude),
            text("longitude"),
            double(longitude),
        ]
        .concat()
    };
    let records = [place("DE", 50.1, 8.7), place("JP", 35.7, 139.7)];
    // One node for each of the eight bits of 10, and one more for the bit after them.
    let nodes: u32 = 9;
    let mut tree = Vec::new();
    let mut add = |left: u32, right: u32| {
        tree.extend(&left.to_be_bytes()[1..]);
        tree.extend(&right.to_be_bytes()[1..]);
    };
    for bit in 0..8 {
        let next = bit + 1;
        if 10_u8 & 0x80 >> bit == 0 { add(next, nodes) } else { add(nodes, next) }
    }
    add(nodes + 16, nodes + 16 + records[0].len() as u32);
    let metadata = [
        map(9),
        text("node_count"),
        [&[0xC4][..], &nodes.to_be_bytes()].concat(),
        text("record_size"),
        number(24),
        text("ip_version"),
        number(4),
        text("database_type"),
        text("Test"),
        text("binary_format_major_version"),
        number(2),
        text("binary_format_minor_version"),
        number(0),
        text("build_epoch"),
        vec![1, 2, 1],
        text("languages"),
        vec![0, 4],
        text("description"),
        map(0),
    ]
    .concat();
    [&tree[..], &[0; 16], &records.concat(), b"\xAB\xCD\xEFMaxMind.com", &metadata].concat()
}

#[test]
fn a_database_knows_what_the_table_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let (mmdb, yaml) = (folder.path().join("places.mmdb"), folder.path().join("networks.yaml"));
    std::fs::write(&mmdb, database()).unwrap();
    std::fs::write(&yaml, "networks:\n- { cidr: 10.0.1.0/24, region: own }\n").unwrap();
    let here = Locality { region: Some("here".into()), ..Locality::default() };
    let places = Places::read(here, Some(&yaml), Some(&mmdb)).unwrap();
    let look = |address: &str| {
        let address = address.parse().unwrap();
        let found = places.find(address);
        let place = places.place(found, address);
        (place.country.or(place.locality.region).unwrap(), found.prefix)
    };
    assert_eq!(look("10.1.2.3"), ("DE".into(), 16));
    assert_eq!(look("10.200.2.3"), ("JP".into(), 9));
    assert_eq!(look("10.0.1.3"), ("own".into(), 24));
    assert_eq!(look("10.0.0.3"), ("DE".into(), 24));
    assert_eq!(look("192.0.2.1").0, "here");
    std::fs::write(&mmdb, "not a database").unwrap();
    let error = Places::read(Locality::default(), None, Some(&mmdb)).err().unwrap();
    assert!(error.to_string().contains("give an MMDB file"), "{error}");
}
