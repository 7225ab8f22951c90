//! Gateways that decide as real ones do, one in each region of clients.

use std::cell::Cell;

use super::outcome::{Sent, Step};
use super::scenario::Scenario;
use super::world::World;
use crate::compile::{Figures, Phase, Progress};
use crate::decide::{
    Ask, Claim, Memory, OwnKnowledge, Plan, Readiness, Room, Sight, Vantage, capacity, divide,
    meter, readiness, remeter,
};
use crate::global::{Backend, Split, TrafficRules};

/// Requests of one gateway that are decided one by one in each part of a step; each stands for
/// many.
const SAMPLE: usize = 400;
const SECOND: u64 = 1_000_000_000;

pub(super) struct Gateways {
    regions: Vec<String>,
    vantages: Vec<Vantage>,
    rules: TrafficRules,
    detect: f64,
    edges: Vec<Edge>,
    /// What the plans were made of.
    made_of: (Backend, TrafficRules),
    canary: Option<Progress>,
    /// Answers of the group on trial since the step began.
    answers: f64,
    now: u64,
}

struct Edge {
    plan: Plan,
    memory: Memory,
    next: Vec<Cell<u64>>,
}

/// What a gateway sees at one moment.
struct Seen<'a> {
    states: &'a [Readiness],
    allowed: &'a [f64],
    next: &'a [Cell<u64>],
    now: u64,
}

impl Sight for Seen<'_> {
    fn readiness(&self, target: usize) -> Readiness {
        self.states[target]
    }

    fn take(&self, target: usize) -> bool {
        let later = meter(self.next[target].get(), self.now, self.allowed[target]);
        later.map(|later| self.next[target].set(later)).is_some()
    }
}

impl Gateways {
    pub(super) fn new(scenario: &Scenario, world: &World, vantages: &[Vantage]) -> Self {
        let canary = scenario.canary.as_ref().map(|trial| trial.begin(0));
        let mut gateways = Self {
            regions: scenario.clients.iter().map(|clients| clients.region.clone()).collect(),
            vantages: vantages.to_vec(),
            rules: scenario.traffic.clone(),
            detect: scenario.detect_seconds,
            edges: Vec::new(),
            made_of: Default::default(),
            canary,
            answers: 0.0,
            now: SECOND,
        };
        gateways.weigh(scenario);
        gateways.plan(&world.backend(scenario));
        gateways
    }

    /// Puts the share of a canary in force.
    fn weigh(&mut self, scenario: &Scenario) {
        let (Some(trial), Some(progress)) = (&scenario.canary, &self.canary) else { return };
        let groups = scenario.clusters.iter().filter_map(|cluster| cluster.group.as_ref());
        let split = self.rules.split.take().unwrap_or_default();
        let groups = trial.weights(groups, progress.percent);
        self.rules.split = Some(Split { groups, ..split });
    }

    fn plan(&mut self, backend: &Backend) {
        if self.made_of.0 == *backend && self.made_of.1 == self.rules {
            return;
        }
        self.made_of = (backend.clone(), self.rules.clone());
        let made = self.vantages.iter().map(|from| {
            let plan = Plan::seen_from(backend, &self.rules, from);
            let next = (0..plan.targets()).map(|_| Cell::new(0)).collect();
            Edge { memory: Memory::new(&plan), plan, next }
        });
        self.edges = made.collect();
    }

    /// Sends what clients want during a part of a step.
    pub(super) fn send(
        &mut self,
        world: &World,
        backend: &Backend,
        demand: &[f64],
        now: f64,
        part: f64,
        sent: &mut Sent,
    ) {
        self.plan(backend);
        let states: Vec<Readiness> = backend
            .targets
            .iter()
            .enumerate()
            .map(|(index, target)| {
                let up = world.believed_up(index, now, self.detect);
                readiness(target, if up { OwnKnowledge::Answers } else { OwnKnowledge::Silent })
            })
            .collect();
        let held = |edge: usize| self.edges[edge].plan.residency(&[&self.regions[edge]]);
        let residency: Vec<u64> = (0..self.edges.len()).map(held).collect();
        let claims: Vec<Claim<'_>> = demand
            .iter()
            .enumerate()
            .map(|(edge, demand)| {
                let plan = &self.edges[edge].plan;
                Claim { plan, residency: residency[edge], demand: *demand }
            })
            .collect();
        let capacities: Vec<_> =
            backend.targets.iter().map(|target| capacity(target, &self.rules)).collect();
        let division = divide(&claims, &capacities, &|target: usize| states[target]);
        for (edge, wanted) in demand.iter().enumerate().filter(|(_, wanted)| **wanted > 0.0) {
            // A second of a smaller world: as many requests as the sample has, and as much less
            // room everywhere.
            let scale = SAMPLE as f64 / wanted;
            let allowed: Vec<f64> =
                division.allowed[edge].iter().map(|allowed| allowed * scale).collect();
            for (next, allowed) in self.edges[edge].next.iter().zip(&allowed) {
                next.set(remeter(next.get(), self.now, *allowed));
            }
            let each = wanted * part / SAMPLE as f64;
            let ask = Ask { residency: residency[edge], ..Ask::default() };
            for index in 0..SAMPLE {
                let now = self.now + index as u64 * SECOND / SAMPLE as u64;
                let Edge { plan, memory, next } = &mut self.edges[edge];
                let seen = || Seen { states: &states, allowed: &allowed, next, now };
                decide(plan, memory, seen, ask, world, (edge, each), sent);
            }
        }
        self.now += SECOND;
    }

    /// Lets the hub judge a canary by what gateways have seen.
    pub(super) fn judge(
        &mut self,
        scenario: &Scenario,
        seen: Option<&Step>,
        now: i64,
        seconds: f64,
    ) {
        let (Some(trial), Some(progress), Some(step)) = (&scenario.canary, &self.canary, seen)
        else {
            return;
        };
        let of_group =
            |index: &usize| scenario.clusters[*index].group.as_ref() == Some(&trial.group);
        let of_group: Vec<usize> = (0..scenario.clusters.len()).filter(of_group).collect();
        let load: f64 = of_group.iter().map(|index| step.load[*index]).sum();
        let errors: f64 = of_group.iter().map(|index| step.errors[*index]).sum();
        let slowest = of_group.iter().map(|index| step.service[*index]).fold(0.0, f64::max);
        self.answers += load * seconds;
        let figures = Figures {
            answers: self.answers as u64,
            success_percent: (load > 0.0).then(|| 100.0 - errors / load * 100.0),
            // Times between answers of a queue have a long tail.
            p99_milliseconds: (load > 0.0).then_some(slowest * 100_f64.ln()),
        };
        let next = trial.next(progress, figures, now);
        if next != *progress {
            if next.since != progress.since {
                self.answers = 0.0;
            }
            self.canary = Some(next);
            self.weigh(scenario);
        }
    }

    /// The share of a canary, in percent.
    pub(super) fn canary(&self) -> u8 {
        self.canary.as_ref().map_or(0, |progress| match progress.phase {
            Phase::Promoted => 100,
            Phase::RolledBack => 0,
            Phase::Watching => progress.percent,
        })
    }
}

/// Decides one request. One that meets a cluster that is gone is tried elsewhere, as gateways do.
fn decide<'a>(
    plan: &Plan,
    memory: &mut Memory,
    seen: impl Fn() -> Seen<'a>,
    mut ask: Ask,
    world: &World,
    (edge, each): (usize, f64),
    sent: &mut Sent,
) {
    for attempt in 0..3 {
        let Some(decided) = plan.decide(seen(), memory, ask) else { break };
        if attempt == 0 && decided.room == Room::Overflow {
            sent.overflow += each;
        }
        if !world.clusters[decided.target].down {
            sent.to[edge][decided.target] += each;
            return;
        }
        // A connection that is refused takes about as long as one that is not.
        sent.waited += each * 2.0;
        ask.tried |= 1_u64.checked_shl(decided.target as u32).unwrap_or(0);
    }
    sent.lost += each;
}
