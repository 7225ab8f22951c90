use super::Limits;
use super::*;
use crate::global::{Address, Backend, PathRule, PathType, Rule, TrafficRules};

const NOW: i64 = 1_700_000_000;

fn publisher(owner: &str) -> Publisher {
    Publisher { owner: owner.to_owned(), zone: "example.com".to_owned(), lease: 300, limits: None }
}

fn target(cluster: &str, host: &str, ready: u32) -> Target {
    Target {
        cluster: cluster.to_owned(),
        addresses: vec![Address { host: host.to_owned(), port: 80 }],
        ready_endpoints: Some(ready),
        ..Target::default()
    }
}

fn global(host: &str, targets: Vec<Target>) -> Global {
    let path = PathRule { path: "/".into(), path_type: PathType::Prefix, backend: "web".into() };
    Global {
        rules: vec![Rule { host: host.to_owned(), paths: vec![path] }],
        backends: vec![Backend { name: "web".to_owned(), targets }],
        ..Global::default()
    }
}

fn wants(globals: &[Global]) -> Wanted {
    let wanted = wanted(globals.iter(), "example.com", 30);
    assert!(wanted.waiting.is_empty(), "{wanted:?}");
    wanted
}

fn lines(wanted: &Wanted) -> Vec<String> {
    let mut lines = Vec::new();
    for (host, sets) in &wanted.names {
        for (kind, records) in sets {
            let data: Vec<_> = records.data.iter().map(String::as_str).collect();
            lines.push(format!("{host} {} {} {}", records.ttl, kind.name(), data.join(" ")));
        }
    }
    lines
}

/// A server: makes a change if what it asks for is so.
fn make(zone: &mut Zone, change: &Change) -> bool {
    let holds = |prerequisite: &Prerequisite| match prerequisite {
        Prerequisite::Absent(name, kind) => !zone.records.contains_key(&(name.clone(), *kind)),
        Prerequisite::Exactly(name, kind, data) => {
            zone.records.get(&(name.clone(), *kind)).is_some_and(|records| records.data == *data)
        }
    };
    if !change.prerequisites.iter().all(holds) {
        return false;
    }
    for update in &change.updates {
        match update {
            Update::Remove(name, kind) => drop(zone.records.remove(&(name.clone(), *kind))),
            Update::Add(name, kind, records) => {
                zone.records.insert((name.clone(), *kind), records.clone());
            }
        }
    }
    true
}

fn publish(owner: &str, globals: &[Global], zone: &mut Zone, now: i64) -> Vec<String> {
    let plan = plan(&publisher(owner), &wants(globals), zone, now);
    for change in plan.renewal.iter().chain(&plan.changes) {
        assert!(make(zone, change), "{change:?}");
    }
    plan.remarks
}

fn addresses(zone: &Zone, host: &str) -> Vec<String> {
    let found = zone.records.get(&(host.to_owned(), RecordKind::A));
    found.map(|records| records.data.iter().cloned().collect()).unwrap_or_default()
}

#[test]
fn the_best_clusters_are_wanted() {
    let ready = target("a", "192.0.2.1", 1);
    for (targets, failover, expected) in [
        (
            vec![ready.clone(), target("b", "2001:db8::2", 2)],
            vec![],
            vec!["shop.example.com 30 A 192.0.2.1", "shop.example.com 30 AAAA 2001:db8::2"],
        ),
        (
            vec![ready.clone(), target("b", "192.0.2.2", 0)],
            vec![],
            vec!["shop.example.com 5 A 192.0.2.1"],
        ),
        (
            vec![target("a", "192.0.2.1", 0), target("b", "192.0.2.2", 0)],
            vec![],
            vec!["shop.example.com 5 A 192.0.2.1 192.0.2.2"],
        ),
        (
            vec![ready.clone(), target("b", "192.0.2.2", 1)],
            vec!["b".to_owned(), "a".to_owned()],
            vec!["shop.example.com 30 A 192.0.2.2"],
        ),
        (
            vec![target("a", "192.0.2.1", 0), target("b", "2001:db8::2", 1)],
            vec![],
            vec!["shop.example.com 5 A 192.0.2.1", "shop.example.com 5 AAAA 2001:db8::2"],
        ),
        (
            vec![target("a", "LB.cloud.test.", 1)],
            vec![],
            vec!["shop.example.com 30 CNAME lb.cloud.test"],
        ),
    ] {
        let mut global = global("Shop.example.com", targets);
        global.traffic = TrafficRules { failover, ..TrafficRules::default() };
        assert_eq!(lines(&wants(&[global])), expected);
    }
}

#[test]
fn hosts_of_other_zones_are_not_wanted() {
    let globals = ["shop.example.org", "notexample.com", "*.example.com"]
        .map(|host| global(host, vec![target("a", "192.0.2.1", 1)]));
    assert_eq!(lines(&wants(&globals)), ["*.example.com 30 A 192.0.2.1"]);
}

#[test]
fn what_is_published_changes_and_goes_with_its_root() {
    let mut zone = Zone::default();
    let both = |first| {
        [global(
            "shop.example.com",
            vec![target("a", "192.0.2.1", first), target("b", "192.0.2.2", 1)],
        )]
    };
    publish("one", &both(1), &mut zone, NOW);
    assert_eq!(addresses(&zone, "shop.example.com"), ["192.0.2.1", "192.0.2.2"]);
    let again = plan(&publisher("one"), &wants(&both(1)), &zone, NOW + 10);
    assert_eq!(again, Plan::default(), "what is as it should be is left alone");
    publish("one", &both(0), &mut zone, NOW);
    assert_eq!(addresses(&zone, "shop.example.com"), ["192.0.2.2"]);
    publish("one", &[], &mut zone, NOW);
    let names: Vec<_> = zone.records.keys().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["_limen-lease-one.example.com"]);
}

#[test]
fn what_leads_nowhere_for_a_moment_stays_published() {
    fn at(address: &str) -> [(&str, &str); 2] {
        [("example.com", address), ("shop.example.com", address)]
    }
    let globals = |hosts: &[(&str, &str)]| -> Vec<Global> {
        let one = |(host, address): &(&str, &str)| {
            let mut target = target("a", address, 1);
            target.addresses.retain(|address| !address.host.is_empty());
            global(host, vec![target])
        };
        hosts.iter().map(one).collect()
    };
    let mut zone = Zone::default();
    publish("one", &globals(&at("192.0.2.1")), &mut zone, NOW);
    let before = zone.clone();
    let mut named = at("");
    // A zone itself can have no alias.
    named[0].1 = "lb.cloud.test";
    for (hosts, why) in [
        (at(""), "no cluster has a way in yet"),
        (named, "lb.cloud.test is a name, and a zone itself cannot be an alias"),
    ] {
        let wanted = wanted(globals(&hosts).iter(), "example.com", 30);
        assert_eq!(wanted.waiting["example.com"], why);
        for limits in [None, Some(Limits::default())] {
            let plan = plan(&Publisher { limits, ..publisher("one") }, &wanted, &zone, NOW + 10);
            assert_eq!(plan, Plan::default(), "{why}");
        }
        // Nor does somebody else take away what its lost owner left, while it has that name too.
        let late = plan(&publisher("two"), &wanted, &zone, NOW + 301);
        assert_eq!(late.renewal.unwrap().what, "say that two is alive");
        assert_eq!(late.changes, []);
    }
    assert_eq!(zone, before);
    publish("one", &globals(&at("192.0.2.2")), &mut zone, NOW + 10);
    assert_eq!(addresses(&zone, "example.com"), ["192.0.2.2"]);
}

#[test]
fn addresses_stay_where_no_alias_can_be() {
    let mut zone = Zone::default();
    let at = |host: &str| [global("shop.example.com", vec![target("a", host, 1)])];
    publish("one", &at("192.0.2.1"), &mut zone, NOW);
    let text = Records { ttl: 300, data: ["proof".to_owned()].into() };
    let (mut beside_text, mut beside_mail) = (zone.clone(), zone.clone());
    beside_text.records.insert(("shop.example.com".to_owned(), RecordKind::Txt), text);
    beside_mail.others.insert("shop.example.com".to_owned());
    for mut beside in [beside_text.clone(), beside_mail] {
        let before = beside.clone();
        let remarks = publish("one", &at("lb.cloud.test"), &mut beside, NOW);
        assert!(remarks[0].contains("cannot be beside the other records"), "{remarks:?}");
        assert_eq!(beside, before);
        publish("one", &at("192.0.2.2"), &mut beside, NOW);
        assert_eq!(addresses(&beside, "shop.example.com"), ["192.0.2.2"]);
    }
    // What comes in between keeps the change from being made.
    let late = plan(&publisher("one"), &wants(&at("lb.cloud.test")), &zone, NOW);
    assert!(!make(&mut beside_text, &late.changes[0]), "{late:?}");
    assert!(make(&mut zone, &late.changes[0]), "{late:?}");
    assert!(addresses(&zone, "shop.example.com").is_empty());
}

#[test]
fn records_without_a_mark_are_never_touched() {
    let mut zone = Zone::default();
    let by_hand = Records { ttl: 300, data: ["198.51.100.1".to_owned()].into() };
    zone.records.insert(("shop.example.com".to_owned(), RecordKind::A), by_hand);
    let before = zone.clone();
    let remarks = publish(
        "one",
        &[global("shop.example.com", vec![target("a", "192.0.2.1", 1)])],
        &mut zone,
        NOW,
    );
    assert!(remarks[0].contains("nobody marked"), "{remarks:?}");
    zone.records.retain(|(name, _), _| !name.starts_with("_limen-lease"));
    assert_eq!(zone, before);
}

#[test]
fn an_owner_keeps_its_names_for_as_long_as_it_lives() {
    let mut zone = Zone::default();
    let theirs = [global("shop.example.com", vec![target("a", "192.0.2.1", 1)])];
    let ours = [global("shop.example.com", vec![target("b", "192.0.2.2", 1)])];
    publish("one", &theirs, &mut zone, NOW);
    let remarks = publish("two", &ours, &mut zone, NOW + 299);
    assert!(remarks[0].contains("belongs to one"), "{remarks:?}");
    assert_eq!(addresses(&zone, "shop.example.com"), ["192.0.2.1"]);
    publish("two", &ours, &mut zone, NOW + 301);
    assert_eq!(addresses(&zone, "shop.example.com"), ["192.0.2.2"]);
}

#[test]
fn survivors_retract_what_a_lost_owner_left() {
    let mut zone = Zone::default();
    publish("one", &[global("*.example.com", vec![target("a", "192.0.2.1", 1)])], &mut zone, NOW);
    publish("two", &[], &mut zone, NOW + 299);
    assert_eq!(addresses(&zone, "*.example.com"), ["192.0.2.1"]);
    publish("two", &[], &mut zone, NOW + 301);
    assert!(addresses(&zone, "*.example.com").is_empty());
}

#[test]
fn an_owner_that_comes_back_in_between_wins() {
    let mut zone = Zone::default();
    let theirs = [global("shop.example.com", vec![target("a", "192.0.2.1", 1)])];
    publish("one", &theirs, &mut zone, NOW);
    let late = plan(&publisher("two"), &Wanted::default(), &zone, NOW + 301);
    publish("one", &theirs, &mut zone, NOW + 301);
    let retraction = late.changes.last().unwrap();
    assert!(retraction.what.starts_with("retract"), "{late:?}");
    assert!(!make(&mut zone, retraction), "it is alive again");
    assert_eq!(addresses(&zone, "shop.example.com"), ["192.0.2.1"]);
}

#[test]
fn of_two_who_want_the_same_free_name_one_gets_it() {
    let mut zone = Zone::default();
    let wanted = wants(&[global("shop.example.com", vec![target("a", "192.0.2.1", 1)])]);
    let (one, two) = (
        plan(&publisher("one"), &wanted, &zone, NOW),
        plan(&publisher("two"), &wanted, &zone, NOW),
    );
    let mut all = |plan: Plan| -> Vec<bool> {
        plan.renewal.iter().chain(&plan.changes).map(|change| make(&mut zone, change)).collect()
    };
    assert_eq!(all(one), [true, true]);
    assert_eq!(all(two), [true, false], "its lease, and not the name");
}

#[test]
fn a_hub_that_looks_empty_retracts_nothing_until_it_may() {
    let mut zone = Zone::default();
    let hosts: Vec<Global> = (0..40)
        .map(|n| global(&format!("h{n:02}.example.com"), vec![target("a", "192.0.2.1", 1)]))
        .collect();
    publish("one", &hosts, &mut zone, NOW);
    let before = zone.clone();
    let guarded = Publisher { limits: Some(Limits::default()), ..publisher("one") };
    for (left, held) in [
        (&hosts[..0], "nothing is to be published any more, and 40 names would be retracted"),
        (&hosts[..20], "20 of 40 names would be retracted at once"),
    ] {
        let plan = plan(&guarded, &wants(left), &zone, NOW + 250);
        assert_eq!(plan.held.unwrap().to_string(), held);
        // It says all the same that it is alive, or else others would retract them.
        assert_eq!(plan.renewal.unwrap().what, "say that one is alive");
        assert_eq!(plan.changes, []);
    }
    // What is new is published meanwhile, and a few names may go.
    let mut other = wants(&hosts[..5]);
    other
        .names
        .extend(wants(&[global("new.example.com", vec![target("a", "192.0.2.9", 1)])]).names);
    let some = plan(&guarded, &other, &zone, NOW + 10);
    assert_eq!((some.changes.len(), some.held.is_some()), (1, true));
    let few = plan(&guarded, &wants(&hosts[..35]), &zone, NOW + 10);
    assert_eq!((few.changes.len(), few.held), (5, None));
    assert_eq!(zone, before);
    publish("one", &[], &mut zone, NOW + 10);
    assert_eq!(zone.records.len(), 1, "whoever may, retracts all of them");
}
