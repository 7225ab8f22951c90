//! Signed answers, as delv, a validating unbound, dig and kdig see them.

use std::process::Command;

use limen_api::{DnsRecord, DnsZoneSpec};
use limen_core::global::TrafficRules;
use limen_dns::{KeyFolder, TsigKey};

use crate::bed::{Bed, global, objects, target, three, until, with_zone};
use crate::{Resolver, run};

const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

struct Signed {
    bed: Bed,
    keys: KeyFolder,
    folder: tempfile::TempDir,
}

fn signed() -> Signed {
    let folder = tempfile::tempdir().unwrap();
    let keys = KeyFolder::new(folder.path().join("keys"));
    let apart = vec![target("a", "europe", "48.9,2.4", &["lb.elsewhere.example"])];
    let roots = vec![
        global("shop.example.com", three(), TrafficRules::default()),
        global("*.wild.example.com", three(), TrafficRules::default()),
        global("cname.example.com", apart, TrafficRules::default()),
        global("a.sub.example.com", three(), TrafficRules::default()),
    ];
    let bed = Bed::with(with_zone(objects(roots), delegating()), |options| {
        options.dnssec_keys = Some(keys.clone());
        options.zones.push("sub.example.com".into());
        options.tsig_keys = vec![TsigKey::new("peer", "hmac-sha256", SECRET).unwrap()];
    });
    Signed { bed, keys, folder }
}

/// A zone of others below ours, that is not signed.
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
            record("ns.child", "A", "127.0.0.1"),
        ],
        ..DnsZoneSpec::default()
    }
}

impl Signed {
    fn ds(&self) -> String {
        self.keys.list("example.com").unwrap()[0].ds.clone()
    }

    /// What delv says with the zone's DS as the trust anchor.
    fn delv(&self, question: &str) -> String {
        let ds = self.ds();
        let parts: Vec<&str> = ds.split(' ').collect();
        let [zone, .., tag, algorithm, digest, hash] = parts[..] else { panic!("{ds}") };
        let anchor = self.folder.path().join("anchor");
        let text = format!(
            "trust-anchors {{ {zone} static-ds {tag} {algorithm} {digest} \"{hash}\"; }};\n"
        );
        std::fs::write(&anchor, text).unwrap();
        let output = Command::new("delv")
            .args(["@127.0.0.1", "-p", &self.bed.address().port().to_string()])
            .args(["-a", anchor.to_str().unwrap(), "+root=example.com"])
            .args(question.split(' '))
            .output()
            .expect("delv");
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }
}

const POSITIVE: [&str; 9] = [
    "shop.example.com A",
    "ShOp.example.com AAAA",
    "x.y.wild.example.com A",
    "cname.example.com CNAME",
    "example.com SOA",
    "example.com NS",
    "example.com DNSKEY",
    "sub.example.com DS",
    "a.sub.example.com A",
];
const NEGATIVE: [&str; 6] = [
    "child.example.com DS",
    "nothing.example.com A",
    "x.y.shop.example.com A",
    "shop.example.com TXT",
    "wild.example.com A",
    "nothing.sub.example.com A",
];

#[test]
fn delv_validates_every_kind_of_answer() {
    let signed = signed();
    for question in POSITIVE {
        let seen = signed.delv(question);
        assert!(seen.contains("; fully validated"), "{question}: {seen}");
        assert!(!seen.contains("negative"), "{question}: {seen}");
    }
    for question in NEGATIVE {
        let seen = signed.delv(question);
        assert!(seen.contains("; negative response, fully validated"), "{question}: {seen}");
    }
}

#[test]
fn delv_validates_throughout_a_roll() {
    let signed = signed();
    // The parent has the old DS until the new key signs, then both, then the new one.
    for step in 0..3_u64 {
        let anchored = signed.delv("shop.example.com A");
        assert!(anchored.contains("; fully validated"), "step {step}: {anchored}");
        signed.keys.roll("example.com", step, true).unwrap();
        let count = [2, 2, 1][step as usize];
        let port = signed.bed.address().port();
        until(
            || run("dig", port, "example.com DNSKEY +short").lines().count(),
            |seen| *seen == count,
        );
    }
    let seen = signed.delv("shop.example.com A");
    assert!(seen.contains("; fully validated"), "{seen}");
}

#[test]
fn a_validating_resolver_trusts_the_answers_and_nothing_else() {
    let signed = signed();
    let anchor = format!("  trust-anchor: \"{}\"\n", signed.ds());
    let port = signed.bed.address().port();
    let resolver = Resolver::with(port, "validator iterator", &anchor);
    // What leads elsewhere cannot be resolved here, and the aliases' own zone is all there is.
    for question in POSITIVE.iter().chain(&NEGATIVE).filter(|text| !text.starts_with("cname")) {
        let seen = run("dig", resolver.port, &format!("{question} +dnssec"));
        assert!(seen.contains(" ad;") || seen.contains(" ad "), "{question}: {seen}");
        assert!(!seen.contains("SERVFAIL"), "{question}: {seen}");
    }
    // The same server with another anchor: the resolver really checks.
    let mut wrong = signed.ds();
    let last = wrong.pop();
    wrong.push(if last == Some('0') { '1' } else { '0' });
    let doubting =
        Resolver::unchecked(port, "validator iterator", &format!("  trust-anchor: \"{wrong}\"\n"));
    let ask = "shop.example.com A +dnssec +tries=1";
    until(|| run("dig", doubting.port, ask), |seen| seen.contains("SERVFAIL"));
}

#[test]
fn dig_and_kdig_sign_with_a_shared_secret() {
    let signed = signed();
    let port = signed.bed.address().port();
    for client in ["dig", "kdig"] {
        let ask = format!("-y hmac-sha256:peer:{SECRET} shop.example.com A +noall +answer +tsig");
        let ask = if client == "dig" { ask.replace(" +tsig", "") } else { ask };
        let seen = run(client, port, &ask);
        assert!(seen.contains("192.0.2."), "{client}: {seen}");
        assert!(!seen.to_lowercase().contains("tsig verif"), "{client}: {seen}");
        let other = "b3RoZXIgc2VjcmV0IG90aGVyIHNlY3JldA==";
        let seen = run(client, port, &format!("-y hmac-sha256:peer:{other} shop.example.com A"));
        assert!(seen.contains("BADSIG"), "{client}: {seen}");
    }
}

/// Resolvers ask the servers of a delegation at port 53, which a test does not have: a stub stands
/// for it.
#[test]
fn a_validating_resolver_follows_a_delegation_to_a_zone_that_is_not_signed() {
    let signed = signed();
    let port = signed.bed.address().port();
    for client in ["dig", "kdig"] {
        let seen = run(client, port, "www.child.example.com A +norec +dnssec");
        for part in ["ns.child.example.com.", "127.0.0.1", "NSEC", "RRSIG"] {
            assert!(seen.contains(part), "{client}: no {part:?} in {seen}");
        }
        assert!(!seen.contains(" aa"), "{client}: {seen}");
    }
    // It believes unsigned answers only since the zone above proves that there is no DS.
    let below = Bed::with(
        objects(vec![global("www.child.example.com", three(), TrafficRules::default())]),
        |options| {
            options.zones = vec!["child.example.com".into()];
        },
    );
    let more = format!("  trust-anchor: \"{}\"\n", signed.ds());
    let stub = format!(
        "stub-zone:\n  name: \"child.example.com\"\n  stub-addr: 127.0.0.1@{}\n",
        below.address().port()
    );
    let resolver = Resolver::with_stubs(port, "validator iterator", &more, &stub);
    let seen = run("dig", resolver.port, "www.child.example.com A +dnssec");
    assert!(seen.contains("NOERROR") && seen.contains("192.0.2."), "{seen}");
    assert!(!seen.contains(" ad;") && !seen.contains(" ad "), "nobody signed it: {seen}");
}
