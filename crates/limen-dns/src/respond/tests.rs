//! Any packet at all.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use limen_api::Nameserver;
use limen_api::source::Objects;
use limen_core::global::{Address, Backend, Global, PathRule, PathType, Rule, Target};
use proptest::prelude::*;

use super::*;
use crate::knowledge::Knowledge;
use crate::wire::HEADER;
use crate::wire::name::Name;
use crate::zone::{Compiler, ZoneDefaults};

fn responder() -> Responder {
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
    let objects = Objects { ingresses: ingresses.into(), ..Objects::default() };
    let zones = vec!["example.com".to_owned()];
    let server = Nameserver { name: "ns.example.net".into(), addresses: Vec::new() };
    let defaults = ZoneDefaults { zones, nameservers: vec![server], federation: None };
    let zones = Compiler::new(defaults).compile(&objects, &Knowledge::default(), 1);
    assert!(zones.problems.is_empty(), "{:?}", zones.problems);
    Responder::new(Arc::new(Common {
        zones: Arc::new(ArcSwap::from_pointee(zones)),
        places: Places::default(),
        cookie: CookieKey::new([7; 16]),
        nsid: b"here".to_vec(),
        rate_limit: RateLimit { per_second: 0, slip: 0 },
        tsig_keys: Vec::new(),
        secondaries: Vec::new(),
        counters: AllCounters::default(),
        challenges: None,
    }))
}

/// A packet that is almost a question.
fn almost() -> impl Strategy<Value = Vec<u8>> {
    let label = prop_oneof![
        Just("shop".to_owned()),
        Just("apps".to_owned()),
        Just("example".to_owned()),
        Just("COM".to_owned()),
        "[a-z0-9*]{1,63}",
    ];
    let labels = prop::collection::vec(label, 0..5);
    let kind = prop_oneof![Just(1_u16), Just(28), Just(6), Just(255), Just(16), any::<u16>()];
    let option = (any::<u16>(), prop::collection::vec(any::<u8>(), 0..44));
    let option = option.prop_map(|(code, value)| (code % 16, value));
    let options = prop::option::of(prop::collection::vec(option, 0..4));
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    (labels, kind, options, damage, any::<bool>(), prop::bool::weighted(0.1)).prop_map(
        |(labels, kind, options, damage, ours, cut)| {
            let mut packet = vec![0xAB, 0xCD, 1, 0, 0, 1, 0, 0, 0, 0, 0, options.is_some().into()];
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
                packet.extend([0, 0, 41, 4, 208, 0, 0, 0, 0]);
                packet.extend((data.len() as u16).to_be_bytes());
                packet.extend(data);
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

/// Every record is whole, and nothing is left over.
fn walk(out: &[u8]) {
    let count = |at: usize| usize::from(u16::from_be_bytes([out[at], out[at + 1]]));
    let mut at = HEADER;
    for _ in 0..count(4) {
        at = Name::read(out, at).map(|(_, end)| end + 4).unwrap();
    }
    for _ in 0..count(6) + count(8) + count(10) {
        at += if out[at] >= 0xC0 { 2 } else { 1 };
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
}
