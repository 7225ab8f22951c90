//! A decision allocates nothing, whatever it has to take into account.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use limen_api::source::Objects;
use limen_core::decide::Ask;
use limen_core::global::{
    self, Affinity, Global, PathRule, PathType, Residency, Rule, Split, Target, TrafficRules,
};
use limen_core::locality::{Coordinates, Locality};

use super::choose::choose;
use super::who::ask_of;
use crate::compile::Compiler;
use crate::options::Options;
use crate::snapshot::{Backend, Snapshot};
use crate::tls::ServerTls;

const CLUSTERS: u16 = 50;
const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

fn target(index: u16) -> Target {
    let degrees = f64::from(index);
    Target {
        cluster: format!("cluster-{index}"),
        locality: Locality {
            region: Some(format!("region-{}", index % 10)),
            zone: None,
            coordinates: Some(Coordinates { latitude: 0.0, longitude: degrees }),
        },
        addresses: vec![global::Address { host: "192.0.2.1".into(), port: 1000 + index }; 2],
        group: Some(if index.is_multiple_of(10) { "v2" } else { "v1" }.to_owned()),
        ready_endpoints: Some(3),
        ..Target::default()
    }
}

/// A backend of many clusters, as a gateway compiles it.
fn backend(traffic: TrafficRules) -> Arc<Backend> {
    let path = PathRule { path: "/".into(), path_type: PathType::Prefix, backend: "web".into() };
    let global = Global {
        rules: vec![Rule { host: "a.test".into(), paths: vec![path] }],
        backends: vec![global::Backend {
            name: "web".into(),
            targets: (0..CLUSTERS).map(target).collect(),
        }],
        traffic,
        ..Global::default()
    };
    let ingresses = [(("ns".into(), "g".into()), Arc::new(global))].into();
    let objects = Objects { ingresses, ..Objects::default() };
    let snapshot = Arc::new(ArcSwap::from_pointee(Snapshot::default()));
    let tls = Arc::new(ServerTls::new(snapshot).unwrap());
    let coordinates = Some(Coordinates { latitude: 0.0, longitude: 0.0 });
    let here = Locality { coordinates, ..Locality::default() };
    let (snapshot, _) = Compiler::new(here, tls, false).compile(&objects);
    snapshot.routes.find("a.test", "/").unwrap().1.backend.clone().unwrap()
}

fn split() -> TrafficRules {
    let groups = [("v1".to_owned(), 99), ("v2".to_owned(), 1)].into();
    let split = Some(Split { groups, ..Split::default() });
    let residency = Residency { deny: vec!["region-3".into()], ..Residency::default() };
    TrafficRules { split, residency: vec![residency], ..TrafficRules::default() }
}

/// Allocations of many decisions after the first, which makes room for what is remembered.
fn allocations(backend: &Backend, decide: impl Fn(Ask, u64)) -> u64 {
    let options = Options::default();
    decide(ask_of(backend, &options, CLIENT), 0);
    let counted = allocation_counter::measure(|| {
        for now in 0..1000 {
            decide(ask_of(backend, &options, CLIENT), now);
        }
    });
    counted.count_total
}

#[test]
fn a_decision_allocates_nothing() {
    let by_address = Affinity { source_address: true, ..Affinity::default() };
    let staying = TrafficRules { affinity: Some(by_address), ..split() };
    let limited = TrafficRules { requests_per_endpoint: Some(10.0), ..split() };
    for (what, rules) in [
        ("the nearest", TrafficRules::default()),
        ("a split, and residency", split()),
        ("a client that stays", staying),
        ("clusters that have room for 30 requests/s each", limited),
    ] {
        let backend = backend(rules);
        let decide = |ask: Ask, now: u64| assert!(choose(&backend, ask, &[], now).is_some());
        assert_eq!(allocations(&backend, decide), 0, "{what}");
        // Nobody has room: all are asked, and then all take turns.
        for target in &backend.targets {
            target.flow.allow(0.0, 0.0);
        }
        assert_eq!(allocations(&backend, decide), 0, "{what}, and no cluster has room");
        // A second attempt.
        let first = choose(&backend, Ask::default(), &[], 0).unwrap().address;
        let tried = [first];
        let again = |ask: Ask, now: u64| assert!(choose(&backend, ask, &tried, now).is_some());
        assert_eq!(allocations(&backend, again), 0, "{what}, once more");
    }
}

#[test]
fn allocations_are_counted_at_all() {
    let counted = allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1_u64))));
    assert_eq!(counted.count_total, 1);
}
