//! Decisions as tables and laws.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

mod laws;
mod rules;
mod words;

use crate::compile::Policy;
use crate::global::{Address, Backend, Outliers, Split, Target, TrafficRules, Verdict, Verdicts};
use crate::locality::Locality;

fn target(cluster: &str, place: &str) -> Target {
    Target {
        cluster: cluster.into(),
        locality: Locality { region: None, zone: None, coordinates: Some(place.parse().unwrap()) },
        addresses: vec![Address { host: "10.0.0.1".into(), port: 80 }],
        ..Target::default()
    }
}

fn berlin() -> Locality {
    target("", "52.5,13.4").locality
}

fn backend() -> Backend {
    let targets = vec![
        target("tokyo", "35.7,139.7"),
        target("paris", "48.9,2.4"),
        target("york", "40.7,-74"),
    ];
    Backend { name: "web:80".into(), targets }
}

/// How often each target is chosen in this many requests.
fn counts(plan: &Plan, states: &[Readiness], ask: Ask, requests: usize) -> Vec<usize> {
    let mut memory = Memory::new(plan);
    let mut counts = vec![0; plan.targets()];
    for _ in 0..requests {
        counts[plan.decide(|target| states[target], &mut memory, ask).unwrap().target] += 1;
    }
    counts
}

use Readiness::{Draining, Ready, Stale, Unhealthy};

#[test]
fn the_nearest_ready_cluster_gets_everything() {
    let plan = Plan::new(&backend(), &TrafficRules::default(), &berlin());
    assert_eq!(counts(&plan, &[Ready, Ready, Ready], Ask::default(), 10), [0, 10, 0]);
    assert_eq!(counts(&plan, &[Ready, Unhealthy, Ready], Ask::default(), 10), [0, 0, 10]);
    assert_eq!(plan.preferred().collect::<Vec<_>>(), [(1, 0), (2, 1), (0, 2)]);
}

#[test]
fn what_is_not_ready_is_fallen_back_to_worst_last() {
    let plan = Plan::new(&backend(), &TrafficRules::default(), &berlin());
    for (states, target, readiness) in [
        ([Draining, Stale, Unhealthy], 0, Draining),
        ([Unhealthy, Stale, Unhealthy], 1, Stale),
        ([Unhealthy, Unhealthy, Unhealthy], 1, Unhealthy),
    ] {
        let decided =
            plan.decide(|target| states[target], &mut Memory::new(&plan), Ask::default()).unwrap();
        assert_eq!(decided, Decision { target, readiness, room: Room::Enough });
    }
}

#[test]
fn a_split_of_one_in_a_hundred_is_exact_whatever_the_geography() {
    let mut backend = backend();
    backend.targets[1].group = Some("v1".into());
    backend.targets[2].group = Some("v1".into());
    backend.targets[0].group = Some("v2".into());
    let groups = BTreeMap::from([("v1".to_owned(), 99), ("v2".to_owned(), 1)]);
    let split = Some(Split { groups, ..Split::default() });
    let plan = Plan::new(&backend, &TrafficRules { split, ..TrafficRules::default() }, &berlin());
    assert_eq!(counts(&plan, &[Ready; 3], Ask::default(), 100), [1, 99, 0]);
    assert_eq!(counts(&plan, &[Ready; 3], Ask::default(), 1000), [10, 990, 0]);
    assert_eq!(counts(&plan, &[Unhealthy, Ready, Ready], Ask::default(), 100), [0, 100, 0]);
    let asked = Ask { group: plan.group("v2"), ..Ask::default() };
    assert_eq!(counts(&plan, &[Ready; 3], asked, 100), [100, 0, 0]);
}

#[test]
fn clusters_that_a_split_does_not_name_get_nothing_while_a_named_one_is_as_ready() {
    let clusters = BTreeMap::from([("tokyo".to_owned(), 1), ("york".to_owned(), 3)]);
    let split = Some(Split { clusters, ..Split::default() });
    let rules = TrafficRules { split, ..TrafficRules::default() };
    let plan = Plan::new(&backend(), &rules, &berlin());
    assert_eq!(counts(&plan, &[Ready; 3], Ask::default(), 100), [25, 0, 75]);
    assert_eq!(counts(&plan, &[Unhealthy; 3], Ask::default(), 100), [25, 0, 75]);
    assert_eq!(counts(&plan, &[Unhealthy, Ready, Unhealthy], Ask::default(), 100), [0, 100, 0]);
}

#[test]
fn a_promoted_canary_that_fails_falls_back_to_the_groups_of_weight_0() {
    let mut backend = backend();
    backend.targets[0].group = Some("v2".into());
    backend.targets[1].group = Some("v1".into());
    backend.targets[2].group = Some("v1".into());
    let with = |strict: bool| {
        let policy = json!({"groups": [{"name": "v1"}, {"name": "v2"}], "strict": strict,
            "canary": {"group": "v2", "steps": [10], "stepSeconds": 60}});
        // Promoted: the canary gets everything.
        serde_json::from_value::<Policy>(policy).unwrap().rules(Some(100))
    };
    let fallback = Plan::new(&backend, &with(false), &berlin());
    let strict = Plan::new(&backend, &with(true), &berlin());
    for (states, expected, expected_strict) in [
        ([Ready, Ready, Ready], [10, 0, 0], [10, 0, 0]),
        // The nearest of weight 0, and then the next.
        ([Unhealthy, Ready, Ready], [0, 10, 0], [10, 0, 0]),
        ([Unhealthy, Unhealthy, Ready], [0, 0, 10], [10, 0, 0]),
        // Weighted targets come first at each level of readiness.
        ([Stale, Stale, Unhealthy], [10, 0, 0], [10, 0, 0]),
        ([Stale, Draining, Unhealthy], [0, 10, 0], [10, 0, 0]),
        ([Unhealthy, Unhealthy, Unhealthy], [10, 0, 0], [10, 0, 0]),
    ] {
        for key in [None, Some(7)] {
            let ask = Ask { key, ..Ask::default() };
            assert_eq!(counts(&fallback, &states, ask, 10), expected, "{states:?}");
            assert_eq!(counts(&strict, &states, ask, 10), expected_strict, "{states:?}");
        }
    }
    let retry = Ask { tried: 0b001, ..Ask::default() };
    assert_eq!(counts(&fallback, &[Ready; 3], retry, 10), [0, 10, 0]);
    assert_eq!(counts(&strict, &[Ready; 3], retry, 10), [10, 0, 0]);
}

#[test]
fn a_failover_order_replaces_the_distance() {
    let failover = vec!["york".to_owned(), "tokyo".to_owned()];
    let rules = TrafficRules { failover, ..TrafficRules::default() };
    let plan = Plan::new(&backend(), &rules, &berlin());
    assert_eq!(counts(&plan, &[Ready; 3], Ask::default(), 10), [0, 0, 10]);
    assert_eq!(counts(&plan, &[Ready, Ready, Unhealthy], Ask::default(), 10), [10, 0, 0]);
    assert_eq!(counts(&plan, &[Unhealthy, Ready, Unhealthy], Ask::default(), 10), [0, 10, 0]);
}

#[test]
fn equally_near_clusters_share_by_ready_endpoints() {
    let mut backend = backend();
    for (target, ready) in backend.targets.iter_mut().zip([1, 2, 7]) {
        target.locality = Locality::default();
        target.ready_endpoints = Some(ready);
    }
    let plan = Plan::new(&backend, &TrafficRules::default(), &berlin());
    assert_eq!(counts(&plan, &[Ready; 3], Ask::default(), 100), [10, 20, 70]);
}

#[test]
fn a_partial_drain_takes_away_exactly_its_share() {
    let mut backend = backend();
    backend.targets[1].drained_percent = 30;
    let plan = Plan::new(&backend, &TrafficRules::default(), &berlin());
    assert_eq!(counts(&plan, &[Ready; 3], Ask::default(), 100), [0, 70, 30]);
    assert_eq!(counts(&plan, &[Unhealthy, Ready, Unhealthy], Ask::default(), 10), [0, 10, 0]);
}

#[test]
fn a_retry_goes_elsewhere_while_there_is_an_elsewhere() {
    let plan = Plan::new(&backend(), &TrafficRules::default(), &berlin());
    let tried = |tried| Ask { tried, ..Ask::default() };
    assert_eq!(counts(&plan, &[Ready; 3], tried(0b010), 10), [0, 0, 10]);
    assert_eq!(counts(&plan, &[Unhealthy, Ready, Unhealthy], tried(0b010), 10), [0, 0, 10]);
    assert_eq!(counts(&plan, &[Ready; 3], tried(0b111), 10), [0, 10, 0]);
}

#[test]
fn what_the_edge_sees_outweighs_what_it_was_told() {
    let healthy = target("paris", "48.9,2.4");
    let with = |change: fn(&mut Target)| {
        let mut target = healthy.clone();
        change(&mut target);
        target
    };
    let unreachable = |target: &mut Target| target.verdicts.api = Verdict::Unhealthy;
    for (target, own, expected) in [
        (healthy.clone(), OwnKnowledge::None, Ready),
        (healthy.clone(), OwnKnowledge::Silent, Unhealthy),
        (with(unreachable), OwnKnowledge::None, Stale),
        (with(unreachable), OwnKnowledge::Answers, Ready),
        (with(|target| target.ready_endpoints = Some(0)), OwnKnowledge::Answers, Unhealthy),
        (with(|target| target.drained_percent = 100), OwnKnowledge::Answers, Draining),
        (with(|target| target.addresses.clear()), OwnKnowledge::None, Unhealthy),
        (
            with(|target| {
                target.verdicts = Verdicts { edge: Verdict::Unhealthy, ..Verdicts::default() };
            }),
            OwnKnowledge::None,
            Unhealthy,
        ),
        (
            with(|target| {
                target.ready_endpoints = Some(0);
                target.verdicts.api = Verdict::Unhealthy;
            }),
            OwnKnowledge::Answers,
            Ready,
        ),
    ] {
        assert_eq!(readiness(&target, own), expected, "{target:?} {own:?}");
    }
}

#[test]
fn two_choices_prefer_who_has_less_to_do_and_skip_who_must_not_be_chosen() {
    let loads = [Some(5), None, Some(1)];
    for random in 0..1000_u64 {
        let random = random.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let chosen = two_choices(3, random, |index| loads[index]).unwrap();
        assert!(loads[chosen].is_some());
        assert_eq!(two_choices(2, random, |index| [Some(2), Some(9)][index]), Some(0));
        assert_eq!(two_choices(5, random, |_| None), None);
    }
    assert_eq!(two_choices(0, 7, |_| Some(1)), None);
    assert_eq!(two_choices(1, 7, |_| Some(1)), Some(0));
}

#[test]
fn an_outlier_is_ejected_comes_back_on_probation_and_is_trusted_again() {
    let rules = Outliers { consecutive_failures: 3, eject_seconds: 10, max_ejected_percent: 50 };
    let mut outlier = Outlier::default();
    assert!(!outlier.failed(&rules, 0, || true));
    outlier.succeeded();
    for _ in 0..2 {
        assert!(!outlier.failed(&rules, 0, || true));
    }
    assert!(outlier.failed(&rules, 0, || true));
    assert_eq!(outlier.ejected_until(), 10_000);
    assert!(!outlier.failed(&rules, 5_000, || true), "what was on its way does not count");

    assert!(outlier.failed(&rules, 11_000, || true), "one failure on probation is enough");
    assert_eq!(outlier.ejected_until(), 31_000, "and longer this time");
    for _ in 0..3 {
        assert!(!outlier.is_trusted());
        outlier.succeeded();
    }
    assert!(outlier.is_trusted());
}

#[test]
fn not_too_many_are_ejected_at_once() {
    let rules = Outliers { max_ejected_percent: 50, ..Outliers::default() };
    for (ejected, total, may) in
        [(0, 1, false), (0, 2, true), (1, 2, false), (0, 3, true), (1, 3, false), (1, 4, true)]
    {
        assert_eq!(may_eject(&rules, ejected, total), may, "{ejected} of {total}");
    }
}

#[test]
fn retries_are_a_share_of_requests() {
    let mut budget = RetryBudget::new(20);
    while budget.retry() {}
    for _ in 0..50 {
        budget.request();
    }
    let retries = (0..100).filter(|_| budget.retry()).count();
    assert_eq!(retries, 10);
    assert!(!RetryBudget::new(0).retry());
}

proptest! {
    #[test]
    fn smooth_weights_are_exact_in_every_round(weights in prop::collection::vec(0_u32..50, 1..8)) {
        let round: u32 = weights.iter().sum();
        let mut turns = SmoothWeights::new(weights.len());
        for _ in 0..3 {
            let mut counts = vec![0; weights.len()];
            for _ in 0..round {
                counts[turns.next(|index| weights[index]).unwrap()] += 1;
            }
            prop_assert_eq!(&counts, &weights);
        }
        prop_assert_eq!(turns.next(|_| 0), None);
    }

    #[test]
    fn an_answer_is_never_empty_and_never_worse_than_needed(
        states in prop::collection::vec(0_usize..4, 1..6),
        tried in 0_u64..64,
    ) {
        let targets = states.iter().enumerate().map(|(index, _)| {
            target(&format!("c{index}"), &format!("{},0", index * 7))
        });
        let backend = Backend { name: String::new(), targets: targets.collect() };
        let plan = Plan::new(&backend, &TrafficRules::default(), &berlin());
        let state = |target: usize| Readiness::ALL[states[target]];
        let decided = plan.decide(state, &mut Memory::new(&plan), Ask { tried, ..Ask::default() });
        let decided = decided.unwrap();
        prop_assert_eq!(decided.readiness, state(decided.target));
        let open = |index: &usize| tried & (1 << index) == 0;
        let best = (0..states.len()).filter(open).map(state).min();
        let best = best.unwrap_or_else(|| (0..states.len()).map(state).min().unwrap());
        prop_assert_eq!(decided.readiness, best);
    }
}
