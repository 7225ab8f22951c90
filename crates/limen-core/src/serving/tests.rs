//! The verdicts as a table, and the laws of the module's story.

use proptest::prelude::*;

use super::*;
use crate::global::{
    Address, PathRule, PathType, Residency, Rule, Split, Target, TrafficRules, Verdict,
};

#[derive(Clone, Copy, Debug)]
enum State {
    Ready,
    Draining,
    Stale,
    Empty,
    Unreachable,
}

use State::{Draining, Empty, Ready, Stale, Unreachable};

fn target(cluster: &str, state: State) -> Target {
    let mut target = Target {
        cluster: cluster.to_owned(),
        addresses: vec![Address { host: "192.0.2.1".to_owned(), port: 80 }],
        ready_endpoints: Some(2),
        ..Target::default()
    };
    match state {
        Ready => {}
        Draining => target.drained_percent = 100,
        Stale => target.verdicts.api = Verdict::Unhealthy,
        Empty => target.ready_endpoints = Some(0),
        Unreachable => target.verdicts.edge = Verdict::Unhealthy,
    }
    target
}

fn global(backends: &[&[State]]) -> Global {
    let name = |index: usize| format!("b{index}");
    let paths = (0..backends.len()).map(|index| PathRule {
        path: format!("/{index}"),
        path_type: PathType::Prefix,
        backend: name(index),
    });
    let rules = vec![Rule { host: "shop.test".to_owned(), paths: paths.collect() }];
    let backends = backends.iter().enumerate().map(|(index, states)| {
        let clusters = ["asia", "europe", "north", "south"];
        let targets = clusters.into_iter().zip(*states);
        let targets = targets.map(|(cluster, state)| target(cluster, *state)).collect();
        Backend { name: name(index), targets }
    });
    Global { rules, backends: backends.collect(), ..Global::default() }
}

fn said(global: &Global) -> String {
    serving(Some(global), &ServingFacts::default()).to_string()
}

#[test]
fn the_answer_names_the_clusters_and_what_keeps_them_from_serving() {
    for (backends, expected) in [
        (&[&[Ready, Ready][..]][..], "SERVING: 2 of 2 clusters can serve"),
        (&[&[Ready, Empty]], "SERVING: 1 of 2 clusters can serve (europe: no ready endpoints)"),
        (
            &[&[Empty, Unreachable]],
            "NOT SERVING: 0 of 2 clusters can serve (asia: no ready endpoints; europe: unreachable)",
        ),
        (
            &[&[Empty, Stale]],
            "UNKNOWN: 0 of 2 clusters can serve (asia: no ready endpoints; europe: unknown, API unreachable)",
        ),
        (
            &[&[Draining, Stale]],
            "DEGRADED: 0 of 2 clusters can serve (asia: drained; europe: unknown, API unreachable)",
        ),
        (
            &[&[Ready, Ready], &[Empty, Ready]],
            "SERVING: 1 of 2 clusters can serve each of 2 backends",
        ),
        (
            &[&[Ready, Ready], &[Empty, Empty]],
            "DEGRADED: backend b1: 0 of 2 clusters can serve (asia: no ready endpoints; europe: no ready endpoints)",
        ),
    ] {
        assert_eq!(said(&global(backends)), expected);
    }
}

#[test]
fn a_lost_kind_is_named() {
    let mut global = global(&[&[Ready]]);
    global.backends[0].targets[0].verdicts.lost_kind = Some("EndpointSlice".to_owned());
    let expected = "UNKNOWN: 0 of 1 clusters can serve (asia: unknown, the watch of EndpointSlice objects fails)";
    assert_eq!(said(&global), expected);
}

#[test]
fn hosts_certificates_and_gateways_count() {
    let ready = global(&[&[Ready]]);
    let hosts = ["host a.test belongs to another root".to_owned()];
    let certificates = ["host shop.test has no certificate".to_owned()];
    let facts = ServingFacts::default();
    for (facts, expected) in [
        (facts, ServingVerdict::Serving),
        (ServingFacts { refused_hosts: &hosts, ..facts }, ServingVerdict::Degraded),
        (ServingFacts { missing_certificates: &certificates, ..facts }, ServingVerdict::Degraded),
        (ServingFacts { gateways: GatewayLiveness::Alive, ..facts }, ServingVerdict::Serving),
        (ServingFacts { gateways: GatewayLiveness::Silent, ..facts }, ServingVerdict::Unknown),
    ] {
        assert_eq!(serving(Some(&ready), &facts).verdict, expected, "{facts:?}");
    }
    let refused = ServingFacts { refused_hosts: &hosts, ..facts };
    for without in [None, Some(&Global::default())] {
        let said = serving(without, &refused).to_string();
        assert_eq!(said, "NOT SERVING: host a.test belongs to another root");
        assert_eq!(serving(without, &facts).verdict, ServingVerdict::NotServing);
    }
}

#[test]
fn a_backend_that_is_not_compiled_fails() {
    let mut global = global(&[&[Ready]]);
    global.default_backend = Some("gone:80".to_owned());
    assert_eq!(said(&global), "DEGRADED: backend gone:80 is not compiled");
}

#[test]
fn strict_weights_and_residency_keep_ready_clusters_from_serving() {
    let mut global = global(&[&[Ready, Empty]]);
    let clusters = [("asia".to_owned(), 0), ("europe".to_owned(), 1)].into();
    global.traffic.split = Some(Split { clusters, ..Split::default() });
    assert_eq!(serving(Some(&global), &ServingFacts::default()).verdict, ServingVerdict::Serving);
    global.traffic.strict = true;
    let verdict = serving(Some(&global), &ServingFacts::default()).verdict;
    assert_eq!(verdict, ServingVerdict::NotServing);
    let residency = vec![Residency { allow: vec!["eu".to_owned()], ..Residency::default() }];
    global.traffic = TrafficRules { residency, ..TrafficRules::default() };
    let verdict = serving(Some(&global), &ServingFacts::default()).verdict;
    assert_eq!(verdict, ServingVerdict::NotServing);
}

fn state() -> impl Strategy<Value = State> {
    prop::sample::select(vec![Ready, Draining, Stale, Empty, Unreachable])
}

proptest! {
    #[test]
    fn the_verdict_is_that_of_the_targets_that_requests_meet(
        backends in prop::collection::vec(prop::collection::vec(state(), 0..4), 1..4),
        weights in prop::option::of(prop::collection::vec(0_u32..3, 4)), strict in any::<bool>(),
    ) {
        let states: Vec<&[State]> = backends.iter().map(Vec::as_slice).collect();
        let mut global = global(&states);
        let names = ["asia", "europe", "north", "south"].map(str::to_owned);
        global.traffic.strict = strict;
        global.traffic.split = weights.map(|weights| Split {
            clusters: names.into_iter().zip(weights).collect(),
            ..Split::default()
        });
        let picked = |backend: &Backend| {
            let plan = Plan::new(backend, &global.traffic, &Locality::default());
            let sight = |at: usize| readiness(&backend.targets[at], OwnKnowledge::None);
            let decided = plan.decide(sight, &mut Memory::new(&plan), Ask::default());
            decided.map(|decided| decided.readiness)
        };
        let picked: Vec<Option<Readiness>> = global.backends.iter().map(picked).collect();
        let any = |wanted: Readiness| picked.contains(&Some(wanted));
        let serves = any(Readiness::Ready) || any(Readiness::Draining);
        let expected = if picked.iter().all(|picked| *picked == Some(Readiness::Ready)) {
            ServingVerdict::Serving
        } else if serves {
            ServingVerdict::Degraded
        } else if any(Readiness::Stale) {
            ServingVerdict::Unknown
        } else {
            ServingVerdict::NotServing
        };
        prop_assert_eq!(serving(Some(&global), &ServingFacts::default()).verdict, expected);
    }
}
