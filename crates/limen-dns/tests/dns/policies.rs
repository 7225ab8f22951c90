//! Which cluster is answered to whom.

use std::collections::BTreeMap;

use limen_core::global::{DnsRules, Global, Residency, Split, Target, TrafficRules, Verdict};

use crate::bed::{Bed, global, objects, shop, target, three, until};
use crate::client::*;

fn from(bed: &Bed, address: &str, prefix: u8) -> Answer {
    ask("shop.example.com", A).subnet(address, prefix).udp(bed.address())
}

#[test]
fn the_nearest_cluster_is_answered_and_the_scope_is_where_that_holds() {
    let bed = Bed::new(shop(TrafficRules::default()));
    for (address, prefix, expected, scope) in [
        ("10.1.2.0", 24, "192.0.2.1", 17),
        ("10.2.2.0", 24, "192.0.2.2", 16),
        ("10.3.0.0", 16, "192.0.2.3", 16),
        // A network within another.
        ("10.1.128.0", 24, "192.0.2.2", 24),
        ("10.1.129.0", 24, "192.0.2.1", 24),
        ("10.1.192.0", 24, "192.0.2.1", 18),
        ("2001:db8:1::", 56, "192.0.2.1", 48),
        ("2001:db8:3::", 56, "192.0.2.3", 48),
    ] {
        let answer = from(&bed, address, prefix);
        assert_eq!(answer.texts(), [expected], "{address}");
        assert_eq!(answer.scope(), Some(scope), "{address}");
    }
    let nobody = ask("shop.example.com", A).option(8, &[0, 1, 0, 0]).udp(bed.address());
    assert_eq!(nobody.scope(), Some(0), "who gives no network gets an answer for all");
}

#[test]
fn the_cluster_that_the_gateway_of_the_region_reaches_soonest_is_answered() {
    let bed = Bed::new(shop(TrafficRules::default()));
    let seen = |network: &str| from(&bed, network, 16).texts().join(" ");
    assert_eq!((seen("10.1.0.0"), seen("10.2.0.0")), ("192.0.2.1".into(), "192.0.2.2".into()));
    // Seen from Europe, New York is nearer than Paris, whatever the map says.
    let slow: &[(&str, f64)] = &[("paris", 180.0), ("york", 90.0), ("tokyo", 250.0)];
    bed.measured(&[("gw-eu", "europe", slow)]);
    until(|| seen("10.1.0.0"), |address| address == "192.0.2.2");
    assert_eq!(seen("10.3.0.0"), "192.0.2.3", "no gateway speaks for Asia");
    let answer = from(&bed, "10.1.0.0", 16);
    assert_eq!(answer.scope(), Some(17), "it still holds for the clients of that place only");
    // About the same again changes nothing, and without the gateway there is only the map.
    bed.measured(&[("gw-eu", "europe", &[("paris", 181.0), ("york", 91.0), ("tokyo", 250.0)])]);
    bed.measured(&[("gw-eu", "europe", &[])]);
    until(|| seen("10.1.0.0"), |address| address == "192.0.2.1");
}

#[test]
fn the_next_nearest_takes_over_and_answers_are_short_lived_meanwhile() {
    let bed = Bed::new(shop(TrafficRules::default()));
    assert_eq!(from(&bed, "10.1.0.0", 16).answers[0].ttl, 30);
    let mut targets = three();
    targets[0].verdicts.edge = Verdict::Unhealthy;
    bed.set(objects(vec![global("shop.example.com", targets, TrafficRules::default())]));
    let answer = until(|| from(&bed, "10.1.0.0", 16), |answer| answer.texts() != ["192.0.2.1"]);
    assert_eq!((answer.texts(), answer.answers[0].ttl), (vec!["192.0.2.2"], 5));
}

#[test]
fn an_answer_is_never_empty() {
    let mut targets = three();
    for target in &mut targets {
        target.ready_endpoints = Some(0);
    }
    let bed = Bed::new(objects(vec![global("shop.example.com", targets, TrafficRules::default())]));
    assert_eq!(from(&bed, "10.1.0.0", 16).texts(), ["192.0.2.1"]);
}

#[test]
fn who_has_no_address_of_the_family_is_passed_over() {
    let mut targets = three();
    targets[0] = target("paris", "europe", "48.9,2.4", &["192.0.2.1"]);
    let bed = Bed::new(objects(vec![global("shop.example.com", targets, TrafficRules::default())]));
    assert_eq!(from(&bed, "10.1.0.0", 16).texts(), ["192.0.2.1"]);
    let six = ask("shop.example.com", AAAA).subnet("10.1.0.0", 16).udp(bed.address());
    assert_eq!(six.texts(), ["2001:db8::2"], "the nearest that has one");
}

/// What is answered to a network for a kind.
fn seen(bed: &Bed, kind: u16, network: &str) -> String {
    let answer = ask("shop.example.com", kind).subnet(network, 16).udp(bed.address());
    assert_eq!(answer.rcode, NOERROR);
    answer.texts().join(" ")
}

#[test]
fn no_family_leads_to_a_cluster_that_the_other_is_kept_from() {
    let targets = |york: Verdict| {
        let mut targets = three();
        targets.truncate(2);
        targets[0].drained_percent = 100;
        targets[1] = target("york", "america", "40.7,-74", &["192.0.2.2"]);
        targets[1].verdicts.edge = york;
        objects(vec![global("shop.example.com", targets, TrafficRules::default())])
    };
    let bed = Bed::new(targets(Verdict::Healthy));
    assert_eq!(seen(&bed, A, "10.1.0.0"), "192.0.2.2");
    assert_eq!(seen(&bed, AAAA, "10.1.0.0"), "", "paris is drained, and york has no IPv6");
    // Where all are as bad, each family has what there is.
    bed.set(targets(Verdict::Unhealthy));
    until(|| seen(&bed, AAAA, "10.1.0.0"), |address| address == "2001:db8::1");
    assert_eq!(seen(&bed, A, "10.1.0.0"), "192.0.2.1");
}

#[test]
fn ipv4_is_answered_whatever_leads_elsewhere_by_ipv6() {
    let mut drained = three();
    drained.truncate(2);
    drained[1] = target("york", "america", "40.7,-74", &["2001:db8::2"]);
    let mut lost = drained.clone();
    drained[0].drained_percent = 100;
    lost[0].verdicts.api = Verdict::Unhealthy;
    for targets in [drained, lost] {
        let rules = TrafficRules::default();
        let bed = Bed::new(objects(vec![global("shop.example.com", targets, rules)]));
        assert_eq!(seen(&bed, A, "10.1.0.0"), "192.0.2.1", "many have nothing but IPv4");
        assert_eq!(seen(&bed, AAAA, "10.1.0.0"), "2001:db8::2");
    }
}

/// Paris with both families, and New York with IPv4 alone.
fn half_six() -> Vec<Target> {
    let mut targets = three();
    targets.truncate(2);
    targets[1] = target("york", "america", "40.7,-74", &["192.0.2.2"]);
    targets
}

#[test]
fn ipv6_leads_to_no_cluster_that_a_failover_order_holds_in_reserve() {
    let shop = |order: [&str; 2], york: Verdict| {
        let mut targets = half_six();
        targets[1].verdicts.edge = york;
        let failover = order.map(str::to_owned).into();
        let dns = Some(DnsRules { clusters: 2, ..DnsRules::default() });
        let rules = TrafficRules { failover, dns, ..TrafficRules::default() };
        objects(vec![global("shop.example.com", targets, rules)])
    };
    let bed = Bed::new(shop(["york", "paris"], Verdict::Healthy));
    let both = || [A, AAAA].map(|kind| seen(&bed, kind, "10.1.0.0"));
    assert_eq!(both(), ["192.0.2.2 192.0.2.1", ""], "with IPv6 all would go to paris");
    bed.set(shop(["york", "paris"], Verdict::Unhealthy));
    until(both, |seen| *seen == ["192.0.2.1", "2001:db8::1"]);
    bed.set(shop(["paris", "york"], Verdict::Healthy));
    until(both, |seen| *seen == ["192.0.2.1 192.0.2.2", "2001:db8::1"]);
}

#[test]
fn who_has_both_families_is_divided_as_the_weights_and_drains_say() {
    let clusters = [("paris", 10), ("york", 90)].map(|(name, weight)| (name.to_owned(), weight));
    let split = Some(Split { clusters: clusters.into(), ..Split::default() });
    let weighted = (half_six(), TrafficRules { split, ..TrafficRules::default() }, 10);
    let mut drained = (half_six(), TrafficRules::default(), 70);
    drained.0[0].drained_percent = 30;
    for (targets, rules, paris) in [weighted, drained] {
        let bed = Bed::new(objects(vec![global("shop.example.com", targets, rules)]));
        let (mut six, mut four) = (0_i32, 0);
        for network in 0..100 {
            let client = format!("10.1.{network}.0");
            let seen = |kind| ask("shop.example.com", kind).subnet(&client, 24).udp(bed.address());
            let (by_four, by_six) = (seen(A), seen(AAAA));
            four += i32::from(by_four.texts() == ["192.0.2.1"]);
            six += i32::from(by_six.texts() == ["2001:db8::1"]);
            let led = (by_four.texts() == ["192.0.2.1"], by_six.texts().len());
            assert!(matches!(led, (true, 1) | (false, 0)), "{client}: {by_four:?} {by_six:?}");
            assert_eq!(by_four.scope(), by_six.scope(), "{client}");
        }
        assert!((six - paris).abs() <= 4 && six == four, "{six} and {four} of 100");
    }
}

#[test]
fn an_alias_is_given_for_all_kinds_or_for_none() {
    let mixed = |named: Verdict, numbered: Verdict| {
        let mut targets = vec![
            target("paris", "europe", "48.9,2.4", &["192.0.2.1"]),
            target("york", "america", "40.7,-74", &["lb.elsewhere.net"]),
        ];
        (targets[0].verdicts.edge, targets[1].verdicts.edge) = (numbered, named);
        objects(vec![global("shop.example.com", targets, TrafficRules::default())])
    };
    let (well, ill) = (Verdict::Healthy, Verdict::Unhealthy);
    let bed = Bed::new(mixed(well, well));
    let all = |network: &str| [A, AAAA, TXT].map(|kind| seen(&bed, kind, network));
    let alias = "lb.elsewhere.net.";
    assert_eq!(all("10.1.0.0"), ["192.0.2.1", "", ""]);
    assert_eq!(all("10.2.0.0"), [alias; 3]);
    let six = ask("shop.example.com", AAAA).subnet("10.1.0.0", 16).udp(bed.address());
    assert_eq!(six.scope(), Some(17), "others are given the alias");
    bed.set(mixed(ill, well));
    until(|| all("10.2.0.0"), |seen| *seen == ["192.0.2.1", "", ""]);
    bed.set(mixed(well, ill));
    until(|| all("10.1.0.0"), |seen| *seen == [alias; 3]);
}

#[test]
fn a_host_name_beside_an_address_does_not_stand_for_the_other_family() {
    let targets = vec![
        target("paris", "europe", "48.9,2.4", &["2001:db8::1", "lb.elsewhere.net"]),
        target("york", "america", "40.7,-74", &["192.0.2.2"]),
    ];
    let bed = Bed::new(objects(vec![global("shop.example.com", targets, TrafficRules::default())]));
    assert_eq!(seen(&bed, A, "10.1.0.0"), "192.0.2.2");
    assert_eq!(seen(&bed, AAAA, "10.1.0.0"), "2001:db8::1");
}

#[test]
fn a_failover_order_is_the_same_everywhere() {
    let failover: Vec<String> = ["tokyo", "york", "paris"].map(str::to_owned).into();
    let bed = Bed::new(shop(TrafficRules { failover, ..TrafficRules::default() }));
    for address in ["10.1.0.0", "10.2.0.0", "10.3.0.0"] {
        let answer = from(&bed, address, 16);
        assert_eq!((answer.texts(), answer.scope()), (vec!["192.0.2.3"], Some(0)));
    }
}

/// How many of the networks from `10.<second>.0.0/24` on get each answer.
fn census(bed: &Bed, networks: u16) -> BTreeMap<String, u16> {
    let mut counts = BTreeMap::new();
    for network in 0..networks {
        let [high, low] = network.to_be_bytes();
        let answer = from(bed, &format!("11.{high}.{low}.0"), 24);
        assert_eq!(answer.scope(), Some(24));
        *counts.entry(answer.answers[0].text.clone()).or_default() += 1;
    }
    counts
}

#[test]
fn weights_are_exact_over_networks_and_each_network_keeps_its_cluster() {
    let clusters = [("paris", 70), ("york", 25), ("tokyo", 5)];
    let clusters = clusters.map(|(name, weight)| (name.to_owned(), weight)).into();
    let split = Some(Split { clusters, ..Split::default() });
    let bed = Bed::new(shop(TrafficRules { split, ..TrafficRules::default() }));
    let counts = census(&bed, 1000);
    for (address, expected) in [("192.0.2.1", 700), ("192.0.2.2", 250), ("192.0.2.3", 50)] {
        let count = i32::from(counts[address]);
        assert!((count - expected).abs() <= 5, "{address} has {count} instead of {expected}");
    }
    let first = from(&bed, "11.0.7.0", 24).texts()[0].to_owned();
    for _ in 0..20 {
        assert_eq!(from(&bed, "11.0.7.0", 24).texts(), [&first]);
    }
}

#[test]
fn a_partial_drain_moves_its_share_of_networks() {
    let mut targets = three();
    for target in &mut targets {
        target.locality = Default::default();
    }
    targets.remove(2);
    let failover = vec!["paris".to_owned(), "york".to_owned()];
    targets[0].drained_percent = 30;
    let traffic = TrafficRules { failover, ..TrafficRules::default() };
    let bed = Bed::new(objects(vec![global("shop.example.com", targets, traffic)]));
    let counts = census(&bed, 500);
    assert!((i32::from(counts["192.0.2.1"]) - 350).abs() <= 5, "{counts:?}");
}

#[test]
fn a_drained_cluster_is_left_alone_and_used_when_nothing_else_is_left() {
    let drained = |all: bool| {
        let mut targets = three();
        targets[0].drained_percent = 100;
        for target in targets.iter_mut().skip(1).filter(|_| all) {
            target.verdicts.edge = Verdict::Unhealthy;
        }
        objects(vec![global("shop.example.com", targets, TrafficRules::default())])
    };
    let bed = Bed::new(drained(false));
    let answer = from(&bed, "10.1.0.0", 16);
    assert_eq!((answer.texts(), answer.answers[0].ttl), (vec!["192.0.2.2"], 5));
    bed.set(drained(true));
    until(|| from(&bed, "10.1.0.0", 16), |answer| answer.texts() == ["192.0.2.1"]);
}

#[test]
fn round_robin_gives_every_ready_cluster_its_turn() {
    let dns = Some(DnsRules { round_robin: true, ..DnsRules::default() });
    let bed = Bed::with(shop(TrafficRules { dns, ..TrafficRules::default() }), |options| {
        options.workers = 1;
    });
    let mut counts: BTreeMap<String, u16> = BTreeMap::new();
    for _ in 0..30 {
        let answer = from(&bed, "10.1.0.0", 16);
        assert_eq!(answer.scope(), Some(0));
        *counts.entry(answer.answers[0].text.clone()).or_default() += 1;
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [10, 10, 10]);
}

#[test]
fn several_clusters_are_answered_best_first_and_only_ready_ones() {
    let dns = Some(DnsRules { clusters: 3, ttl_seconds: Some(60), ..DnsRules::default() });
    let rules = TrafficRules { dns, ..TrafficRules::default() };
    let bed = Bed::new(shop(rules.clone()));
    let answer = from(&bed, "10.3.0.0", 16);
    assert_eq!(answer.texts(), ["192.0.2.3", "192.0.2.1", "192.0.2.2"]);
    assert_eq!(answer.answers[0].ttl, 60);
    let mut targets = three();
    targets[0].ready_endpoints = Some(0);
    bed.set(objects(vec![global("shop.example.com", targets, rules)]));
    until(|| from(&bed, "10.3.0.0", 16).texts().len(), |length| *length == 2);
}

#[test]
fn a_cluster_that_lacks_a_backend_of_the_host_comes_last() {
    let mut both: Global = global("shop.example.com", three(), TrafficRules::default());
    let mut path = both.rules[0].paths[0].clone();
    (path.path, path.backend) = ("/api".into(), "api:80".into());
    both.rules[0].paths.push(path);
    let mut api = both.backends[0].clone();
    api.name = "api:80".into();
    api.targets.remove(0);
    both.backends.push(api);
    let bed = Bed::new(objects(vec![both]));
    assert_eq!(from(&bed, "10.1.0.0", 16).texts(), ["192.0.2.2"]);
}

#[test]
fn residency_is_never_broken_not_even_for_want_of_anything_else() {
    let rule = |allow: &[&str]| Residency {
        clients: vec!["DE".into()],
        allow: allow.iter().map(|region| (*region).to_owned()).collect(),
        ..Residency::default()
    };
    let rules = TrafficRules { residency: vec![rule(&["asia"])], ..TrafficRules::default() };
    let bed = Bed::new(shop(rules));
    assert_eq!(from(&bed, "10.1.0.0", 16).texts(), ["192.0.2.3"]);
    assert_eq!(from(&bed, "10.2.0.0", 16).texts(), ["192.0.2.2"], "a rule for others");
    let nowhere = TrafficRules { residency: vec![rule(&["moon"])], ..TrafficRules::default() };
    bed.set(shop(nowhere));
    let answer = until(|| from(&bed, "10.1.0.0", 16), |answer| answer.answers.is_empty());
    assert_eq!((answer.rcode, answer.authorities.len()), (NOERROR, 1));
    assert_eq!(answer.scope(), Some(17), "others may have an answer");
}
