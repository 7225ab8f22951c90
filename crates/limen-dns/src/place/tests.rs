//! A database that the test makes itself.

use super::*;

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
