//! Signed answers, checked with the public key alone, from the standard's words.

use limen_api::{DnsRecord, DnsZoneSpec};
use limen_core::global::TrafficRules;
use limen_dns::{KeyFolder, Rolled};
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

use crate::bed::{Bed, global, objects, shop, target, three, until, with_zone};
use crate::client::*;

const DS: u16 = 43;
const RRSIG: u16 = 46;
const NSEC: u16 = 47;
const DNSKEY: u16 = 48;
const CDS: u16 = 59;
const NXNAME: u16 = 128;

struct Signed {
    bed: Bed,
    keys: KeyFolder,
    _folder: tempfile::TempDir,
}

fn signed(objects: limen_api::source::Objects, zones: &[&str]) -> Signed {
    let folder = tempfile::tempdir().unwrap();
    let keys = KeyFolder::new(folder.path().join("keys"));
    let bed = Bed::with(objects, |options| {
        options.dnssec_keys = Some(keys.clone());
        options.zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
    });
    Signed { bed, keys, _folder: folder }
}

impl Signed {
    /// An answer in which everything is signed, and every signature is right.
    fn ask(&self, name: &str, kind: u16) -> Answer {
        let answer = ask(name, kind).dnssec().udp(self.bed.address());
        assert!(!answer.truncated, "{name}");
        for section in [&answer.answers, &answer.authorities] {
            for record in section.iter().filter(|record| record.kind != RRSIG) {
                let covers = |other: &&Record| {
                    other.kind == RRSIG
                        && other.name.eq_ignore_ascii_case(&record.name)
                        && other.data[..2] == record.kind.to_be_bytes()
                };
                let signatures: Vec<&Record> = section.iter().filter(covers).collect();
                assert!(!signatures.is_empty(), "{name}: {record:?} is not signed");
                for signature in signatures {
                    assert!(self.is_right(section, record, signature), "{name}: {record:?}");
                }
            }
        }
        answer
    }

    fn is_right(&self, section: &[Record], record: &Record, signature: &Record) -> bool {
        let owner = encode(&record.name.to_ascii_lowercase());
        let set = section.iter().filter(|other| {
            other.kind == record.kind && other.name.eq_ignore_ascii_case(&record.name)
        });
        let mut data: Vec<&[u8]> = set.map(|other| &other.data[..]).collect();
        data.sort_unstable();
        let (head, bits) = signature.data.split_at(signature.data.len() - 64);
        let mut content = head.to_vec();
        for one in data {
            content.extend(&owner);
            content.extend(record.kind.to_be_bytes());
            content.extend([0, 1]);
            content.extend(record.ttl.to_be_bytes());
            content.extend((one.len() as u16).to_be_bytes());
            content.extend(one);
        }
        let signer = &head[18..];
        self.keys_of(signer).iter().any(|dnskey| {
            let point = [&[4], &dnskey[4..]].concat();
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(&content, bits).is_ok()
        })
    }

    fn keys_of(&self, zone: &[u8]) -> Vec<Vec<u8>> {
        let zone = String::from_utf8_lossy(zone);
        // Labels are short, so that their lengths are no letters.
        let zone: String =
            zone.chars().map(|c| if c.is_ascii_graphic() { c } else { '.' }).collect();
        let answer = ask(zone.trim_matches('.'), DNSKEY).dnssec().udp(self.bed.address());
        let keys = answer.answers.into_iter().filter(|record| record.kind == DNSKEY);
        keys.map(|record| record.data).collect()
    }
}

/// The types that an NSEC record says there are.
fn types(nsec: &Record) -> Vec<u16> {
    let mut rest = &nsec.data[..];
    while rest[0] != 0 {
        rest = &rest[1 + usize::from(rest[0])..];
    }
    rest = &rest[1..];
    let mut kinds = Vec::new();
    while let [window, length, more @ ..] = rest {
        for (index, byte) in more[..usize::from(*length)].iter().enumerate() {
            let bits = (0..8).filter(|bit| byte & (0x80 >> bit) != 0);
            kinds.extend(bits.map(|bit| u16::from(*window) << 8 | (index * 8 + bit) as u16));
        }
        rest = &more[usize::from(*length)..];
    }
    kinds
}

fn kinds(records: &[Record]) -> Vec<u16> {
    records.iter().map(|record| record.kind).collect()
}

fn zone() -> DnsZoneSpec {
    let record = |name: &str, kind: &str, data: &[&str]| DnsRecord {
        name: name.into(),
        kind: kind.into(),
        data: data.iter().map(|text| (*text).to_owned()).collect(),
        ttl_seconds: None,
    };
    DnsZoneSpec {
        zone: "example.com".into(),
        mailbox: Some("Host.Master@Example.com".into()),
        records: vec![
            record("@", "TXT", &["hello"]),
            record("alias", "CNAME", &["Shop.Example.COM"]),
            record("mail", "MX", &["10 b.example.net", "5 a.example.net"]),
            record("big", "TXT", &["x".repeat(900).as_str(), "y".repeat(300).as_str()]),
        ],
        ..DnsZoneSpec::default()
    }
}

fn everything() -> Signed {
    let apart = vec![target("a", "europe", "48.9,2.4", &["lb.elsewhere.example"])];
    let rules = TrafficRules::default;
    let roots = vec![
        global("shop.example.com", three(), rules()),
        global("*.wild.example.com", three(), rules()),
        global("cname.example.com", apart, rules()),
        global("example.com", three(), rules()),
    ];
    signed(with_zone(objects(roots), zone()), &["example.com"])
}

#[test]
fn every_kind_of_answer_is_signed() {
    let signed = everything();
    for (name, kind, expected) in [
        ("shop.example.com", A, &[A, RRSIG][..]),
        ("SHOP.example.COM", AAAA, &[AAAA, RRSIG]),
        ("anything.below.wild.example.com", A, &[A, RRSIG]),
        ("*.wild.example.com", A, &[A, RRSIG]),
        ("cname.example.com", A, &[CNAME, RRSIG]),
        ("mail.example.com", 15, &[15, 15, RRSIG]),
        ("example.com", A, &[A, RRSIG]),
        ("example.com", SOA, &[SOA, RRSIG]),
        ("example.com", NS, &[NS, RRSIG]),
        ("example.com", TXT, &[TXT, RRSIG]),
        ("example.com", DNSKEY, &[DNSKEY, RRSIG]),
        ("example.com", CDS, &[CDS, RRSIG]),
        ("shop.example.com", ANY, &[13, RRSIG]),
        ("shop.example.com", NSEC, &[NSEC, RRSIG]),
    ] {
        let answer = signed.ask(name, kind);
        assert_eq!(answer.rcode, NOERROR, "{name} {kind}");
        assert_eq!(kinds(&answer.answers), expected, "{name} {kind}");
    }
    let alias = signed.ask("alias.example.com", A);
    assert_eq!(kinds(&alias.answers)[0], CNAME);
}

#[test]
fn what_is_not_there_is_denied_for_just_that_name() {
    let signed = everything();
    for (name, kind, expected) in [
        ("nothing.example.com", A, vec![RRSIG, NSEC, NXNAME]),
        ("x.y.shop.example.com", TXT, vec![RRSIG, NSEC, NXNAME]),
        ("shop.example.com", TXT, vec![A, AAAA, RRSIG, NSEC]),
        ("wild.example.com", A, vec![RRSIG, NSEC]),
        ("mail.example.com", A, vec![15, RRSIG, NSEC]),
        ("example.com", DS, vec![A, NS, SOA, TXT, AAAA, RRSIG, NSEC, DNSKEY, CDS, 60]),
    ] {
        let answer = signed.ask(name, kind);
        assert_eq!((answer.rcode, answer.answers.len()), (NOERROR, 0), "{name} {kind}");
        assert_eq!(kinds(&answer.authorities), [SOA, NSEC, RRSIG, RRSIG], "{name}");
        let nsec = &answer.authorities[1];
        assert_eq!(nsec.name, format!("{name}."));
        assert_eq!(nsec.data[..2], [1, 0], "{name}: the next name is directly below it");
        assert_eq!(types(nsec), expected, "{name} {kind}");
    }
    let plain = ask("nothing.example.com", A).udp(signed.bed.address());
    assert_eq!((plain.rcode, kinds(&plain.authorities)), (NXDOMAIN, vec![SOA]));
    let asked = ask("nothing.example.com", NXNAME).dnssec().udp(signed.bed.address());
    assert_eq!(asked.rcode, FORMERR, "it only stands in proofs");
}

#[test]
fn nobody_gets_signatures_who_did_not_ask_or_where_there_are_no_keys() {
    let signed = everything();
    let plain = ask("shop.example.com", A).edns().udp(signed.bed.address());
    assert_eq!(kinds(&plain.answers), [A]);
    let unsigned = Bed::new(shop(TrafficRules::default()));
    let answer = ask("shop.example.com", A).dnssec().udp(unsigned.address());
    assert_eq!(kinds(&answer.answers), [A]);
    let answer = ask("nothing.example.com", A).dnssec().udp(unsigned.address());
    assert_eq!((answer.rcode, kinds(&answer.authorities)), (NXDOMAIN, vec![SOA]));
}

#[test]
fn what_is_too_long_for_udp_is_signed_by_tcp() {
    let signed = everything();
    let question = ask("big.example.com", TXT).dnssec();
    let short = question.udp(signed.bed.address());
    assert!(short.truncated && short.answers.is_empty());
    let long = question.tcp(signed.bed.address());
    assert_eq!(kinds(&long.answers), [TXT, TXT, RRSIG]);
    let signature = long.answers.last().unwrap();
    assert!(signed.is_right(&long.answers, &long.answers[0], signature));
}

/// Each network has its own answer, each with its own signature, whatever was remembered before.
#[test]
fn answers_that_differ_by_client_are_all_signed() {
    let signed = everything();
    for _ in 0..2 {
        for (network, expected) in
            [("10.1.0.0", "192.0.2.1"), ("10.2.0.0", "192.0.2.2"), ("10.3.0.0", "192.0.2.3")]
        {
            let question = ask("shop.example.com", A).dnssec().subnet(network, 16);
            let answer = question.udp(signed.bed.address());
            assert_eq!(answer.texts()[0], expected);
            assert!(signed.is_right(&answer.answers, &answer.answers[0], &answer.answers[1]));
        }
    }
}

#[test]
fn a_zone_within_another_is_vouched_for_by_the_one_above() {
    let rules = TrafficRules::default;
    let roots = vec![global("a.sub.example.com", three(), rules())];
    let signed = signed(objects(roots), &["example.com", "sub.example.com"]);
    assert_eq!(kinds(&signed.ask("a.sub.example.com", A).answers), [A, RRSIG]);
    let answer = signed.ask("sub.example.com", DS);
    assert_eq!(kinds(&answer.answers), [DS, RRSIG]);
    let stored = signed.keys.list("sub.example.com").unwrap();
    let tag = u16::from_be_bytes([answer.answers[0].data[0], answer.answers[0].data[1]]);
    assert_eq!(tag, stored[0].tag);
    let signer = b"\x07example\x03com\0";
    assert_eq!(answer.answers[1].data[18..18 + signer.len()], *signer, "signed by the parent");
}

#[test]
fn a_running_server_follows_a_roll_of_its_keys() {
    let signed = everything();
    let address = signed.bed.address();
    let seen = || kinds(&ask("example.com", DNSKEY).dnssec().tcp(address).answers);
    assert_eq!(seen(), [DNSKEY, RRSIG]);
    let Rolled::Published(new) = signed.keys.roll("example.com", 1, true).unwrap() else {
        panic!("nothing else is in the folder");
    };
    until(seen, |kinds| *kinds == [DNSKEY, DNSKEY, RRSIG, RRSIG]);
    assert_eq!(signed.keys.roll("example.com", 2, true).unwrap(), Rolled::Activated(new));
    let signs = || {
        let answer = signed.ask("shop.example.com", A);
        u16::from_be_bytes([answer.answers[1].data[16], answer.answers[1].data[17]])
    };
    until(signs, |tag| *tag == new);
    signed.keys.roll("example.com", 3, true).unwrap();
    until(seen, |kinds| *kinds == [DNSKEY, RRSIG]);
    assert_eq!(signs(), new);
    assert_eq!(
        signed.bed.server.delegation_signers(),
        [signed.keys.list("example.com").unwrap()[0].ds.clone()]
    );
}
