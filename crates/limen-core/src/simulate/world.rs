//! The clusters of a scenario as they are at one moment, and as they are known to be.

use super::scenario::{Event, Scenario};
use crate::global::{Address, Backend, Capacity, Target};
use crate::locality::Locality;

/// What is true of the clusters at one moment.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) clusters: Vec<State>,
}

/// What is true of one cluster.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) down: bool,
    /// When it last went away or came back, in seconds.
    changed: f64,
    pub(super) requests_per_second: f64,
    pub(super) error_percent: f64,
    pub(super) service_milliseconds: f64,
    pub(super) drained_percent: u8,
}

impl World {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let state = |cluster: &super::SimulatedCluster| State {
            down: false,
            changed: f64::NEG_INFINITY,
            requests_per_second: cluster.requests_per_second,
            error_percent: cluster.error_percent.clamp(0.0, 100.0),
            service_milliseconds: cluster.service_milliseconds,
            drained_percent: 0,
        };
        Self { clusters: scenario.clusters.iter().map(state).collect() }
    }

    /// Something happens at a moment.
    pub(super) fn apply(&mut self, index: usize, event: &Event, now: f64) {
        let state = &mut self.clusters[index];
        if let Some(down) = event.down.filter(|down| *down != state.down) {
            (state.down, state.changed) = (down, now);
        }
        if let Some(capacity) = event.requests_per_second {
            state.requests_per_second = capacity.max(0.0);
        }
        if let Some(percent) = event.error_percent {
            state.error_percent = percent.clamp(0.0, 100.0);
        }
        if let Some(time) = event.service_milliseconds {
            state.service_milliseconds = time.max(0.0);
        }
        if let Some(percent) = event.drained_percent {
            state.drained_percent = percent.min(100);
        }
    }

    /// Whether whoever needs so long to find out believes at a moment that a cluster is up.
    pub(super) fn believed_up(&self, index: usize, now: f64, detect: f64) -> bool {
        let state = &self.clusters[index];
        if now - state.changed < detect { state.down } else { !state.down }
    }

    /// The part of clients that still go by what was true before, when answers are kept for a
    /// while.
    pub(super) fn not_heard(&self, index: usize, now: f64, detect: f64, keep: f64) -> f64 {
        let since = now - self.clusters[index].changed - detect;
        if keep <= 0.0 {
            return if since < 0.0 { 1.0 } else { 0.0 };
        }
        (1.0 - since / keep).clamp(0.0, 1.0)
    }

    /// The clusters as the targets of one backend.
    pub(super) fn backend(&self, scenario: &Scenario) -> Backend {
        let target = |(cluster, state): (&super::SimulatedCluster, &State)| Target {
            cluster: cluster.name.clone(),
            locality: Locality {
                region: cluster.region.clone(),
                zone: None,
                coordinates: cluster.coordinates,
            },
            addresses: vec![Address { host: cluster.name.clone(), port: 80 }],
            group: cluster.group.clone(),
            capacity: Capacity { requests_per_second: Some(state.requests_per_second) },
            drained_percent: state.drained_percent,
            ..Target::default()
        };
        let targets = scenario.clusters.iter().zip(&self.clusters).map(target).collect();
        Backend { name: "web".to_owned(), targets }
    }
}
