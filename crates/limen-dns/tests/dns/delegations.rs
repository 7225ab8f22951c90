//! Names that others answer for.

use limen_api::{DnsRecord, DnsZoneSpec, Nameserver};
use limen_core::global::TrafficRules;
use limen_dns::KeyFolder;

use crate::bed::{Bed, global, objects, shop, three, until, with_zone};
use crate::client::*;

const DS: u16 = 43;
const RRSIG: u16 = 46;
const NSEC: u16 = 47;
const DIGEST: &str = "E2D3C916F6DEEAC73294E8268FB5885044A833FC5459588F4A9184CFC41A5766";

fn record(name: &str, kind: &str, data: &[&str]) -> DnsRecord {
    let data = data.iter().map(|text| (*text).to_owned()).collect();
    DnsRecord { name: name.into(), kind: kind.into(), ttl_seconds: None, data }
}

fn zone(records: Vec<DnsRecord>) -> DnsZoneSpec {
    let server =
        Nameserver { name: "ns1.example.com".into(), addresses: vec!["192.0.2.53".into()] };
    DnsZoneSpec {
        zone: "example.com".into(),
        nameservers: vec![server],
        records,
        ..DnsZoneSpec::default()
    }
}

/// Two delegations: one whose servers are within it, and one that is signed by others.
fn delegating() -> DnsZoneSpec {
    zone(vec![
        record("child", "NS", &["ns1.child.example.com", "ns.elsewhere.example"]),
        record("ns1.child", "A", &["192.0.2.61", "192.0.2.62"]),
        record("ns1.child", "AAAA", &["2001:db8::61"]),
        record("signed", "NS", &["ns.elsewhere.example"]),
        record("signed", "DS", &[&format!("12345 13 2 {DIGEST}")]),
    ])
}

#[test]
fn a_name_that_is_delegated_is_answered_with_its_servers_and_their_addresses() {
    let bed = Bed::new(with_zone(shop(TrafficRules::default()), delegating()));
    for name in ["child.example.com", "www.a.child.example.com", "ns1.child.example.com"] {
        for kind in [A, NS, SOA, TXT, ANY] {
            let answer = ask(name, kind).udp(bed.address());
            assert_eq!((answer.rcode, answer.authoritative), (NOERROR, false), "{name} {kind}");
            assert!(answer.answers.is_empty(), "{name} {kind}: {answer:?}");
            let told: Vec<_> =
                answer.authorities.iter().map(|one| (&*one.name, &*one.text)).collect();
            let child = "child.example.com.";
            assert_eq!(told, [(child, "ns1.child.example.com."), (child, "ns.elsewhere.example.")]);
            let glue: Vec<_> =
                answer.additionals.iter().map(|one| (&*one.name, &*one.text)).collect();
            let server = "ns1.child.example.com.";
            let expected = ["192.0.2.61", "192.0.2.62", "2001:db8::61"].map(|text| (server, text));
            assert_eq!(glue, expected);
        }
    }
    // The zone itself still answers for what is its own.
    assert_eq!(ask("shop.example.com", A).udp(bed.address()).answers.len(), 1);
    let ds = ask("child.example.com", DS).udp(bed.address());
    assert_eq!((ds.authoritative, ds.answers.len(), ds.authorities[0].kind), (true, 0, SOA));
    let ds = ask("signed.example.com", DS).udp(bed.address());
    assert_eq!(
        (ds.authoritative, ds.answers[0].data[..4].to_vec()),
        (true, vec![0x30, 0x39, 13, 2])
    );
    let mixed = ask("WWW.Child.Example.COM", A).udp(bed.address());
    assert_eq!((&*mixed.question, mixed.authorities.len()), ("WWW.Child.Example.COM.", 2));
}

#[test]
fn a_signed_zone_says_whether_what_it_delegates_is_signed() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::with(with_zone(shop(TrafficRules::default()), delegating()), |options| {
        options.dnssec_keys = Some(KeyFolder::new(folder.path()));
    });
    let kinds = |records: &[Record]| -> Vec<u16> { records.iter().map(|one| one.kind).collect() };
    let answer = ask("www.child.example.com", A).dnssec().udp(bed.address());
    assert_eq!(kinds(&answer.authorities), [NS, NS, NSEC, RRSIG], "{answer:?}");
    assert_eq!(answer.authorities[2].name, "child.example.com.");
    // NS, RRSIG and NSEC, and neither DS nor SOA nor addresses.
    let map = &answer.authorities[2].data[b"\x01\0\x05child\x07example\x03com\0".len()..];
    assert_eq!(map, [0, 6, 0b0010_0000, 0, 0, 0, 0, 0b0000_0011]);
    assert_eq!(kinds(&answer.additionals), [A, A, AAAA, OPT]);
    let answer = ask("www.signed.example.com", A).dnssec().udp(bed.address());
    assert_eq!(kinds(&answer.authorities), [NS, DS, RRSIG]);
    assert_eq!(answer.authorities[2].data[..2], DS.to_be_bytes());
    let none = ask("child.example.com", DS).dnssec().udp(bed.address());
    assert_eq!(kinds(&none.authorities), [SOA, NSEC, RRSIG, RRSIG], "{none:?}");
    let plain = ask("www.signed.example.com", A).edns().udp(bed.address());
    assert_eq!(kinds(&plain.authorities), [NS], "nothing of it for who does not ask");
}

#[test]
fn a_referral_that_is_too_long_says_so() {
    let many: Vec<String> = (0..40).map(|n| format!("192.0.2.{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let records =
        vec![record("child", "NS", &["ns1.child.example.com"]), record("ns1.child", "A", &many)];
    let bed = Bed::new(with_zone(shop(TrafficRules::default()), zone(records)));
    let short = ask("child.example.com", A).udp(bed.address());
    assert!(short.truncated && short.additionals.is_empty(), "{short:?}");
    let whole = ask("child.example.com", A).tcp(bed.address());
    assert_eq!((whole.truncated, whole.additionals.len()), (false, 40));
}

#[test]
fn what_a_delegation_cannot_have_beside_it_is_refused() {
    let ds = format!("1 13 2 {DIGEST}");
    let ns = || record("child", "NS", &["ns.elsewhere.example"]);
    for (records, index, why) in [
        (vec![record("@", "NS", &["ns.elsewhere.example"])], 0, "its nameservers"),
        (vec![record("*", "NS", &["ns.elsewhere.example"])], 0, "wildcard"),
        (vec![ns(), record("child", "TXT", &["text"])], 1, "the name is delegated"),
        (vec![record("a.child", "TXT", &["text"]), ns()], 0, "child.example.com is delegated"),
        (vec![ns(), record("b.child", "NS", &["ns.elsewhere.example"])], 1, "is delegated"),
        (vec![record("other", "DS", &[&ds])], 0, "only a name that has NS records"),
        (vec![ns(), record("child", "DS", &["1 13 2 xyz"])], 1, "TAG ALGORITHM"),
        (vec![ns(), record("child", "CNAME", &["else.example"])], 1, "CNAME"),
    ] {
        let bed = Bed::with(with_zone(shop(TrafficRules::default()), zone(records)), |options| {
            options.admin = Some("127.0.0.1:0".parse().unwrap());
            options.zones.clear();
        });
        let problems = crate::life::get(bed.server.admin().unwrap(), "/problems");
        assert!(problems.contains(&format!("records[{index}]")), "{why}: {problems}");
        assert!(problems.contains(why), "{why}: {problems}");
    }
}

#[test]
fn a_host_below_a_delegation_is_left_to_its_servers_and_said() {
    let roots = vec![
        global("shop.example.com", three(), TrafficRules::default()),
        global("www.child.example.com", three(), TrafficRules::default()),
    ];
    let bed = Bed::with(with_zone(objects(roots.clone()), delegating()), |options| {
        options.admin = Some("127.0.0.1:0".parse().unwrap());
    });
    let look = || ask("www.child.example.com", A).udp(bed.address());
    assert_eq!((look().answers.len(), look().authorities.len()), (0, 2));
    let problems = crate::life::get(bed.server.admin().unwrap(), "/problems");
    assert!(
        problems.contains("www.child.example.com: child.example.com is delegated"),
        "{problems}"
    );
    // A zone of ours below another is answered for, whatever the one above says of it.
    let mut both = with_zone(objects(roots), delegating());
    let below = DnsZoneSpec { zone: "child.example.com".into(), ..DnsZoneSpec::default() };
    both.zones.insert(("default".into(), "below".into()), std::sync::Arc::new(below));
    bed.set(both);
    let answer = until(look, |answer| !answer.answers.is_empty());
    assert!(answer.authoritative, "{answer:?}");
}
