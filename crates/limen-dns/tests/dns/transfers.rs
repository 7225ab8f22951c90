//! Whole zones for secondaries.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use limen_core::global::{Split, TrafficRules};
use limen_dns::{KeyFolder, Secondary, TsigKey};
use limen_dns_wire::tsig::{Before, sign, verify};

use crate::bed::{Bed, global, objects, shop, target, three, until};
use crate::client::*;

const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const AXFR: u16 = 252;
const IXFR: u16 = 251;
const RRSIG: u16 = 46;
const NSEC: u16 = 47;

fn key() -> TsigKey {
    TsigKey::new("peer", "hmac-sha256", SECRET).unwrap()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A server with a secondary that listens for news on a socket.
fn bed(objects: limen_api::source::Objects, keys: Option<KeyFolder>) -> (Bed, UdpSocket) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let address = socket.local_addr().unwrap();
    let bed = Bed::with(objects, |options| {
        options.secondaries = vec![Secondary { address, key: key() }];
        options.dnssec_keys = keys;
    });
    (bed, socket)
}

/// Asks for a zone, checks every signature of the answer, and returns its records.
fn transfer(bed: &Bed, mut packet: Vec<u8>) -> Vec<Record> {
    let mac = sign(&mut packet, &key(), Before::Nothing, now());
    let mut stream = TcpStream::connect(bed.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&[&(packet.len() as u16).to_be_bytes(), &packet[..]].concat()).unwrap();
    let secret = key();
    let mut records: Vec<Record> = Vec::new();
    let mut before: Option<Vec<u8>> = None;
    while records.len() < 2 || records.last().unwrap().kind != SOA {
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut bytes).unwrap();
        let follows = before.as_deref().map_or(Before::Request(&mac), Before::Message);
        let signed = verify(&bytes, [&secret], follows, now()).unwrap();
        records.extend(Answer::read(&signed.message).answers);
        before = Some(signed.mac);
        if records.len() == 1 && packet[8..10] == [0, 1] {
            break;
        }
    }
    records
}

fn serial(record: &Record) -> u32 {
    let end = record.data.len() - 16;
    u32::from_be_bytes(record.data[end - 4..end].try_into().unwrap())
}

#[test]
fn a_secondary_gets_the_whole_zone_in_signed_messages() {
    let globals = (0..1000)
        .map(|n| global(&format!("host-number-{n}.example.com"), three(), TrafficRules::default()));
    let (bed, _socket) = bed(objects(globals.collect()), None);
    let records = transfer(&bed, ask("example.com", AXFR).bytes());
    assert_eq!((records[0].kind, records.last().unwrap().kind), (SOA, SOA));
    // The server is nowhere in particular, so that its clients are shared among three clusters.
    let addresses = records.iter().filter(|record| matches!(record.kind, A | AAAA));
    assert_eq!(addresses.filter(|record| record.name.starts_with("host")).count(), 6000);
}

#[test]
fn a_secondary_gets_addresses_rather_than_an_alias_beside_them() {
    let named = || target("york", "america", "40.7,-74", &["lb.elsewhere.net"]);
    let both = vec![target("paris", "europe", "48.9,2.4", &["192.0.2.1"]), named()];
    let (bed, _socket) = bed(
        objects(vec![
            global("both.example.com", both, TrafficRules::default()),
            global("named.example.com", vec![named()], TrafficRules::default()),
        ]),
        None,
    );
    let records = transfer(&bed, ask("example.com", AXFR).bytes());
    let of = |name: &str| -> Vec<(u16, &str)> {
        let found = records.iter().filter(|record| record.name == name);
        found.map(|record| (record.kind, record.text.as_str())).collect()
    };
    assert_eq!(of("both.example.com."), [(A, "192.0.2.1")]);
    assert_eq!(of("named.example.com."), [(CNAME, "lb.elsewhere.net.")]);
}

#[test]
fn a_secondary_gets_no_ipv6_that_would_lead_away_from_weights() {
    let targets = vec![
        target("paris", "europe", "48.9,2.4", &["192.0.2.1", "2001:db8::1"]),
        target("york", "america", "40.7,-74", &["192.0.2.2"]),
    ];
    let clusters = [("paris", 10), ("york", 90)].map(|(name, weight)| (name.to_owned(), weight));
    let split = Some(Split { clusters: clusters.into(), ..Split::default() });
    let rules = TrafficRules { split, ..TrafficRules::default() };
    let (bed, _socket) = bed(objects(vec![global("shop.example.com", targets, rules)]), None);
    let records = transfer(&bed, ask("example.com", AXFR).bytes());
    let shop = records.iter().filter(|record| record.name == "shop.example.com.");
    let shop: Vec<(u16, &str)> = shop.map(|record| (record.kind, &*record.text)).collect();
    assert_eq!(shop, [(A, "192.0.2.1"), (A, "192.0.2.2")]);
}

#[test]
fn whoever_has_the_newest_zone_gets_nothing_but_its_number() {
    let (bed, _socket) = bed(shop(TrafficRules::default()), None);
    let soa = ask("example.com", SOA).udp(bed.address()).answers[0].clone();
    for (known, whole) in [(serial(&soa), false), (serial(&soa) - 1, true)] {
        let mut packet = ask("example.com", IXFR).bytes();
        packet[9] = 1;
        let mut data = soa.data.clone();
        let at = data.len() - 20;
        data[at..at + 4].copy_from_slice(&known.to_be_bytes());
        packet.extend([0xC0, 12, 0, 6, 0, 1, 0, 0, 0, 0]);
        packet.extend((data.len() as u16).to_be_bytes());
        packet.extend(data);
        let records = transfer(&bed, packet);
        assert_eq!(records.len() > 1, whole, "{records:?}");
        assert_eq!(serial(&records[0]), serial(&soa));
    }
}

#[test]
fn by_udp_a_secondary_is_told_the_newest_number_and_comes_by_tcp() {
    let (bed, _socket) = bed(shop(TrafficRules::default()), None);
    let soa = ask("example.com", SOA).udp(bed.address()).answers[0].clone();
    let mut packet = ask("example.com", IXFR).bytes();
    packet[9] = 1;
    packet.extend([0xC0, 12, 0, 6, 0, 1, 0, 0, 0, 0]);
    packet.extend((soa.data.len() as u16).to_be_bytes());
    packet.extend(&soa.data);
    let unsigned = Answer::read(&exchange(bed.address(), &packet).unwrap());
    assert_eq!((unsigned.rcode, unsigned.answers.len()), (REFUSED, 0));
    let mac = sign(&mut packet, &key(), Before::Nothing, now());
    let bytes = exchange(bed.address(), &packet).unwrap();
    let secret = key();
    let signed = verify(&bytes, [&secret], Before::Request(&mac), now()).unwrap();
    let answer = Answer::read(&signed.message);
    assert_eq!((answer.rcode, answer.answers), (NOERROR, vec![soa]));
}

#[test]
fn nobody_else_gets_a_zone() {
    let (bed, _socket) = bed(shop(TrafficRules::default()), None);
    let refused = |packet: &[u8], rcode| {
        let mut stream = TcpStream::connect(bed.address()).unwrap();
        let answer = over_tcp(&mut stream, packet);
        assert_eq!((answer.rcode, answer.answers.len()), (rcode, 0));
    };
    refused(&ask("example.com", AXFR).bytes(), REFUSED);
    let stranger = TsigKey::new("peer", "hmac-sha256", "b3RoZXIgc2VjcmV0IG90aGVyIHNlY3JldA==");
    let mut packet = ask("example.com", AXFR).bytes();
    sign(&mut packet, &stranger.unwrap(), Before::Nothing, now());
    refused(&packet, 9);
    let mut elsewhere = ask("other.example.com", AXFR).bytes();
    sign(&mut elsewhere, &key(), Before::Nothing, now());
    refused(&elsewhere, REFUSED);
}

#[test]
fn a_signed_zone_comes_with_a_signature_for_every_set_and_a_whole_chain() {
    let folder = tempfile::tempdir().unwrap();
    let globals = ["shop", "*.wild", "a.b"]
        .map(|host| global(&format!("{host}.example.com"), three(), TrafficRules::default()));
    let keys = KeyFolder::new(folder.path());
    let (bed, _socket) = bed(objects(globals.to_vec()), Some(keys));
    let records = transfer(&bed, ask("example.com", AXFR).bytes());
    for record in records.iter().filter(|record| record.kind != RRSIG) {
        let covers = |other: &&Record| {
            other.kind == RRSIG
                && other.name == record.name
                && other.data[..2] == record.kind.to_be_bytes()
        };
        assert_eq!(records.iter().filter(covers).count(), 1, "{record:?}");
    }
    let chain: Vec<&str> =
        records.iter().filter(|one| one.kind == NSEC).map(|one| one.name.as_str()).collect();
    let expected = [
        "example.com.",
        "a.b.example.com.",
        "ns1.example.com.",
        "shop.example.com.",
        "*.wild.example.com.",
    ];
    assert_eq!(chain, expected);
}

#[test]
fn secondaries_are_told_of_changes_and_of_nothing_else() {
    let (bed, socket) = bed(shop(TrafficRules::default()), None);
    let mut buffer = [0; 2048];
    let secret = key();
    let mut hear = || {
        let (length, from) = socket.recv_from(&mut buffer).unwrap();
        let packet = buffer[..length].to_vec();
        let signed = verify(&packet, [&secret], Before::Nothing, now()).unwrap();
        assert_eq!(packet[2], 0x24, "it is a NOTIFY");
        let mut answer = signed.message.clone();
        answer[2] |= 0x80;
        sign(&mut answer, &key(), Before::Request(&signed.mac), now());
        socket.send_to(&answer, from).unwrap();
        let end = signed.message.len() - 16;
        u32::from_be_bytes(signed.message[end - 4..end].try_into().unwrap())
    };
    let first = hear();
    let number = || serial(&ask("example.com", SOA).udp(bed.address()).answers[0]);
    assert_eq!(number(), first);
    // The same again is no news: the number stays.
    bed.set(shop(TrafficRules::default()));
    let mut fewer = three();
    fewer.truncate(1);
    bed.set(objects(vec![global("shop.example.com", fewer, TrafficRules::default())]));
    let second = until(&mut hear, |serial| *serial != first);
    assert!(second > first);
    assert_eq!(number(), second);
}
