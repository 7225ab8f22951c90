//! Any packet at all.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use limen_api::source::Objects;
use limen_api::{DnsRecord, DnsZoneSpec, Nameserver};
use limen_core::global::{Address, Backend, Global, PathRule, PathType, Rule, Target};
use proptest::prelude::*;

use super::*;
use crate::dnssec::{KeyFolder, Signers};
use crate::knowledge::Knowledge;
use crate::wire::HEADER;
use crate::wire::name::{self, Name};
use crate::zone::{Compiler, ZoneDefaults};

fn responder() -> Responder {
    responder_with(false)
}

/// With all that packets can lead to: signatures, delegations and shared secrets, or with little.
fn responder_with(everything: bool) -> Responder {
    let target = |cluster: &str, host: &str| Target {
        cluster: cluster.into(),
        addresses: vec![Address { host: host.into(), port: 80 }],
        ..Target::default()
    };
    let path = PathRule { path: "/".into(), path_type: PathType::Prefix, backend: "web".into() };
    let rule = |host: &str| Rule { host: host.into(), paths: vec![path.clone()] };
    let targets = vec![target("a", "192.0.2.1"), target("b", "2001:db8::1"), target("c", "c.test")];
    let global = Global {
        rules: vec![rule("shop.example.com"), rule("*.apps.example.com"), rule("example.com")],
        backends: vec![Backend { name: "web".into(), targets }],
        ..Global::default()
    };
    let ingresses = [(("default".into(), "shop".into()), Arc::new(global))];
    let mut objects = Objects { ingresses: ingresses.into(), ..Objects::default() };
    if everything {
        let zone = Arc::new(delegating());
        objects.zones.insert(("default".into(), "zone".into()), zone);
    }
    let zones = vec!["example.com".to_owned()];
    let server = Nameserver { name: "ns.example.net".into(), addresses: Vec::new() };
    let defaults = ZoneDefaults { zones, nameservers: vec![server], federation: None };
    let before = Zones::default();
    let objects = Arc::new(objects);
    let (mut zones, _) =
        Compiler::new(defaults).compile(&objects, &Knowledge::default(), &before, 1);
    assert!(zones.problems.is_empty(), "{:?}", zones.problems);
    let folder = tempfile::tempdir().unwrap();
    if everything {
        let keys = Some(KeyFolder::new(folder.path()));
        Signers::new(keys).attach(&mut zones, 1000);
        assert!(zones.apexes[0].signer.is_some(), "{:?}", zones.problems);
    }
    responder_of(zones, everything)
}

fn responder_of(zones: Zones, everything: bool) -> Responder {
    let secret = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let key = TsigKey::new("peer", "hmac-sha256", secret).unwrap();
    Responder::new(Arc::new(Common {
        zones: Arc::new(ArcSwap::from_pointee(zones)),
        places: Places::default(),
        cookie: CookieKey::new([7; 16]),
        nsid: b"here".to_vec(),
        rate_limit: RateLimit { per_second: 0, slip: 0 },
        tsig_keys: if everything { vec![key] } else { Vec::new() },
        secondaries: Vec::new(),
        counters: AllCounters::default(),
        challenges: None,
        log: QueryLog::default(),
    }))
}

/// Looks what is answered for A, AAAA and TXT of a host at the top of a zone, and of an alias of it:
/// the code, how many answers there are, and what is said in their stead.
fn looking(clusters: &[&str]) -> impl FnMut(&Knowledge) -> [[(u8, u8, u8); 3]; 2] {
    let path = PathRule { path: "/".into(), path_type: PathType::Prefix, backend: "web".into() };
    let target = |host: &&str| Target {
        cluster: (*host).to_owned(),
        addresses: vec![Address { host: (*host).to_owned(), port: 80 }],
        ..Target::default()
    };
    let targets = clusters.iter().map(target).collect();
    let global = Global {
        rules: vec![Rule { host: "example.com".into(), paths: vec![path] }],
        backends: vec![Backend { name: "web".into(), targets }],
        ..Global::default()
    };
    let ingresses = [(("default".into(), "shop".into()), Arc::new(global))];
    let zones = [(("default".into(), "zone".into()), Arc::new(delegating()))];
    let (ingresses, zones) = (ingresses.into(), zones.into());
    let objects = Arc::new(Objects { ingresses, zones, ..Objects::default() });
    let zones = vec!["example.com".to_owned()];
    let mut compiler = Compiler::new(ZoneDefaults { zones, ..ZoneDefaults::default() });
    let mut before = Zones::default();
    move |knowledge| {
        let (zones, _) = compiler.compile(&objects, knowledge, &before, 1);
        before = zones.clone();
        let mut responder = responder_of(zones, false);
        [&b""[..], b"\x03top"].map(|front| {
            [1, 28, 16].map(|kind| {
                let head = b"\xAB\xCD\x01\0\0\x01\0\0\0\0\0\0";
                let packet = [&head[..], front, b"\x07example\x03com\0\0", &[kind, 0, 1]].concat();
                let (mut out, client) = (Vec::new(), "192.0.2.77".parse().unwrap());
                responder.respond(&packet, client, Transport::Udp, 1_000_000, &mut out);
                (out[3] & 0x0F, out[7], out[9])
            })
        })
    }
}

#[test]
fn a_host_whose_ways_in_are_yet_to_be_looked_up_is_no_host_without_any() {
    let mut look = looking(&["lb.test"]);
    let mut knowledge = Knowledge::default();
    let waits = [[(2, 0, 0), (2, 0, 0), (0, 0, 1)], [(2, 0, 0), (2, 0, 0), (0, 1, 0)]];
    assert_eq!(look(&knowledge), waits);
    knowledge.not_found("lb.test".into());
    assert_eq!(look(&knowledge), waits, "there is nothing else");
    knowledge.stands_for("lb.test".into(), vec!["192.0.2.1".parse().unwrap()]);
    let found = [[(0, 1, 0), (0, 0, 1), (0, 0, 1)], [(0, 2, 0), (0, 1, 0), (0, 1, 0)]];
    assert_eq!(look(&knowledge), found);
    knowledge.stands_for("lb.test".into(), Vec::new());
    let nothing = [[(0, 0, 1); 3], [(0, 1, 0); 3]];
    assert_eq!(look(&knowledge), nothing, "now it is known that there is nothing");
}

#[test]
fn a_family_that_is_yet_to_be_looked_up_is_not_denied_because_the_other_is_there() {
    let mut look = looking(&["192.0.2.1", "lb.test"]);
    let mut knowledge = Knowledge::default();
    let half = [[(0, 1, 0), (2, 0, 0), (0, 0, 1)], [(0, 2, 0), (2, 0, 0), (0, 1, 0)]];
    assert_eq!(look(&knowledge), half);
    knowledge.not_found("lb.test".into());
    let four = [[(0, 1, 0), (0, 0, 1), (0, 0, 1)], [(0, 2, 0), (0, 1, 0), (0, 1, 0)]];
    assert_eq!(look(&knowledge), four, "what cannot be looked up does not spoil the rest");
    knowledge.stands_for("lb.test".into(), vec!["2001:db8::1".parse().unwrap()]);
    let both = [[(0, 1, 0), (0, 1, 0), (0, 0, 1)], [(0, 2, 0), (0, 2, 0), (0, 1, 0)]];
    assert_eq!(look(&knowledge), both);
}

fn delegating() -> DnsZoneSpec {
    let record = |name: &str, kind: &str, data: &str| DnsRecord {
        name: name.into(),
        kind: kind.into(),
        ttl_seconds: None,
        data: vec![data.into()],
    };
    DnsZoneSpec {
        zone: "example.com".into(),
        records: vec![
            record("child", "NS", "ns.child.example.com"),
            record("ns.child", "A", "192.0.2.7"),
            record("alias", "CNAME", "child.example.com"),
            record("top", "CNAME", "example.com"),
        ],
        ..DnsZoneSpec::default()
    }
}

/// A packet that is almost a question.
fn almost() -> impl Strategy<Value = Vec<u8>> {
    let label = prop_oneof![
        Just("shop".to_owned()),
        Just("apps".to_owned()),
        Just("child".to_owned()),
        Just("alias".to_owned()),
        Just("top".to_owned()),
        Just("example".to_owned()),
        Just("COM".to_owned()),
        "[a-z0-9*]{1,63}",
    ];
    let labels = prop::collection::vec(label, 0..5);
    let kind = prop_oneof![
        Just(1_u16),
        Just(28),
        Just(6),
        Just(255),
        Just(16),
        Just(43),
        Just(48),
        120_u16..260,
        any::<u16>()
    ];
    let option = (any::<u16>(), prop::collection::vec(any::<u8>(), 0..44));
    let option = option.prop_map(|(code, value)| (code % 16, value));
    let options = prop::option::of(prop::collection::vec(option, 0..4));
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    let flags =
        (any::<bool>(), prop::bool::weighted(0.1), any::<bool>(), prop::bool::weighted(0.2));
    (labels, kind, options, damage, flags).prop_map(
        |(labels, kind, options, damage, (ours, cut, dnssec, signed))| {
            let additionals = u8::from(options.is_some()) + u8::from(signed);
            let mut packet = vec![0xAB, 0xCD, 1, 0, 0, 1, 0, 0, 0, 0, 0, additionals];
            let zone = if ours { &["example", "com"][..] } else { &[] };
            for label in labels.iter().map(String::as_str).chain(zone.iter().copied()) {
                packet.push(label.len() as u8);
                packet.extend(label.as_bytes());
            }
            packet.extend([0, (kind >> 8) as u8, kind as u8, 0, 1]);
            if let Some(options) = options {
                let mut data = Vec::new();
                for (code, value) in options {
                    data.extend(code.to_be_bytes());
                    data.extend((value.len() as u16).to_be_bytes());
                    data.extend(value);
                }
                packet.extend([0, 0, 41, 4, 208, 0, 0, if dnssec { 0x80 } else { 0 }, 0]);
                packet.extend((data.len() as u16).to_be_bytes());
                packet.extend(data);
            }
            if signed {
                // Almost a signature: of a key that is known, over nothing.
                packet.extend(b"\x04peer\0\0\xFA\0\xFF\0\0\0\0\0\x3D\x0Bhmac-sha256\0");
                packet.extend([0, 0, 0, 0, 3, 232, 1, 44, 0, 32]);
                packet.extend([7; 32]);
                packet.extend([0xAB, 0xCD, 0, 0, 0, 0]);
            }
            for (index, value) in damage {
                let at = index.index(packet.len());
                packet[at] = value;
            }
            if cut {
                packet.truncate(packet.len() / 2);
            }
            packet
        },
    )
}

/// What holds for every answer to every packet.
fn check(responder: &mut Responder, packet: &[u8], transport: Transport) {
    let mut out = Vec::new();
    let client: IpAddr = "192.0.2.77".parse().unwrap();
    let answered = responder.respond(packet, client, transport, 1_000_000, &mut out);
    let may_answer = packet.len() >= HEADER && packet[2] & 0x80 == 0;
    assert_eq!(answered, may_answer, "an answer to everything but answers and scraps");
    if !answered {
        return;
    }
    assert_eq!(out[..2], packet[..2], "the number is the question's");
    assert_eq!(out[2] & 0xF9, 0x80 | packet[2] & 0x79, "opcode and wish for recursion too");
    assert_eq!(out[3] & 0xE0, 0, "no recursion");
    if transport == Transport::Udp {
        assert!(out.len() <= 1232, "{} bytes", out.len());
    }
    let rcode = out[3] & 0x0F;
    if [1, 4, 5].contains(&rcode) {
        assert!(out.len() <= packet.len(), "{} bytes for {}", out.len(), packet.len());
    }
    walk(&out);
}

#[test]
fn who_is_turned_away_gets_no_more_than_they_sent() {
    let mut responder = responder_of(Zones::default(), true);
    for kind in 0..=300_u16 {
        for cookie in [8_u8, 17, 40] {
            let mut packet = b"\xAB\xCD\x01\0\0\x01\0\0\0\0\0\x01\0".to_vec();
            packet.extend([(kind >> 8) as u8, kind as u8, 0, 1]);
            packet.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, cookie + 4, 0, 10, 0, cookie]);
            packet.extend(vec![0; usize::from(cookie)]);
            check(&mut responder, &packet, Transport::Udp);
        }
    }
}

/// Every record is whole, and nothing is left over.
fn walk(out: &[u8]) {
    let count = |at: usize| usize::from(u16::from_be_bytes([out[at], out[at + 1]]));
    let mut at = HEADER;
    for _ in 0..count(4) {
        at = Name::read(out, at).map(|(_, end)| end + 4).unwrap();
    }
    for _ in 0..count(6) + count(8) + count(10) {
        at = name::skip(out, at).unwrap();
        at += 10 + count(at + 8);
    }
    assert_eq!(at, out.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_bytes_are_survived(packet in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut responder = responder();
        check(&mut responder, &packet, Transport::Udp);
        check(&mut responder, &packet, Transport::Tcp);
    }

    #[test]
    fn almost_questions_are_answered_well_formed(packets in prop::collection::vec(almost(), 1..8)) {
        let mut responder = responder();
        for packet in packets {
            check(&mut responder, &packet, Transport::Udp);
            check(&mut responder, &packet, Transport::Tcp);
        }
    }

    #[test]
    fn so_they_are_where_answers_are_signed_and_names_delegated(
        packets in prop::collection::vec(almost(), 1..8),
    ) {
        let mut responder = responder_with(true);
        for packet in packets {
            check(&mut responder, &packet, Transport::Udp);
            check(&mut responder, &packet, Transport::Tcp);
        }
    }
}
