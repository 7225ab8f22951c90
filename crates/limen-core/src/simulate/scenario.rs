//! What is simulated: clusters, clients, and what happens when.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::compile::Trial;
use crate::global::TrafficRules;
use crate::locality::{Coordinates, CoordinatesError, Locality};

/// Steps of one simulation, so that nobody waits for ever.
const MOST_STEPS: f64 = 50_000.0;

/// What is simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// What it is called.
    pub name: String,
    /// What it is about.
    #[serde(default)]
    pub description: String,
    /// How long it lasts; it begins at midnight.
    pub hours: f64,
    /// How long one step is.
    #[serde(default = "a_minute")]
    pub step_seconds: u32,
    /// How traffic is shared, as in a TrafficPolicy.
    #[serde(default)]
    pub traffic: TrafficRules,
    /// A version that is on trial.
    #[serde(default)]
    pub canary: Option<Trial>,
    /// How long gateways take to find out that a cluster is gone or back.
    #[serde(default = "two_seconds")]
    pub detect_seconds: f64,
    /// How quick the DNS servers are that Limen is compared with.
    #[serde(default)]
    pub dns: DnsTimes,
    /// The clusters.
    pub clusters: Vec<SimulatedCluster>,
    /// The clients; each region has a gateway.
    pub clients: Vec<SimulatedClients>,
    /// Milliseconds from a region of clients to a cluster and back, where they are known.
    #[serde(default)]
    pub latency: BTreeMap<String, BTreeMap<String, f64>>,
    /// What happens.
    #[serde(default)]
    pub events: Vec<Event>,
}

/// How quick DNS is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DnsTimes {
    /// How long its health checks take to notice.
    pub detect_seconds: f64,
    /// How long clients keep an answer.
    pub ttl_seconds: f64,
}

impl Default for DnsTimes {
    fn default() -> Self {
        Self { detect_seconds: 30.0, ttl_seconds: 60.0 }
    }
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SimulatedCluster {
    /// What it is called.
    pub name: String,
    /// The region it is in.
    #[serde(default)]
    pub region: Option<String>,
    /// Where it is on Earth.
    #[serde(default)]
    pub coordinates: Option<Coordinates>,
    /// The version that it runs.
    #[serde(default)]
    pub group: Option<String>,
    /// Requests in a second that it can take.
    pub requests_per_second: f64,
    /// How long an answer takes when there is nothing else to do.
    #[serde(default = "twenty")]
    pub service_milliseconds: f64,
    /// The share of answers, in percent, that are errors.
    #[serde(default)]
    pub error_percent: f64,
}

/// The clients of one region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SimulatedClients {
    /// The region.
    pub region: String,
    /// Where it is on Earth.
    #[serde(default)]
    pub coordinates: Option<Coordinates>,
    /// Requests in a second at the busiest hour.
    pub requests_per_second: f64,
    /// The busiest hour of the day.
    #[serde(default = "twenty")]
    pub peak_hour: f64,
    /// The share of that, in percent, at the quietest hour.
    #[serde(default = "thirty")]
    pub lowest_percent: f64,
}

/// Something that happens to a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Event {
    /// When, in hours from the beginning.
    pub hour: f64,
    /// The cluster.
    pub cluster: String,
    /// It goes away, or comes back.
    pub down: Option<bool>,
    /// It can take another number of requests.
    pub requests_per_second: Option<f64>,
    /// Another share of its answers are errors.
    pub error_percent: Option<f64>,
    /// Its answers take another time.
    pub service_milliseconds: Option<f64>,
    /// So much of its traffic is drained away.
    pub drained_percent: Option<u8>,
}

fn a_minute() -> u32 {
    60
}

fn two_seconds() -> f64 {
    2.0
}

fn twenty() -> f64 {
    20.0
}

fn thirty() -> f64 {
    30.0
}

/// What is wrong with a scenario.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScenarioError {
    /// A list is empty.
    #[error("a scenario needs at least one entry under {0}")]
    Empty(&'static str),
    /// Two have the same name.
    #[error("there are two {0} called {1}: names must differ")]
    Twice(&'static str, String),
    /// A number is none, or negative.
    #[error("{0} is {1}: write a number {2}")]
    Number(String, f64, &'static str),
    /// A name that nothing has.
    #[error("{0} names the cluster {1}, which the scenario does not have")]
    Unknown(String, String),
    /// Off the globe.
    #[error("{0}: {1}")]
    Place(String, CoordinatesError),
    /// Too long.
    #[error("{0} steps are too many: make steps longer or the scenario shorter")]
    TooLong(f64),
}

impl Scenario {
    /// The same scenario, if it can be simulated.
    pub fn checked(self) -> Result<Self, ScenarioError> {
        let number = |name: &str, value: f64, least: f64, what: &'static str| {
            let fine = value.is_finite() && value >= least;
            if fine { Ok(()) } else { Err(ScenarioError::Number(name.to_owned(), value, what)) }
        };
        number("hours", self.hours, 0.001, "above 0")?;
        number("stepSeconds", f64::from(self.step_seconds), 1.0, "of at least 1")?;
        let steps = self.hours * 3600.0 / f64::from(self.step_seconds);
        if steps > MOST_STEPS {
            return Err(ScenarioError::TooLong(steps));
        }
        for (name, empty) in
            [("clusters", self.clusters.is_empty()), ("clients", self.clients.is_empty())]
        {
            if empty {
                return Err(ScenarioError::Empty(name));
            }
        }
        let mut names = BTreeSet::new();
        for cluster in &self.clusters {
            if !names.insert(cluster.name.as_str()) {
                return Err(ScenarioError::Twice("clusters", cluster.name.clone()));
            }
            let of = |field: &str| format!("{field} of {}", cluster.name);
            number(&of("requestsPerSecond"), cluster.requests_per_second, 0.0, "of at least 0")?;
            number(&of("serviceMilliseconds"), cluster.service_milliseconds, 0.0, "of at least 0")?;
            place(&cluster.name, cluster.coordinates)?;
        }
        let mut regions = BTreeSet::new();
        for clients in &self.clients {
            if !regions.insert(clients.region.as_str()) {
                return Err(ScenarioError::Twice("regions of clients", clients.region.clone()));
            }
            let of = format!("requestsPerSecond of {}", clients.region);
            number(&of, clients.requests_per_second, 0.0, "of at least 0")?;
            place(&clients.region, clients.coordinates)?;
        }
        let unknown = |what: String, cluster: &str| match names.contains(cluster) {
            true => Ok(()),
            false => Err(ScenarioError::Unknown(what, cluster.to_owned())),
        };
        for event in &self.events {
            unknown(format!("the event at hour {}", event.hour), &event.cluster)?;
        }
        for (region, clusters) in &self.latency {
            for cluster in clusters.keys() {
                unknown(format!("the latency from {region}"), cluster)?;
            }
        }
        Ok(self)
    }
}

fn place(name: &str, coordinates: Option<Coordinates>) -> Result<(), ScenarioError> {
    let checked = coordinates.map(Coordinates::checked).transpose();
    checked.map(|_| ()).map_err(|error| ScenarioError::Place(name.to_owned(), error))
}

impl SimulatedClients {
    /// Requests in a second at an hour from the beginning: a smooth curve over the day.
    pub fn demand(&self, hour: f64) -> f64 {
        let lowest = (self.lowest_percent / 100.0).clamp(0.0, 1.0);
        let angle = (hour - self.peak_hour) / 24.0 * std::f64::consts::TAU;
        self.requests_per_second * (lowest + (1.0 - lowest) * f64::midpoint(1.0, angle.cos()))
    }

    /// Where they are, and their gateway is.
    pub fn locality(&self) -> Locality {
        let coordinates = self.coordinates;
        Locality { region: Some(self.region.clone()), zone: None, coordinates }
    }
}
