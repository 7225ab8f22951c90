//! What is answered, whatever the policy.

use limen_api::{DnsRecord, DnsZoneSpec, Nameserver};
use limen_core::global::TrafficRules;

use crate::bed::{Bed, global, objects, shop, target, three, until, with_zone};
use crate::client::*;

fn record(name: &str, kind: &str, data: &[&str]) -> DnsRecord {
    let data = data.iter().map(|text| (*text).to_owned()).collect();
    DnsRecord { name: name.into(), kind: kind.into(), data, ttl_seconds: None }
}

fn zone(records: Vec<DnsRecord>) -> DnsZoneSpec {
    let nameservers = vec![
        Nameserver { name: "ns1.example.com".into(), addresses: vec!["192.0.2.53".into()] },
        Nameserver { name: "ns2.elsewhere.net".into(), addresses: vec![] },
    ];
    DnsZoneSpec { zone: "example.com".into(), nameservers, records, ..DnsZoneSpec::default() }
}

#[test]
fn both_families_are_answered_by_udp_and_tcp() {
    let bed = Bed::new(shop(TrafficRules::default()));
    for (kind, expected) in [(A, "192.0.2.3"), (AAAA, "2001:db8::3")] {
        let question = ask("shop.example.com", kind).subnet("10.3.0.0", 16);
        for answer in [question.udp(bed.address()), question.tcp(bed.address())] {
            assert_eq!((answer.rcode, answer.texts()), (NOERROR, vec![expected]));
            assert!(answer.authoritative && !answer.recursion_available && !answer.truncated);
            assert_eq!(answer.answers[0].name, "shop.example.com.");
        }
    }
}

#[test]
fn a_server_listens_on_both_families() {
    let bed = Bed::with(shop(TrafficRules::default()), |options| {
        options.listen.push("[::1]:0".parse().unwrap());
    });
    for address in bed.server.listen() {
        let answer = ask("shop.example.com", A).subnet("10.1.0.0", 16).udp(*address);
        assert_eq!(answer.texts(), ["192.0.2.1"], "{address}");
    }
}

#[test]
fn the_question_comes_back_as_it_was_written() {
    let bed = Bed::new(shop(TrafficRules::default()));
    let answer = ask("ShOp.eXaMpLe.COM", A).udp(bed.address());
    assert_eq!(answer.question, "ShOp.eXaMpLe.COM.");
    assert_eq!(answer.answers[0].name, "ShOp.eXaMpLe.COM.");
}

#[test]
fn what_does_not_exist_is_said_with_the_soa() {
    let bed = Bed::new(objects(vec![global("a.b.example.com", three(), TrafficRules::default())]));
    for (name, kind, rcode) in [
        ("nothing.example.com", A, NXDOMAIN),
        ("x.a.b.example.com", A, NXDOMAIN),
        ("a.b.example.com", TXT, NOERROR),
        ("example.com", A, NOERROR),
        // There is a name below it, so it exists.
        ("b.example.com", A, NOERROR),
    ] {
        let answer = ask(name, kind).udp(bed.address());
        assert_eq!(answer.rcode, rcode, "{name}");
        assert!(answer.answers.is_empty() && answer.authoritative, "{name}");
        let soa = &answer.authorities[0];
        assert_eq!((soa.kind, soa.name.as_str(), soa.ttl), (SOA, "example.com.", 30), "{name}");
    }
}

#[test]
fn foreign_names_are_refused_and_nobody_gets_more_than_they_sent() {
    let bed = Bed::new(shop(TrafficRules::default()));
    for question in [
        ask("example.org", A),
        ask("com", A),
        ask("", NS),
        ask("notexample.com", A),
        ask("example.org", ANY).edns(),
        ask("example.org", A).subnet("10.1.2.0", 24),
        ask("example.org", A).option(10, &[1; 8]).option(3, &[]),
        Ask { class: 3, ..ask("version.bind", TXT) },
        Ask { class: 3, ..ask("shop.example.com", A) },
        ask("example.com", 252),
    ] {
        let answer = question.udp(bed.address());
        assert_eq!(answer.rcode, REFUSED, "{}", question.name);
        assert!(answer.answers.is_empty() && answer.authorities.is_empty());
        assert!(answer.length <= question.bytes().len(), "{}: {}", question.name, answer.length);
        assert!(!answer.authoritative && !answer.recursion_available);
    }
    // With room for it, the reason is there: 20 is "not authoritative".
    let roomy = ask("example.org", A).option(12, &[0; 16]).udp(bed.address());
    assert_eq!(roomy.option(15), Some(vec![0, 20]));
}

#[test]
fn wildcards_stand_for_what_is_not_there() {
    let bed = Bed::new(objects(vec![
        global("*.apps.example.com", three(), TrafficRules::default()),
        global("own.apps.example.com", vec![three().remove(2)], TrafficRules::default()),
    ]));
    let ask = |name: &str| ask(name, A).subnet("10.1.0.0", 16).udp(bed.address());
    assert_eq!(ask("any.apps.example.com").texts(), ["192.0.2.1"]);
    assert_eq!(ask("any.apps.example.com").answers[0].name, "any.apps.example.com.");
    assert_eq!(ask("own.apps.example.com").texts(), ["192.0.2.3"]);
    assert_eq!(ask("deeper.any.apps.example.com").texts(), ["192.0.2.1"], "as RFC 4592 says");
    assert_eq!(ask("below.own.apps.example.com").rcode, NXDOMAIN);
    assert_eq!(ask("apps.example.com").rcode, NOERROR);
}

#[test]
fn records_of_a_zone_are_answered() {
    let long = "x".repeat(300);
    let bed = Bed::new(with_zone(
        shop(TrafficRules::default()),
        zone(vec![
            record("@", "CAA", &["0 issue \"ca.example\""]),
            record("@", "TXT", &["v=spf1 -all", &long]),
            record("@", "MX", &["10 mail.example.com"]),
            record("docs", "CNAME", &["pages.elsewhere.net"]),
            record("mail", "A", &["192.0.2.25"]),
            record("shop", "TXT", &["proof"]),
        ]),
    ));
    let ask = |name: &str, kind| ask(name, kind).udp(bed.address());
    let caa = ask("example.com", CAA);
    assert_eq!(caa.answers[0].data, b"\x00\x05issueca.example");
    let mut texts: Vec<_> = ask("example.com", TXT).answers.into_iter().map(|r| r.data).collect();
    texts.sort();
    assert_eq!(texts[0], b"\x0bv=spf1 -all");
    assert_eq!((texts[1][0], texts[1][256], texts[1].len()), (255, 45, 302));
    assert_eq!(ask("docs.example.com", A).texts(), ["pages.elsewhere.net."]);
    assert_eq!(ask("docs.example.com", TXT).texts(), ["pages.elsewhere.net."]);
    assert_eq!(ask("shop.example.com", TXT).answers[0].data, b"\x05proof");
    assert_eq!(ask("mail.example.com", A).texts(), ["192.0.2.25"]);
    let mut servers = ask("example.com", NS);
    servers.answers.sort_by(|one, other| one.text.cmp(&other.text));
    assert_eq!(servers.texts(), ["ns1.example.com.", "ns2.elsewhere.net."]);
    assert_eq!(ask("ns1.example.com", A).texts(), ["192.0.2.53"]);
    let soa = ask("example.com", SOA);
    assert!(soa.answers[0].data.starts_with(&encode("ns1.example.com")));
    let any = ask("example.com", ANY);
    assert_eq!((any.answers.len(), any.answers[0].kind), (1, 13), "the least, as RFC 8482 says");
}

#[test]
fn a_host_name_is_an_alias_except_where_there_can_be_none() {
    let named = || vec![target("paris", "europe", "48.9,2.4", &["lb.elsewhere.net"])];
    let local = || vec![target("paris", "europe", "48.9,2.4", &["localhost"])];
    let bed = Bed::new(with_zone(
        objects(vec![
            global("shop.example.com", named(), TrafficRules::default()),
            global("example.com", local(), TrafficRules::default()),
            global("proven.example.com", local(), TrafficRules::default()),
        ]),
        zone(vec![record("proven", "TXT", &["proof"])]),
    ));
    for kind in [A, AAAA, TXT, CNAME] {
        let answer = ask("shop.example.com", kind).udp(bed.address());
        assert_eq!(answer.texts(), ["lb.elsewhere.net."]);
    }
    for name in ["example.com", "proven.example.com"] {
        let answer = until(|| ask(name, A).udp(bed.address()), |answer| !answer.answers.is_empty());
        assert_eq!(answer.texts(), ["127.0.0.1"], "{name}");
    }
}

#[test]
fn edns_is_answered_in_kind() {
    let bed = Bed::new(shop(TrafficRules::default()));
    let plain = ask("shop.example.com", A).udp(bed.address());
    assert!(plain.additionals.is_empty(), "only those who speak it are spoken to");
    let asked = ask("shop.example.com", A).option(3, &[]).option(10, b"01234567");
    let answer = asked.udp(bed.address());
    assert_eq!(answer.option(3).as_deref(), Some(&b"here"[..]));
    let cookie = answer.option(10).unwrap();
    assert_eq!((&cookie[..8], cookie.len()), (&b"01234567"[..], 24));
    let newer = {
        let mut bytes = ask("shop.example.com", A).edns().bytes();
        let version = bytes.len() - 5;
        bytes[version] = 1;
        exchange(bed.address(), &bytes).unwrap()
    };
    let newer = Answer::read(&newer);
    assert_eq!(newer.rcode, 0, "the low bits of BADVERS");
    assert_eq!(newer.additionals[0].ttl >> 24, 1, "and the high ones");
}

#[test]
fn what_does_not_fit_is_cut_and_fits_by_tcp() {
    let texts: Vec<String> = (0..30).map(|index| format!("{index} {}", "x".repeat(40))).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let objects =
        with_zone(shop(TrafficRules::default()), zone(vec![record("big", "TXT", &texts)]));
    let bed = Bed::new(objects);
    for question in [ask("big.example.com", TXT), ask("big.example.com", TXT).edns()] {
        let answer = question.udp(bed.address());
        assert!(answer.truncated && answer.answers.is_empty());
        assert_eq!(answer.additionals.len(), usize::from(question.edns.is_some()));
        let whole = question.tcp(bed.address());
        assert_eq!((whole.truncated, whole.answers.len()), (false, 30));
    }
}
