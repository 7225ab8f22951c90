//! Capacity, residency, affinity, panic and nearness, as tables of cases.

use std::cell::Cell;

use super::*;
use crate::global::{Capacity, HeaderMatch, Residency};

/// Targets with room for so many requests each.
struct Rooms(Vec<Cell<usize>>);

impl Sight for &Rooms {
    fn readiness(&self, _: usize) -> Readiness {
        Ready
    }

    fn take(&self, target: usize) -> bool {
        let left = self.0[target].get();
        self.0[target].set(left.saturating_sub(1));
        left > 0
    }
}

fn with_regions(mut backend: Backend) -> Backend {
    for (target, region) in backend.targets.iter_mut().zip(["asia", "eu-west", "us"]) {
        target.locality.region = Some(region.to_owned());
    }
    backend
}

#[test]
fn what_a_cluster_has_no_room_for_goes_to_the_next_nearest_and_then_to_all_by_size() {
    let mut backend = backend();
    for (target, capacity) in backend.targets.iter_mut().zip([100.0, 100.0, 200.0]) {
        target.capacity = Capacity { requests_per_second: Some(capacity) };
    }
    let plan = Plan::new(&backend, &TrafficRules::default(), &berlin());
    let rooms = Rooms([5, 10, 20].map(Cell::new).into());
    let mut memory = Memory::new(&plan);
    let mut seen = Vec::new();
    for _ in 0..35 {
        let decided = plan.decide(&rooms, &mut memory, Ask::default()).unwrap();
        seen.push((decided.target, decided.room));
    }
    assert!(seen[..10].iter().all(|seen| *seen == (1, Room::Enough)));
    assert!(seen[10..30].iter().all(|seen| *seen == (2, Room::Overflow)));
    assert!(seen[30..].iter().all(|seen| *seen == (0, Room::Overflow)));
    let crowded = Rooms([0, 0, 0].map(Cell::new).into());
    let mut counts = [0; 3];
    for _ in 0..400 {
        let decided = plan.decide(&crowded, &mut memory, Ask::default()).unwrap();
        assert_eq!(decided.room, Room::None);
        counts[decided.target] += 1;
    }
    assert_eq!(counts, [100, 100, 200]);
}

#[test]
fn residency_is_kept_even_when_nothing_else_is_left() {
    let backend = with_regions(backend());
    let rule = Residency {
        clients: vec!["eu-*".into(), "de".into()],
        allow: vec!["eu-west".into()],
        deny: Vec::new(),
    };
    let rules = TrafficRules { residency: vec![rule], ..TrafficRules::default() };
    let plan = Plan::new(&backend, &rules, &berlin());
    for (places, expected) in [(&["eu-north"][..], 1), (&["x", "de"], 1), (&["us"], 2)] {
        let ask = Ask { residency: plan.residency(places), ..Ask::default() };
        let states = [Ready, Unhealthy, Ready];
        let decided = plan.decide(|target: usize| states[target], &mut Memory::new(&plan), ask);
        assert_eq!(decided.unwrap().target, expected, "{places:?}");
    }
    let mut nowhere = backend.clone();
    nowhere.targets[1].locality.region = None;
    let plan = Plan::new(&nowhere, &rules, &berlin());
    let ask = Ask { residency: plan.residency(&["de"]), ..Ask::default() };
    assert_eq!(plan.decide(|_: usize| Ready, &mut Memory::new(&plan), ask), None);
}

#[test]
fn a_client_stays_where_it_was_while_that_is_ready_and_has_a_weight() {
    let plan = Plan::new(&backend(), &TrafficRules::default(), &berlin());
    let ask = Ask { key: Some(7), stay: Some(0), ..Ask::default() };
    assert_eq!(counts(&plan, &[Ready; 3], ask, 10), [10, 0, 0]);
    assert_eq!(counts(&plan, &[Unhealthy, Ready, Ready], ask, 10), [0, 10, 0]);
    let clusters = BTreeMap::from([("tokyo".to_owned(), 0), ("york".to_owned(), 1)]);
    let split = Some(Split { clusters, ..Split::default() });
    let rules = TrafficRules { split, ..TrafficRules::default() };
    let plan = Plan::new(&backend(), &rules, &berlin());
    assert_eq!(counts(&plan, &[Ready; 3], ask, 10), [0, 0, 10]);
}

#[test]
fn a_rule_on_headers_may_want_only_some_requests() {
    let mut backend = backend();
    backend.targets[0].group = Some("v2".into());
    let rule = HeaderMatch {
        header: Some("x-beta".into()),
        percent: Some(25),
        group: "v2".into(),
        ..HeaderMatch::default()
    };
    let split = Some(Split { matches: vec![rule], ..Split::default() });
    let plan = Plan::new(&backend, &TrafficRules { split, ..TrafficRules::default() }, &berlin());
    let mut memory = Memory::new(&plan);
    let taken = (0..100).filter(|_| plan.matched(0, &mut memory).is_some()).count();
    assert_eq!(taken, 25);
}

#[test]
fn when_too_few_are_ready_health_is_not_believed() {
    let rules = TrafficRules { panic_percent: Some(50), ..TrafficRules::default() };
    let plan = Plan::new(&backend(), &rules, &berlin());
    assert_eq!(counts(&plan, &[Ready, Unhealthy, Ready], Ask::default(), 10), [0, 0, 10]);
    assert_eq!(counts(&plan, &[Ready, Unhealthy, Unhealthy], Ask::default(), 10), [0, 10, 0]);
    assert_eq!(counts(&plan, &[Ready, Draining, Unhealthy], Ask::default(), 10), [10, 0, 0]);
}

#[test]
fn what_was_measured_beats_what_the_map_says() {
    let measured = |latencies: &[(&str, f64)]| {
        let latencies = latencies.iter().map(|(name, value)| ((*name).to_owned(), *value));
        let from = Vantage { here: berlin(), latencies: latencies.collect() };
        let plan = Plan::seen_from(&backend(), &TrafficRules::default(), &from);
        plan.preferred().collect::<Vec<_>>()
    };
    assert_eq!(measured(&[]), [(1, 0), (2, 1), (0, 2)]);
    assert_eq!(measured(&[("paris", 200.0)]), [(2, 0), (0, 1), (1, 2)]);
    let near = measured(&[("tokyo", 100.0), ("paris", 105.0), ("york", 300.0)]);
    assert_eq!(near, [(1, 0), (0, 0), (2, 1)], "a twentieth more is as near");
    assert_eq!(measured(&[("tokyo", 3.0)]), measured(&[]), "no light is that fast");
}

#[test]
fn an_allowance_falls_at_once_and_comes_back_slowly() {
    assert_eq!(ramp(100.0, 20.0, 100.0, 1.0), 20.0);
    assert_eq!(ramp(20.0, 100.0, 100.0, 1.0), 45.0);
    assert_eq!(ramp(45.0, 47.0, 100.0, 1.0), 45.0, "not for a trifle");
    assert_eq!(ramp(98.0, 100.0, 100.0, 1.0), 100.0);
}

#[test]
fn clients_that_ask_at_the_same_moment_find_room_together() {
    let mut next = 0;
    for moment in 0..50 {
        // Eight at once, five times a second, where there is room for a hundred.
        for _ in 0..8 {
            next = meter(next, moment * 200_000_000, 100.0).expect("there is room");
        }
    }
}

#[test]
fn a_meter_lets_through_its_rate() {
    for rate in [3.0, 100.0, 12_345.0] {
        let (mut next, mut passed) = (0, 0_u32);
        // Four times as many ask as may.
        let asked = (rate * 40.0) as u64;
        for index in 0..asked {
            if let Some(later) = meter(next, index * 10_000_000_000 / asked, rate) {
                (next, passed) = (later, passed + 1);
            }
        }
        let expected = rate * 10.25;
        assert!((f64::from(passed) - expected).abs() <= expected * 0.01 + 2.0, "{passed}");
    }
    assert_eq!(meter(0, 0, 0.0), None);
    assert_eq!(meter(0, 0, f64::NAN), None);
}

#[test]
fn what_was_taken_at_a_low_rate_is_paid_at_the_rate_of_now() {
    const SECOND: u64 = 1_000_000_000;
    let next = meter(0, 0, 0.001).unwrap();
    assert_eq!(next, 1000 * SECOND);
    assert_eq!(remeter(next, SECOND, 0.001), next, "the same rate: the same is owed");
    for nothing in [0.0, f64::NAN, 1e-300] {
        assert_eq!(remeter(next, SECOND, nothing), next, "{nothing}");
    }
    let next = remeter(next, SECOND, 100.0);
    assert_eq!(meter(next, SECOND, 100.0), None, "it is owed still");
    assert!(meter(next, 2 * SECOND, 100.0).is_some(), "and not for long");
    assert_eq!(remeter(next, 2 * SECOND, 100.0), next, "it never grows");
}

#[test]
fn load_reports_are_read_in_both_forms() {
    for (report, expected) in [
        ("TEXT cpu_utilization=0.3,application_utilization=0.8", Some(0.8)),
        ("cpu_utilization=0.3, mem_utilization=0.8", Some(0.3)),
        ("JSON {\"cpu_utilization\": 0.25}", Some(0.25)),
        ("JSON {", None),
        ("TEXT cpu_utilization=NaN", None),
        ("", None),
    ] {
        assert_eq!(utilisation(report), expected, "{report}");
    }
    assert_eq!(capacity_at(80.0, 0.8), Some(100.0));
    assert_eq!(capacity_at(80.0, 0.01), None);
}

#[test]
fn what_is_declared_is_a_ceiling_for_what_is_reported() {
    for (declared, reported, expected) in [
        (None, None, None),
        (Some(300.0), None, Some(300.0)),
        (None, Some(200.0), Some(200.0)),
        // Busier than was expected.
        (Some(300.0), Some(200.0), Some(200.0)),
        // Idle, and yet somebody has said that it is enough.
        (Some(300.0), Some(900.0), Some(300.0)),
        (Some(0.0), Some(900.0), Some(0.0)),
    ] {
        assert_eq!(known_capacity(declared, reported), expected, "{declared:?} {reported:?}");
    }
}

#[test]
fn an_explanation_names_each_rule_with_what_it_dropped() {
    let backend = with_regions(backend());
    let rule = Residency { deny: vec!["us".into()], ..Residency::default() };
    let rules = TrafficRules { residency: vec![rule], ..TrafficRules::default() };
    let plan = Plan::new(&backend, &rules, &berlin());
    let states = [Ready, Ready, Ready];
    let sight = |target: usize| states[target];
    let allowed = [None, Some(30.0), None];
    let question = Question {
        backend: &backend,
        rules: &rules,
        plan: &plan,
        sight: &sight,
        client: &["de"],
        allowed: &allowed,
        demand: 100.0,
    };
    let explained = explain(&question);
    let names: Vec<&str> = explained.steps.iter().map(|step| step.rule.as_str()).collect();
    assert_eq!(names, ["residency", "readiness", "locality"]);
    assert_eq!(explained.steps[0].dropped[0].cluster, "york");
    assert_eq!(explained.cluster.as_deref(), Some("tokyo"));
    let odds: Vec<(&str, f64)> =
        explained.odds.iter().map(|odds| (odds.cluster.as_str(), odds.share)).collect();
    assert_eq!(odds, [("tokyo", 0.7), ("paris", 0.3)]);
}
