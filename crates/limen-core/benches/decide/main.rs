//! What one decision costs, with 50 clusters: `just bench-traffic`.

use std::cell::Cell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use limen_core::decide::{
    Ask, Claim, Memory, Plan, Readiness, Sight, Vantage, capacity, divide, meter,
};
use limen_core::global::{Address, Backend, Capacity, Residency, Split, Target, TrafficRules};
use limen_core::locality::{Coordinates, Locality};

const CLUSTERS: usize = 50;
/// Rounds are many and short, so that some of them are not interrupted on a busy machine.
const ROUNDS: usize = 1000;
const DECISIONS: u32 = 1000;

/// Targets with their readiness and room, kept as a gateway keeps them.
struct Seen {
    states: Vec<Readiness>,
    allowed: Vec<f64>,
    next: Vec<Cell<u64>>,
    now: Cell<u64>,
}

impl Sight for &Seen {
    fn readiness(&self, target: usize) -> Readiness {
        self.states[target]
    }

    fn take(&self, target: usize) -> bool {
        let later = meter(self.next[target].get(), self.now.get(), self.allowed[target]);
        later.map(|later| self.next[target].set(later)).is_some()
    }
}

fn backend() -> Backend {
    let target = |index: usize| Target {
        cluster: format!("cluster-{index}"),
        locality: Locality {
            region: Some(format!("region-{}", index % 10)),
            zone: None,
            coordinates: Some(Coordinates {
                latitude: (index * 37 % 120) as f64 - 60.0,
                longitude: (index * 97 % 360) as f64 - 180.0,
            }),
        },
        addresses: vec![Address { host: format!("10.0.0.{index}"), port: 80 }],
        group: Some(if index.is_multiple_of(10) { "v2" } else { "v1" }.to_owned()),
        capacity: Capacity { requests_per_second: Some(1000.0) },
        ..Target::default()
    };
    Backend { name: "web:80".to_owned(), targets: (0..CLUSTERS).map(target).collect() }
}

struct Case {
    name: &'static str,
    rules: TrafficRules,
    ask: Ask,
    /// How many of the nearest are not ready.
    unready: usize,
    /// How many of the nearest have no room.
    full: usize,
}

fn cases() -> Vec<Case> {
    let plain = |name| Case {
        name,
        rules: TrafficRules::default(),
        ask: Ask::default(),
        unready: 0,
        full: 0,
    };
    let groups = [("v1".to_owned(), 99), ("v2".to_owned(), 1)].into();
    let split = Some(Split { groups, ..Split::default() });
    let rule =
        Residency { clients: vec!["de".into()], deny: vec!["region-3".into()], allow: vec![] };
    let all = TrafficRules { split, residency: vec![rule; 4], ..TrafficRules::default() };
    vec![
        plain("the nearest"),
        Case { rules: all.clone(), ..plain("split and residency") },
        Case { unready: 5, full: 5, ..plain("the 5 nearest gone, the next 5 full") },
        Case { full: CLUSTERS, ..plain("all full") },
        Case { unready: CLUSTERS, ..plain("all gone") },
        Case { ask: Ask { key: Some(7), ..Ask::default() }, ..plain("a client that stays") },
        Case {
            rules: all,
            ask: Ask { key: Some(7), residency: 15, ..Ask::default() },
            unready: 5,
            full: 5,
            ..plain("everything at once")
        },
    ]
}

fn measure(case: &Case) -> Duration {
    let backend = backend();
    let here = Locality {
        region: None,
        zone: None,
        coordinates: Some(Coordinates { latitude: 52.5, longitude: 13.4 }),
    };
    let plan = Plan::new(&backend, &case.rules, &here);
    let mut seen = Seen {
        states: vec![Readiness::Ready; CLUSTERS],
        allowed: vec![1e12; CLUSTERS],
        next: (0..CLUSTERS).map(|_| Cell::new(0)).collect(),
        now: Cell::new(0),
    };
    for (place, (target, _)) in plan.preferred().enumerate() {
        if place < case.unready {
            seen.states[target] = Readiness::Unhealthy;
        } else if place < case.unready + case.full {
            // It gets what it may have, and is far ahead of that.
            seen.allowed[target] = 1000.0;
            seen.next[target].set(u64::MAX / 2);
        }
    }
    let mut memory = Memory::new(&plan);
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..DECISIONS {
            seen.now.set(seen.now.get() + 1000);
            black_box(plan.decide(&seen, &mut memory, black_box(case.ask)));
        }
        best = best.min(start.elapsed() / DECISIONS);
    }
    best
}

/// What a gateway computes twice a second for a backend whose clusters have capacities.
fn measure_division(edges: usize) -> Duration {
    let (backend, rules) = (backend(), TrafficRules::default());
    let plan = |edge: usize| {
        let here = backend.targets[edge * 3 % CLUSTERS].locality.clone();
        Plan::seen_from(&backend, &rules, &Vantage { here, ..Vantage::default() })
    };
    let plans: Vec<Plan> = (0..edges).map(plan).collect();
    let claim = |plan| Claim { plan, residency: 0, demand: 3000.0 };
    let claims: Vec<Claim<'_>> = plans.iter().map(claim).collect();
    let capacities: Vec<_> =
        backend.targets.iter().map(|target| capacity(target, &rules)).collect();
    let ready = |_: usize| Readiness::Ready;
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        black_box(divide(&claims, &capacities, &ready));
        best = best.min(start.elapsed());
    }
    best
}

fn main() {
    println!(
        "One decision with {CLUSTERS} clusters, the best of {ROUNDS} rounds of {DECISIONS}:\n"
    );
    println!("| decision | time |\n| --- | ---: |");
    for case in cases() {
        println!("| {} | {} ns |", case.name, measure(&case).as_nanos());
    }
    println!("\nDividing the capacities of {CLUSTERS} clusters, twice a second:\n");
    println!("| gateways | time |\n| --- | ---: |");
    for edges in [1, 3, 16] {
        println!("| {edges} | {:.1} µs |", measure_division(edges).as_secs_f64() * 1e6);
    }
}
