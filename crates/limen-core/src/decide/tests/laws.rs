//! What must hold whatever the clusters, edges, weights and clients.

use proptest::collection::vec;

use super::*;
use crate::global::{Capacity, Residency};

/// A world: clusters with place, region, capacity and readiness; edges with place and demand.
#[derive(Clone, Debug)]
struct World {
    backend: Backend,
    states: Vec<Readiness>,
    edges: Vec<(Locality, f64)>,
}

fn place(at: (f64, f64)) -> Locality {
    let (latitude, longitude) = at;
    let region = Some(["eu", "us", "ap"][(longitude.abs() as usize) % 3].to_owned());
    let coordinates = Some(crate::locality::Coordinates { latitude, longitude });
    Locality { region, zone: None, coordinates }
}

fn somewhere() -> impl Strategy<Value = Locality> {
    (-80.0..80.0, -179.0..179.0).prop_map(place)
}

fn clusters() -> impl Strategy<Value = (Backend, Vec<Readiness>)> {
    let cluster = (somewhere(), prop::option::of(0.0..500.0), 0_usize..4, 0_u32..9, 0_usize..3);
    vec(cluster, 1..9).prop_map(|clusters| {
        let mut targets = Vec::new();
        let mut states = Vec::new();
        for (index, (locality, capacity, state, ready, group)) in clusters.into_iter().enumerate() {
            let mut target = target(&format!("c{index}"), "0,0");
            target.locality = locality;
            target.capacity = Capacity { requests_per_second: capacity };
            target.ready_endpoints = Some(ready);
            target.group = Some(["v1", "v2", "v3"][group].to_owned());
            targets.push(target);
            states.push(Readiness::ALL[state]);
        }
        (Backend { name: "web".into(), targets }, states)
    })
}

fn world() -> impl Strategy<Value = World> {
    let edges = vec((somewhere(), 0.0..600.0), 1..5);
    (clusters(), edges).prop_map(|((backend, states), edges)| World { backend, states, edges })
}

fn rules() -> impl Strategy<Value = TrafficRules> {
    // Groups of weight 0 are the ones that weighted groups fall back to.
    let weight = prop_oneof![Just(0), 1_u32..100];
    let split = prop::option::of(vec(weight, 3));
    let residency = vec((0_usize..4, 0_usize..4, 0_usize..4), 0..3);
    (split, residency, any::<bool>()).prop_map(|(split, residency, strict)| {
        let name = |index: usize| match index {
            3 => Vec::new(),
            index => vec![["eu", "us", "ap"][index].to_owned()],
        };
        let residency = residency.into_iter().map(|(clients, allow, deny)| Residency {
            clients: name(clients),
            allow: name(allow),
            deny: name(deny),
        });
        let split = split.map(|weights| Split {
            groups: ["v1", "v2", "v3"].map(str::to_owned).into_iter().zip(weights).collect(),
            ..Split::default()
        });
        TrafficRules { split, strict, residency: residency.collect(), ..TrafficRules::default() }
    })
}

fn divided(world: &World, rules: &TrafficRules) -> (Vec<Plan>, Division) {
    let plan = |(here, _): &(Locality, f64)| Plan::new(&world.backend, rules, here);
    let plans: Vec<Plan> = world.edges.iter().map(plan).collect();
    let claims: Vec<Claim<'_>> = plans
        .iter()
        .zip(&world.edges)
        .map(|(plan, (here, demand))| {
            let residency = plan.residency(&[here.region.as_deref().unwrap()]);
            Claim { plan, residency, demand: *demand }
        })
        .collect();
    let capacity: Vec<_> =
        world.backend.targets.iter().map(|target| capacity(target, rules)).collect();
    let division = divide(&claims, &capacity, &|target: usize| world.states[target]);
    (plans.clone(), division)
}

fn held(plan: &Plan, here: &Locality) -> u64 {
    plan.residency(&[here.region.as_deref().unwrap()])
}

proptest! {
    #[test]
    fn shares_sum_to_one_unless_there_is_nowhere_to_go(world in world(), rules in rules()) {
        let (plans, division) = divided(&world, &rules);
        for (edge, (here, demand)) in world.edges.iter().enumerate() {
            let plan = &plans[edge];
            let anywhere = (0..plan.targets()).any(|target| {
                plan.allows(target, held(plan, here))
                    && plan.may_serve(target)
            });
            let sent: f64 =
                division.expected[edge].iter().chain(&division.crowded[edge]).sum();
            let wanted = if anywhere { *demand } else { 0.0 };
            prop_assert!((sent - wanted).abs() < 1e-6 * (1.0 + wanted), "{sent} of {wanted}");
        }
    }

    #[test]
    fn while_any_target_is_ready_no_request_goes_to_a_worse_one(
        world in world(), rules in rules(), tried in 0_u64..512, key in prop::option::of(any::<u64>()),
        stay in prop::option::of(0_u16..8), group in prop::option::of(0_u16..3),
    ) {
        let plan = Plan::new(&world.backend, &rules, &world.edges[0].0);
        let ask = Ask { tried, key, stay, group, residency: plan.residency(&["eu"]) };
        let state = |target: usize| world.states[target];
        let Some(decided) = plan.decide(state, &mut Memory::new(&plan), ask) else { return Ok(()) };
        let group = |target: usize| world.backend.targets[target].group.clone();
        let asked = |target: usize| {
            group(target).is_some_and(|name| plan.group(&name) == ask.group)
        };
        let eligible = |target: &usize| {
            plan.allows(*target, ask.residency)
                && (plan.may_serve(*target) || asked(*target))
        };
        let all: Vec<usize> = (0..plan.targets()).filter(eligible).collect();
        let untried = |target: &&usize| tried & (1 << **target) == 0;
        let mut left: Vec<usize> = all.iter().filter(untried).copied().collect();
        if left.is_empty() {
            left = all;
        }
        let best = left.iter().map(|target| state(*target)).min();
        prop_assert_eq!(Some(decided.readiness), best);
        if !plan.has_weight(decided.target) && !asked(decided.target) {
            let weighted = left.iter().find(|target| {
                Some(state(**target)) == best && plan.has_weight(**target)
            });
            prop_assert_eq!(weighted, None, "a weighted target at the same level comes first");
        }
    }

    #[test]
    fn capacity_is_divided_among_the_targets_that_requests_meet(
        world in world(), rules in rules(),
    ) {
        let (plans, division) = divided(&world, &rules);
        for (edge, (here, _)) in world.edges.iter().enumerate() {
            let plan = &plans[edge];
            let ask = Ask { residency: held(plan, here), ..Ask::default() };
            let state = |target: usize| world.states[target];
            let decided = plan.decide(state, &mut Memory::new(plan), ask);
            for target in 0..plan.targets() {
                let sent = division.expected[edge][target] + division.crowded[edge][target];
                prop_assert!(sent == 0.0 || Some(state(target)) == decided.map(|it| it.readiness));
                let decided_weight = decided.map(|it| plan.has_weight(it.target));
                prop_assert!(sent == 0.0 || Some(plan.has_weight(target)) == decided_weight);
            }
        }
    }

    #[test]
    fn no_cluster_is_asked_for_more_than_it_can_while_another_has_room(
        world in world(), rules in rules(),
    ) {
        let (plans, division) = divided(&world, &rules);
        for (target, of) in world.backend.targets.iter().enumerate() {
            let Some(capacity) = capacity(of, &rules) else { continue };
            let expected: f64 = division.expected.iter().map(|edge| edge[target]).sum();
            prop_assert!(expected <= capacity + 1e-6);
            let allowed: f64 = division.allowed.iter().map(|edge| edge[target]).sum();
            prop_assert!(allowed <= capacity * (1.0 + 1e-9) + 1e-6, "{allowed} of {capacity}");
        }
        for (edge, crowded) in division.crowded.iter().enumerate() {
            for (target, beyond) in crowded.iter().enumerate().filter(|(_, beyond)| **beyond > 1e-6) {
                // Whatever would do as well for the same share of the split is full too.
                let plan = &plans[edge];
                for other in 0..plan.targets() {
                    let as_good = plan.allows(other, held(plan, &world.edges[edge].0))
                        && world.states[other] == world.states[target]
                        && (plan.shares() == 0
                            || plan.targets[other].share == plan.targets[target].share);
                    if !as_good {
                        continue;
                    }
                    let used: f64 = division.expected.iter().map(|edge| edge[other]).sum();
                    let room = capacity(&world.backend.targets[other], &rules);
                    let room = room.map_or(f64::INFINITY, |room| room - used);
                    prop_assert!(room < 1e-6, "{beyond} beyond, {room} free at {other}");
                }
            }
        }
    }

    #[test]
    fn residency_is_never_broken(
        world in world(), rules in rules(), tried in 0_u64..256, key in prop::option::of(any::<u64>()),
        stay in prop::option::of(0_u16..8), client in 0_usize..3,
    ) {
        let client = ["eu", "us", "ap"][client];
        let plan = Plan::new(&world.backend, &rules, &world.edges[0].0);
        let ask = Ask { residency: plan.residency(&[client]), tried, key, stay, group: Some(0) };
        let mut memory = Memory::new(&plan);
        for _ in 0..5 {
            let decided = plan.decide(|target: usize| world.states[target], &mut memory, ask);
            let Some(decided) = decided else { break };
            let region = world.backend.targets[decided.target].locality.region.as_ref().unwrap();
            for rule in &rules.residency {
                let holds = rule.clients.is_empty() || rule.clients.iter().any(|c| c == client);
                prop_assert!(!holds || rule.allow.is_empty() || rule.allow.contains(region));
                prop_assert!(!holds || !rule.deny.contains(region));
            }
        }
    }

    #[test]
    fn weights_hold_whatever_the_geography(
        world in world(), weights in vec(0_u32..20, 3),
    ) {
        let groups: BTreeMap<String, u32> =
            ["v1", "v2", "v3"].map(str::to_owned).into_iter().zip(weights).collect();
        let split = Some(Split { groups: groups.clone(), ..Split::default() });
        let rules = TrafficRules { split, ..TrafficRules::default() };
        let plan = Plan::new(&world.backend, &rules, &world.edges[0].0);
        let present = |name: &String| {
            world.backend.targets.iter().any(|target| target.group.as_ref() == Some(name))
        };
        let round: u32 = groups.iter().filter(|(name, _)| present(name)).map(|(_, w)| w).sum();
        prop_assume!(round > 0);
        let mut memory = Memory::new(&plan);
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for _ in 0..round {
            let decided = plan.decide(|_: usize| Readiness::Ready, &mut memory, Ask::default());
            let target = &world.backend.targets[decided.unwrap().target];
            *counts.entry(target.group.clone().unwrap()).or_default() += 1;
        }
        for (name, weight) in groups.iter().filter(|(name, _)| present(name)) {
            prop_assert_eq!(counts.get(name).copied().unwrap_or(0), *weight);
        }
    }

    #[test]
    fn a_small_change_of_capacity_moves_no_more_than_it_changed(
        world in world(), which in 0_usize..8, change in -20.0..20.0_f64,
    ) {
        let mut world = World { edges: world.edges[..1].to_vec(), ..world };
        world.states.fill(Readiness::Ready);
        let which = which % world.backend.targets.len();
        let rules = TrafficRules::default();
        let (_, before) = divided(&world, &rules);
        let capacity = &mut world.backend.targets[which].capacity.requests_per_second;
        let Some(value) = capacity else { return Ok(()) };
        let changed = (*value + change).max(0.0) - *value;
        *value += changed;
        let (_, after) = divided(&world, &rules);
        // When nobody has room, where the rest goes is by size, and every part of it moves a bit.
        prop_assume!(before.crowded[0].iter().chain(&after.crowded[0]).sum::<f64>() == 0.0);
        let pairs = before.expected[0].iter().zip(&after.expected[0]);
        let moved: f64 = pairs.map(|(before, after)| (before - after).abs()).sum::<f64>() / 2.0;
        prop_assert!(moved <= changed.abs() + 1e-6, "{moved} moved for {changed}");
    }

    #[test]
    fn a_cluster_that_is_lost_moves_only_its_own_clients(
        world in world(), lost in 0_usize..8, keys in vec(any::<u64>(), 50),
    ) {
        let mut backend = world.backend;
        // Equally near, so that all of them have clients.
        backend.targets.iter_mut().for_each(|target| target.locality = Locality::default());
        let lost = lost % backend.targets.len();
        let plan = Plan::new(&backend, &TrafficRules::default(), &Locality::default());
        let mut memory = Memory::new(&plan);
        let mut ask = |key, lost: Option<usize>| {
            let state =
                |target: usize| if Some(target) == lost { Unhealthy } else { Ready };
            plan.decide(state, &mut memory, Ask { key: Some(key), ..Ask::default() }).unwrap().target
        };
        for key in keys {
            let before = ask(key, None);
            let after = ask(key, Some(lost));
            prop_assert!(before == lost || before == after);
        }
    }

    #[test]
    fn the_order_of_observations_does_not_matter(
        world in world(), rules in rules(), turn in 0_usize..8,
    ) {
        let count = world.backend.targets.len();
        let mut turned = world.clone();
        turned.backend.targets.rotate_left(turn % count);
        turned.states.rotate_left(turn % count);
        turned.edges.reverse();
        let (_, division) = divided(&world, &rules);
        let (_, other) = divided(&turned, &rules);
        for edge in 0..world.edges.len() {
            for target in 0..count {
                let there = (target + count - turn % count) % count;
                let (a, b) = (
                    division.expected[edge][target],
                    other.expected[world.edges.len() - 1 - edge][there],
                );
                prop_assert!((a - b).abs() < 1e-6, "{a} and {b}");
            }
        }
        let plan = Plan::new(&world.backend, &rules, &world.edges[0].0);
        let plan_turned = Plan::new(&turned.backend, &rules, &world.edges[0].0);
        let (mut memory, mut memory_turned) = (Memory::new(&plan), Memory::new(&plan_turned));
        for _ in 0..20 {
            let one = plan.decide(|t: usize| world.states[t], &mut memory, Ask::default());
            let two =
                plan_turned.decide(|t: usize| turned.states[t], &mut memory_turned, Ask::default());
            let name = |decided: Option<Decision>, backend: &Backend| {
                decided.map(|decided| backend.targets[decided.target].cluster.clone())
            };
            prop_assert_eq!(name(one, &world.backend), name(two, &turned.backend));
        }
    }

    #[test]
    fn an_answer_is_empty_only_when_no_target_may_serve(world in world(), rules in rules()) {
        let plan = Plan::new(&world.backend, &rules, &world.edges[0].0);
        let residency = plan.residency(&["eu"]);
        let ask = Ask { residency, ..Ask::default() };
        let decided =
            plan.decide(|target: usize| world.states[target], &mut Memory::new(&plan), ask);
        let any = (0..plan.targets()).any(|target| {
            plan.allows(target, residency) && plan.may_serve(target)
        });
        prop_assert_eq!(decided.is_some(), any);
    }
}

/// The odds that people are told are those that requests meet.
#[test]
fn decisions_keep_to_the_expected_shares() {
    let mut backend = backend();
    for (target, capacity) in backend.targets.iter_mut().zip([50.0, 100.0, 200.0]) {
        target.capacity = Capacity { requests_per_second: Some(capacity) };
    }
    let rules = TrafficRules::default();
    let plan = Plan::new(&backend, &rules, &berlin());
    let claim = Claim { plan: &plan, residency: 0, demand: 330.0 };
    let capacities: Vec<_> = backend.targets.iter().map(|of| capacity(of, &rules)).collect();
    let division = divide(&[claim], &capacities, &|_: usize| Ready);
    assert_eq!(division.expected[0], [30.0, 100.0, 200.0]);

    struct Metered<'a>(&'a [f64], &'a [std::cell::Cell<u64>], u64);
    impl Sight for Metered<'_> {
        fn readiness(&self, _: usize) -> Readiness {
            Ready
        }
        fn take(&self, target: usize) -> bool {
            let next = meter(self.1[target].get(), self.2, self.0[target]);
            next.map(|next| self.1[target].set(next)).is_some()
        }
    }
    let next: Vec<std::cell::Cell<u64>> = (0..3).map(|_| std::cell::Cell::new(0)).collect();
    let mut memory = Memory::new(&plan);
    let mut counts = [0.0_f64; 3];
    // The first second, in which meters may run ahead of themselves, is not counted.
    for index in 0..3630_u64 {
        let now = index * 10_000_000_000 / 3300;
        let sight = Metered(&division.allowed[0], &next, now);
        let decided = plan.decide(sight, &mut memory, Ask::default()).unwrap();
        counts[decided.target] += if index < 330 { 0.0 } else { 0.1 };
    }
    for (count, expected) in counts.iter().zip(&division.expected[0]) {
        assert!((count - expected).abs() <= expected * 0.05 + 1.0, "{counts:?}");
    }
}
