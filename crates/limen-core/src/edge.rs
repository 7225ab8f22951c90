//! What an edge reports: how well it reaches targets, and what its clients want.
//!
//! An `Edge` object has this as its `status`. Each edge writes its own and reads all others', so
//! that the hub can judge targets by the eyes of many, and edges can share capacities without
//! asking anybody in the path of a request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::global::is_default;

/// Targets that one edge reports at most.
pub const MAX_TARGETS: usize = 4096;
/// Backends whose demand one edge reports at most: those that want most.
pub const MAX_DEMAND: usize = 1024;
/// The longest reason that is reported, in bytes.
pub const MAX_REASON: usize = 256;

/// What kind of edge it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EdgeKind {
    /// It decides request by request.
    #[default]
    Gateway,
    /// It decides answer by answer.
    Dns,
}

/// What an edge reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeReport {
    /// When it was written, in seconds since 1970. What is older than a while says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<i64>,
    /// Whether it takes no more clients, as it is about to end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stopping: bool,
    /// How well targets are reached from here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = "MAX_TARGETS"))]
    pub targets: Vec<TargetReport>,
    /// What clients want here, and what became of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = "MAX_DEMAND"))]
    pub demand: Vec<Demand>,
}

/// How well one way into a cluster is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetReport {
    /// The member's name.
    #[schemars(length(max = 253))]
    pub cluster: String,
    /// The address, as host and port; nothing speaks of the whole cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 261))]
    pub address: Option<String>,
    /// Whether it answers.
    pub healthy: bool,
    /// Why it is not healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = "MAX_REASON"))]
    pub reason: Option<String>,
    /// Since when that is so, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// How long a connection to it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_milliseconds: Option<f64>,
}

/// What clients of one edge want of one backend.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Demand {
    /// The GlobalIngress, as namespace/name.
    #[schemars(length(max = 317))]
    pub global_ingress: String,
    /// The backend's name in it.
    #[schemars(length(max = 253))]
    pub backend: String,
    /// Requests in a second that clients send, wherever they are served.
    pub requests_per_second: f64,
    /// What was sent where, and what came back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub clusters: Vec<Sent>,
}

/// What one edge sent to one version group in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sent {
    /// The member's name.
    #[schemars(length(max = 253))]
    pub cluster: String,
    /// The version group, if its targets have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub group: Option<String>,
    /// Requests in a second.
    pub requests_per_second: f64,
    /// Answers since the edge started, whatever they were.
    #[serde(default, skip_serializing_if = "is_default")]
    pub requests: u64,
    /// The share of answers, in percent, that were no 5xx; lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_percent: Option<f64>,
    /// How slow one answer in a hundred was; lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_milliseconds: Option<f64>,
}

/// An edge as another sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peer {
    /// What kind of edge it is.
    pub kind: EdgeKind,
    /// Where it is.
    pub locality: crate::locality::Locality,
    /// What it says.
    pub report: EdgeReport,
}

impl EdgeReport {
    /// What clients want of one backend here, in requests in a second.
    pub fn wanted(&self, global_ingress: &str, backend: &str) -> Option<&Demand> {
        let this =
            |demand: &&Demand| demand.global_ingress == global_ingress && demand.backend == backend;
        self.demand.iter().find(this)
    }

    /// Whether another report says something that others should hear soon: a verdict, a demand
    /// that is a tenth more or less, a latency that is a quarter more or less.
    pub fn differs_noticeably(&self, other: &Self) -> bool {
        let apart = |a: f64, b: f64, part: f64| (a - b).abs() > 1.0 + part * a.min(b);
        let demand = |a: &Demand, b: &Demand| {
            (&a.global_ingress, &a.backend) != (&b.global_ingress, &b.backend)
                || apart(a.requests_per_second, b.requests_per_second, 0.1)
        };
        let target = |a: &TargetReport, b: &TargetReport| {
            let latencies = a.latency_milliseconds.zip(b.latency_milliseconds);
            (&a.cluster, &a.address, a.healthy) != (&b.cluster, &b.address, b.healthy)
                || a.latency_milliseconds.is_some() != b.latency_milliseconds.is_some()
                || latencies.is_some_and(|(a, b)| apart(a, b, 0.25))
        };
        self.demand.len() != other.demand.len()
            || self.targets.len() != other.targets.len()
            || self.demand.iter().zip(&other.demand).any(|(a, b)| demand(a, b))
            || self.targets.iter().zip(&other.targets).any(|(a, b)| target(a, b))
    }
}
