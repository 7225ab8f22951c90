//! What became of the requests.

use super::world::World;

/// Where the requests of one step went.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// By edge and cluster: requests in a second.
    pub(super) to: Vec<Vec<f64>>,
    /// Requests in a second that found nobody.
    pub(super) lost: f64,
    /// Requests in a second that went on because a nearer cluster was full.
    pub(super) overflow: f64,
    /// Milliseconds that failed attempts took, by request in a second.
    pub(super) waited: f64,
}

impl Sent {
    pub(super) fn new(edges: usize, clusters: usize) -> Self {
        Self { to: vec![vec![0.0; clusters]; edges], lost: 0.0, overflow: 0.0, waited: 0.0 }
    }
}

/// What became of all requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Who decided.
    pub name: &'static str,
    /// Step by step.
    pub steps: Vec<Step>,
    /// All together.
    pub total: Total,
}

/// What became of the requests of one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// By cluster: requests in a second that were sent there.
    pub load: Vec<f64>,
    /// By cluster: requests in a second that it answered with an error.
    pub errors: Vec<f64>,
    /// Requests in a second that failed, for whatever reason.
    pub failed: f64,
    /// Requests in a second that went on because a nearer cluster was full.
    pub overflow: f64,
    /// Milliseconds that an answer took, on average.
    pub latency: f64,
    /// Milliseconds that requests travelled further than to the nearest cluster, on average.
    pub added: f64,
    /// By cluster: milliseconds that it took for an answer.
    pub service: Vec<f64>,
}

/// Sums over all steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Total {
    /// All requests.
    pub requests: f64,
    /// Those that failed.
    pub failed: f64,
    /// Those that went on because a nearer cluster was full.
    pub overflow: f64,
    /// Milliseconds that an answer took, on average.
    pub latency: f64,
    /// Milliseconds of travel further than to the nearest, on average.
    pub added: f64,
    /// The most that any cluster was asked for, in parts of its capacity.
    pub busiest: f64,
}

impl Total {
    /// The share of requests that failed, in percent.
    pub fn failed_percent(&self) -> f64 {
        if self.requests > 0.0 { self.failed / self.requests * 100.0 } else { 0.0 }
    }
}

impl Outcome {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, steps: Vec::new(), total: Total::default() }
    }

    pub(super) fn add(
        &mut self,
        sent: &Sent,
        world: &World,
        demand: &[f64],
        seconds: f64,
        distance: &impl Fn(usize, usize) -> f64,
    ) {
        let clusters = world.clusters.len();
        let load: Vec<f64> =
            (0..clusters).map(|index| sent.to.iter().map(|edge| edge[index]).sum()).collect();
        let mut step = Step { failed: sent.lost, overflow: sent.overflow, ..Step::default() };
        let (mut waited, mut added) = (sent.waited, 0.0);
        for (index, state) in world.clusters.iter().enumerate() {
            let capacity = if state.down { 0.0 } else { state.requests_per_second };
            let answered = load[index].min(capacity);
            let busy = if capacity > 0.0 { answered / capacity } else { 0.0 };
            // A queue with one server; what is beyond capacity is refused and does not wait.
            let service = state.service_milliseconds / (1.0 - busy.min(0.9));
            let errors = answered * state.error_percent / 100.0;
            step.failed += load[index] - answered + errors;
            step.errors.push(errors);
            step.service.push(service);
            for (edge, to) in sent.to.iter().enumerate() {
                let least = (0..clusters).map(|other| distance(edge, other));
                let least = least.fold(f64::INFINITY, f64::min);
                added += to[index] * (distance(edge, index) - least);
                waited += to[index] * (distance(edge, index) + service);
            }
            if capacity > 0.0 {
                self.total.busiest = self.total.busiest.max(load[index] / capacity);
            }
        }
        let all: f64 = demand.iter().sum();
        if all > 0.0 {
            (step.latency, step.added) = (waited / all, added / all);
        }
        let before = self.total.requests;
        let total = &mut self.total;
        total.requests += all * seconds;
        total.failed += step.failed * seconds;
        total.overflow += step.overflow * seconds;
        if total.requests > 0.0 {
            let part = all * seconds / total.requests;
            total.latency = total.latency * before / total.requests + step.latency * part;
            total.added = total.added * before / total.requests + step.added * part;
        }
        step.load = load;
        self.steps.push(step);
    }
}
