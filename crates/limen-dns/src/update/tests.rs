use limen_api::ChallengeChange::{Add, Clear, Remove};

use super::code::{FORM_ERR, NOT_AUTH, NOT_IMP, NOT_ZONE, REFUSED};
use super::*;
use crate::wire::name;
use crate::zone::Apex;

fn zones() -> Zones {
    let name = name::from_text("example.com").unwrap().into();
    let mut zones = Zones::default();
    zones.apexes.push(Apex { name, ..Apex::default() });
    zones
}

/// One record of an update: name, type, class, data.
fn record(text: &str, kind: u16, class: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = name::from_text(text).unwrap().to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend(class.to_be_bytes());
    bytes.extend([0, 0, 0, 60]);
    bytes.extend((data.len() as u16).to_be_bytes());
    bytes.extend(data);
    bytes
}

fn packet(zone: &str, prerequisites: u8, records: &[Vec<u8>]) -> Vec<u8> {
    let count = (records.len() - usize::from(prerequisites)) as u8;
    let mut packet = vec![1, 2, 0x28, 0, 0, 1, 0, prerequisites, 0, count, 0, 0];
    packet.extend(name::from_text(zone).unwrap());
    packet.extend([0, 6, 0, 1]);
    packet.extend(records.concat());
    packet
}

const NAME: &str = "_acme-challenge.shop.example.com";

#[test]
fn only_texts_of_challenges_can_be_changed() {
    let changed = |changes: &[ChallengeChange]| {
        Ok(changes.iter().map(|change| (NAME.to_owned(), change.clone())).collect::<Vec<_>>())
    };
    for (what, packet, expected) in [
        (
            "what lego sends",
            packet(
                "example.com",
                0,
                &[record(NAME, 16, 255, b""), record(NAME, 16, 1, b"\x05token")],
            ),
            changed(&[Clear, Add("token".into())]),
        ),
        (
            "what cleans up",
            packet("example.com", 0, &[record(NAME, 16, 254, b"\x02to\x03ken")]),
            changed(&[Remove("token".into())]),
        ),
        (
            "everything of a name",
            packet("example.com", 0, &[record(NAME, 255, 255, b"")]),
            changed(&[Clear]),
        ),
        (
            "another name",
            packet("example.com", 0, &[record("shop.example.com", 16, 1, b"\x01x")]),
            Err(REFUSED),
        ),
        (
            "a name that only looks like one",
            packet("example.com", 0, &[record("x._acme-challenge.example.com", 16, 1, b"\x01x")]),
            Err(REFUSED),
        ),
        (
            "another type",
            packet("example.com", 0, &[record(NAME, 1, 1, b"\xc0\0\x02\x01")]),
            Err(REFUSED),
        ),
        (
            "one good and one bad",
            packet(
                "example.com",
                0,
                &[record(NAME, 16, 1, b"\x01x"), record("example.com", 16, 1, b"\x01x")],
            ),
            Err(REFUSED),
        ),
        (
            "a name elsewhere",
            packet("example.com", 0, &[record("_acme-challenge.example.org", 16, 1, b"\x01x")]),
            Err(NOT_ZONE),
        ),
        (
            "a zone of others",
            packet("example.org", 0, &[record(NAME, 16, 1, b"\x01x")]),
            Err(NOT_AUTH),
        ),
        ("conditions", packet("example.com", 1, &[record(NAME, 16, 255, b"")]), Err(NOT_IMP)),
        ("no text", packet("example.com", 0, &[record(NAME, 16, 1, b"")]), Err(REFUSED)),
        ("spaces", packet("example.com", 0, &[record(NAME, 16, 1, b"\x03a b")]), Err(REFUSED)),
        ("a cut text", packet("example.com", 0, &[record(NAME, 16, 1, b"\x09a")]), Err(FORM_ERR)),
    ] {
        assert_eq!(message::changes(&packet, &zones()), expected, "{what}");
    }
    let whole = packet("example.com", 0, &[record(NAME, 16, 1, b"\x05token")]);
    for length in HEADER..whole.len() {
        assert!(message::changes(&whole[..length], &zones()).is_err(), "{length} bytes");
        message::answer(&whole[..length], 0);
    }
}
