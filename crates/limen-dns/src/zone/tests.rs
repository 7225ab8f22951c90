//! What was patched is what would have been made from nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use limen_api::source::Objects;
use limen_api::{DnsRecord, DnsZoneSpec};
use limen_core::decide::Readiness;
use limen_core::global::{
    Address, Backend, Global, HealthCheck, PathRule, PathType, RootReference, Rule, Target,
    TrafficRules, Verdict,
};
use proptest::prelude::*;

use super::*;
use crate::knowledge::Knowledge;

fn target(cluster: &str, host: String, verdict: Verdict) -> Target {
    let mut target = Target {
        cluster: cluster.into(),
        addresses: vec![Address { host, port: 80 }],
        ready_endpoints: Some(1),
        ..Target::default()
    };
    target.verdicts.edge = verdict;
    target
}

/// A root with hosts, whose clusters are as they are.
fn global(hosts: &[&str], last: u8, verdict: Verdict, service: bool) -> Global {
    let path = PathRule { path: "/".into(), path_type: PathType::Prefix, backend: "web".into() };
    let rule = |host: &&str| Rule { host: (*host).into(), paths: vec![path.clone()] };
    let root =
        RootReference { api_version: "v1".into(), kind: "Service".into(), name: "web".into() };
    let targets = vec![
        target("a", format!("192.0.2.{last}"), verdict),
        target("b", "2001:db8::1".into(), Verdict::Unknown),
    ];
    Global {
        rules: hosts.iter().map(rule).collect(),
        backends: vec![Backend { name: "web".into(), targets }],
        traffic: TrafficRules {
            health_check: Some(HealthCheck::default()),
            ..TrafficRules::default()
        },
        root: service.then_some(root),
        ..Global::default()
    }
}

fn zone(data: &str) -> DnsZoneSpec {
    let record = |name: &str, kind: &str, data: &str| DnsRecord {
        name: name.into(),
        kind: kind.into(),
        ttl_seconds: None,
        data: vec![data.into()],
    };
    DnsZoneSpec {
        zone: "example.com".into(),
        federation: Some("fed".into()),
        records: vec![record("mail", "A", data), record("shop", "TXT", "text")],
        ..DnsZoneSpec::default()
    }
}

/// A change of the objects.
#[derive(Clone, Debug)]
enum Step {
    Verdict(usize, bool),
    Address(usize, u8),
    Hosts(usize, bool),
    Gone(usize),
    Zone(u8),
    Found(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..4_usize, any::<bool>()).prop_map(|(one, well)| Step::Verdict(one, well)),
        4 => (0..4_usize, 1..9_u8).prop_map(|(one, last)| Step::Address(one, last)),
        1 => (0..4_usize, any::<bool>()).prop_map(|(one, more)| Step::Hosts(one, more)),
        1 => (0..4_usize).prop_map(Step::Gone),
        1 => (1..9_u8).prop_map(Step::Zone),
        3 => any::<bool>().prop_map(Step::Found),
    ];
    prop::collection::vec(step, 1..12)
}

const HOSTS: [&[&str]; 4] = [
    &["shop.example.com"],
    &["shop.example.com", "a.b.example.com", "shop.example.org"],
    &["*.wild.example.com", "example.com"],
    &[],
];

type State = (&'static [&'static str], u8, Verdict);

fn key(name: usize) -> (String, String) {
    ("default".into(), format!("g{name}"))
}

/// What can be seen of zones, but for numbers that only tell states apart.
fn seen(zones: &Zones) -> BTreeMap<Vec<u8>, String> {
    let shown = |node: &Node| {
        let host = node.host.as_ref().map(|host| {
            (&host.readiness, &host.ways, host.ttl, host.plan.may_alias, host.plan.hash)
        });
        format!("{} {} {} {:?} {host:?}", node.zone, node.is_apex, node.cut, node.records)
    };
    zones.nodes.iter().map(|(name, node)| (name.to_vec(), shown(node))).collect()
}

proptest! {
    #[test]
    fn patched_zones_are_those_made_from_nothing(steps in steps()) {
        let defaults = ZoneDefaults::default();
        let mut compiler = Compiler::new(defaults.clone());
        let mut knowledge = Knowledge::default();
        let mut before = Zones::default();
        let mut states: BTreeMap<usize, State> =
            (0..4).map(|one| (one, (HOSTS[one], 1, Verdict::Unknown))).collect();
        let made = |one: usize, (hosts, last, verdict): State| {
            Arc::new(global(hosts, last, verdict, one == 3))
        };
        let mut objects = Objects::default();
        objects.zones.insert(key(0), Arc::new(zone("192.0.2.25")));
        for (one, state) in &states {
            objects.ingresses.insert(key(*one), made(*one, *state));
        }
        for step in steps {
            let changed = match step {
                Step::Verdict(one, well) => {
                    let verdict = if well { Verdict::Healthy } else { Verdict::Unhealthy };
                    states.get_mut(&one).map(|state| { state.2 = verdict; one })
                }
                Step::Address(one, last) => states.get_mut(&one).map(|state| { state.1 = last; one }),
                Step::Hosts(one, more) => states.get_mut(&one).map(|state| {
                    state.0 = if more { &["new.example.com"] } else { HOSTS[one] };
                    one
                }),
                Step::Gone(one) => {
                    states.remove(&one);
                    objects.ingresses.remove(&key(one));
                    None
                }
                Step::Zone(last) => {
                    objects.zones.insert(key(0), Arc::new(zone(&format!("192.0.2.{last}"))));
                    None
                }
                Step::Found(answers) => {
                    let asked = before.nodes.values().filter_map(|node| node.host.as_ref());
                    let asked = asked.flat_map(|host| host.plan.questions.probes.iter().flatten()).next();
                    if let Some(asked) = asked.cloned() {
                        knowledge.answers(asked, answers);
                    }
                    None
                }
            };
            if let Some(one) = changed {
                objects.ingresses.insert(key(one), made(one, states[&one]));
            }
            let shared = Arc::new(objects.clone());
            let (zones, renewed) = compiler.compile(&shared, &knowledge, &before, 1);
            // The same compiler, which knows all probes, having forgotten what it made last.
            compiler.last = None;
            let (whole, all) = compiler.compile(&shared, &knowledge, &Zones::default(), 1);
            prop_assert_eq!(all, Renewed::All);
            prop_assert_eq!(seen(&zones), seen(&whole));
            prop_assert_eq!(&zones.problems, &whole.problems);
            if let Renewed::Some { zones: touched, .. } = renewed {
                // What was written again may be the same; what is different is never missed.
                prop_assert!(!touched.is_empty() || seen(&zones) == seen(&before), "{:?}", step);
            }
            before = zones;
        }
    }
}

#[test]
fn a_changed_verdict_touches_one_host_and_nothing_else() {
    let mut objects = Objects::default();
    for one in 0..100 {
        let host = format!("h{one}.example.com");
        let made = Arc::new(global(&[&host], 1, Verdict::Healthy, false));
        objects.ingresses.insert(key(one), made);
    }
    objects.zones.insert(key(0), Arc::new(zone("192.0.2.25")));
    let mut compiler = Compiler::new(ZoneDefaults::default());
    let knowledge = Knowledge::default();
    let (before, _) =
        compiler.compile(&Arc::new(objects.clone()), &knowledge, &Zones::default(), 1);
    let sick = Arc::new(global(&["h7.example.com"], 1, Verdict::Unhealthy, false));
    objects.ingresses.insert(key(7), sick);
    let (after, renewed) = compiler.compile(&Arc::new(objects), &knowledge, &before, 2);
    assert_eq!(renewed, Renewed::Some { zones: vec![0], questions: false });
    let id = |zones: &Zones, one: usize| {
        let name = name::from_text(&format!("h{one}.example.com")).unwrap();
        zones.nodes.get(&*name).and_then(|node| node.host.as_ref()).map(|host| host.id)
    };
    let others: Vec<usize> = (0..100).filter(|one| id(&before, *one) != id(&after, *one)).collect();
    assert_eq!(others, [7], "all others keep their numbers, and so what workers remember");
}

#[test]
fn what_a_probe_finds_is_judged_once_for_all_hosts_of_the_same_clusters() {
    let mut objects = Objects::default();
    for one in 0..100 {
        let host = format!("h{one}.example.com");
        let made = Arc::new(global(&[&host], 1, Verdict::Unknown, false));
        objects.ingresses.insert(key(one), made);
    }
    objects.zones.insert(key(0), Arc::new(zone("192.0.2.25")));
    let objects = Arc::new(objects);
    let mut compiler = Compiler::new(ZoneDefaults::default());
    let mut knowledge = Knowledge::default();
    let (before, _) = compiler.compile(&objects, &knowledge, &Zones::default(), 1);
    let hosts = |zones: &Zones| -> Vec<Arc<Host>> {
        zones.nodes.values().filter_map(|node| node.host.clone()).collect()
    };
    let asked = hosts(&before)[0].plan.questions.probes[0][0].clone();
    knowledge.answers(asked, false);
    let (after, renewed) = compiler.compile(&objects, &knowledge, &before, 2);
    assert_eq!(renewed, Renewed::Some { zones: vec![0], questions: false });
    let hosts = hosts(&after);
    assert_eq!(hosts.len(), 100);
    for host in &hosts {
        assert_eq!(*host.readiness, [Readiness::Unhealthy, Readiness::Ready]);
        assert!(Arc::ptr_eq(&host.readiness, &hosts[0].readiness), "one judgement");
        assert!(Arc::ptr_eq(&host.ways, &hosts[0].ways), "one list of ways in");
    }
}
