//! What would happen: a day of clients, clusters and failures, in a moment.
//!
//! ```text
//! Scenario ─► world, step by step ─┬─► gateways: Plan::decide, divide ─┐
//!                                  ├─► DNS in turn                      ├─► Outcome of each
//!                                  └─► DNS, nearest only               ─┘
//! ```
//!
//! Gateways decide with the very functions that real ones do: [`crate::decide::divide`] says what
//! each may send where, [`crate::decide::Plan::decide`] chooses for a sample of the requests of
//! every step, and [`crate::compile::Trial`] moves a canary on. What is modelled is the rest:
//! clusters that answer slower the busier they are and refuse what is beyond their capacity, and
//! how long anybody takes to notice a failure.

mod gateways;
mod names;
mod outcome;
mod scenario;
#[cfg(test)]
mod tests;
mod world;

pub use outcome::{Outcome, Step, Total};
pub use scenario::{DnsTimes, Event, Scenario, ScenarioError, SimulatedClients, SimulatedCluster};

use crate::decide::Vantage;
use gateways::Gateways;
use names::{in_turn, nearest};
use outcome::Sent;
use world::World;

/// What came of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The hour of every step.
    pub hours: Vec<f64>,
    /// By step: requests in a second that clients of each region send.
    pub demand: Vec<Vec<f64>>,
    /// By step: requests in a second that each cluster can take, 0 while it is down.
    pub capacity: Vec<Vec<f64>>,
    /// By step: the share of a canary, in percent.
    pub canary: Vec<u8>,
    /// Limen, DNS in turn, and DNS to the nearest.
    pub outcomes: Vec<Outcome>,
}

/// Simulates a scenario.
pub fn simulate(scenario: &Scenario) -> Report {
    let mut world = World::new(scenario);
    let vantages: Vec<Vantage> = scenario
        .clients
        .iter()
        .map(|clients| {
            let latencies = scenario.latency.get(&clients.region).cloned().unwrap_or_default();
            Vantage { here: clients.locality(), latencies }
        })
        .collect();
    let mut gateways = Gateways::new(scenario, &world, &vantages);
    let mut report = Report {
        hours: Vec::new(),
        demand: Vec::new(),
        capacity: Vec::new(),
        canary: Vec::new(),
        outcomes: ["Limen", "DNS in turn", "DNS, nearest only"].map(Outcome::new).into(),
    };
    let mut events: Vec<&Event> = scenario.events.iter().collect();
    events.sort_by(|a, b| a.hour.total_cmp(&b.hour));
    let mut events = events.into_iter().peekable();
    let length = f64::from(scenario.step_seconds);
    let steps = (scenario.hours * 3600.0 / length).ceil() as usize;
    for step in 0..steps {
        let start = step as f64 * length;
        while let Some(event) = events.next_if(|event| event.hour * 3600.0 <= start) {
            let names = scenario.clusters.iter().position(|cluster| cluster.name == event.cluster);
            if let Some(index) = names {
                world.apply(index, event, start);
            }
        }
        let demand: Vec<f64> =
            scenario.clients.iter().map(|clients| clients.demand(start / 3600.0)).collect();
        let backend = world.backend(scenario);
        let distance = |edge: usize, target: usize| {
            vantages[edge].milliseconds(&backend.targets[target]).min(1000.0)
        };
        let mut sent = [(); 3].map(|()| Sent::new(demand.len(), world.clusters.len()));
        // What happens before a failure is noticed is a part of the step of its own.
        let unnoticed = scenario.detect_seconds.clamp(0.0, length);
        for (from, until) in [(0.0, unnoticed), (unnoticed, length)] {
            let part = (until - from) / length;
            let middle = start + f64::midpoint(from, until);
            if part > 0.0 {
                gateways.send(&world, &backend, &demand, middle, part, &mut sent[0]);
                in_turn(scenario, &world, &demand, middle, part, &mut sent[1]);
                nearest(scenario, &world, &demand, middle, part, &distance, &mut sent[2]);
            }
        }
        for (outcome, sent) in report.outcomes.iter_mut().zip(&sent) {
            outcome.add(sent, &world, &demand, length, &distance);
        }
        let seen = report.outcomes[0].steps.last();
        gateways.judge(scenario, seen, (start + length) as i64, length);
        let up = |state: &world::State| if state.down { 0.0 } else { state.requests_per_second };
        report.hours.push(start / 3600.0);
        report.demand.push(demand);
        report.capacity.push(world.clusters.iter().map(up).collect());
        report.canary.push(gateways.canary());
    }
    report
}
