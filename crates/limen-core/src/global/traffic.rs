//! How traffic is shared among targets: the resolved form of a `TrafficPolicy`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dns::DnsRules;

/// How traffic is shared among targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrafficRules {
    /// Exact shares by version group or by cluster, decided before locality.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// Keep groups and clusters of weight 0 without traffic even when no weighted one is ready.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub strict: bool,
    /// Requests in a second that one ready endpoint can take; with it a cluster's excess goes to
    /// the next nearest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_endpoint: Option<f64>,
    /// Clusters in the order in which they take over, in place of the nearest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failover: Vec<String>,
    /// Which clients may be served where.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub residency: Vec<Residency>,
    /// Send some requests to a second place as well, whose answers nobody sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<Mirror>,
    /// When fewer than this share of clusters, in percent, are ready, health is not believed and
    /// all of them are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100))]
    pub panic_percent: Option<u8>,
    /// What keeps a client with its target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// How edges find out whether a target is well. Without it gateways try to connect every few
    /// seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
    /// When a failing address is left alone for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outliers: Option<Outliers>,
    /// What is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,
    /// How long anything may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Timeouts>,
    /// How targets that speak TLS are verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_tls: Option<UpstreamTls>,
    /// Connections that one edge may have open to one address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    /// How DNS servers answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsRules>,
    /// For how long an address that has become well gets less than its share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_start_seconds: Option<u32>,
}

impl TrafficRules {
    /// The health check that somebody asks for.
    pub fn asked_check(&self) -> Option<&HealthCheck> {
        self.health_check.as_ref().filter(|check| check.kind != HealthCheckKind::None)
    }
}

/// Exact shares, whatever the geography.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Split {
    /// Weights by version group; what is not named gets nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, u32>,
    /// Weights by cluster; what is not named gets nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clusters: BTreeMap<String, u32>,
    /// Requests with such a header or cookie go to a group whatever the weights say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<HeaderMatch>,
    /// Keep a client with the group it was given first.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub sticky: bool,
}

/// Requests that are sent to a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeaderMatch {
    /// The header's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The cookie's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// The value; nothing means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The share of such requests, in percent; nothing means all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100))]
    pub percent: Option<u8>,
    /// The group.
    pub group: String,
}

/// Which clients may be served where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Residency {
    /// The regions or countries that clients come from; none means all clients, also those that
    /// nobody can place. A `*` at the end stands for anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
    /// The regions that may serve them; none means all that are not denied. A cluster whose region
    /// is not known is not allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// The regions that may not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

/// A second place that some requests are sent to as well. Only requests without a body are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mirror {
    /// The version group that gets them; nothing means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The cluster that gets them; nothing means the nearest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The share of requests, in percent.
    #[schemars(range(max = 100))]
    pub percent: u8,
}

/// What keeps a client with its target. One of these; a struct and not an enumeration, since the
/// schema of a custom resource cannot say "a string or an object".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    /// A cookie that the edge sets, with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// The value of this header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The client's address.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub source_address: bool,
}

/// How edges find out whether a target is well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthCheck {
    /// What is asked.
    pub kind: HealthCheckKind,
    /// The path to ask for.
    pub path: String,
    /// The host to ask for; nothing means the first host of the rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Time between two checks.
    pub interval_milliseconds: u32,
    /// How long an answer may take.
    pub timeout_milliseconds: u32,
    /// Failures in a row that make it unhealthy.
    pub unhealthy_threshold: u32,
    /// Successes in a row that make it healthy again.
    pub healthy_threshold: u32,
}

impl Default for HealthCheck {
    fn default() -> Self {
        Self {
            kind: HealthCheckKind::Tcp,
            path: "/".to_owned(),
            host: None,
            interval_milliseconds: 1000,
            timeout_milliseconds: 800,
            unhealthy_threshold: 2,
            healthy_threshold: 2,
        }
    }
}

impl HealthCheck {
    /// What gateways ask where nobody says anything: cheap enough for every address there is, and
    /// patient enough for a lost packet.
    pub fn usual() -> Self {
        Self { interval_milliseconds: 5000, timeout_milliseconds: 2000, ..Self::default() }
    }
}

/// What a health check asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum HealthCheckKind {
    /// A connection is enough.
    #[default]
    Tcp,
    /// An answer below 400 to a GET.
    Http,
    /// The same over TLS.
    Https,
    /// `grpc.health.v1.Health/Check` says SERVING.
    Grpc,
    /// Nothing: only requests tell.
    None,
}

/// When a failing address is left alone for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Outliers {
    /// Failures in a row (no connection, reset, 502, 503, 504) that eject it.
    pub consecutive_failures: u32,
    /// How long it is left alone; longer each time.
    pub eject_seconds: u32,
    /// The share of addresses, in percent, that may be ejected at once.
    pub max_ejected_percent: u8,
}

impl Default for Outliers {
    fn default() -> Self {
        Self { consecutive_failures: 5, eject_seconds: 10, max_ejected_percent: 50 }
    }
}

/// What is tried again, on another address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Retries {
    /// Attempts after the first.
    pub attempts: u32,
    /// Retries may be this share, in percent, of all requests.
    pub budget_percent: u8,
    /// Answers that are tried again for methods that are safe, besides failures to connect.
    pub statuses: Vec<u16>,
}

impl Default for Retries {
    fn default() -> Self {
        Self { attempts: 2, budget_percent: 20, statuses: vec![502, 503, 504] }
    }
}

/// How long anything may take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeouts {
    /// To connect.
    pub connect_milliseconds: u32,
    /// Until the head of the answer is there.
    pub response_milliseconds: u32,
    /// Without a byte in either direction.
    pub idle_milliseconds: u32,
    /// The whole request; nothing means as long as it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_milliseconds: Option<u32>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect_milliseconds: 1000,
            response_milliseconds: 60_000,
            idle_milliseconds: 300_000,
            request_milliseconds: None,
        }
    }
}

/// How targets that speak TLS are verified.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamTls {
    /// The name in their certificate; nothing means the request's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The Secret with the authority they come from (key `ca.crt`); nothing means the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret: Option<String>,
    /// Do not verify at all. Written out, or not done.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub insecure_skip_verify: bool,
}

/// How much one client may ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientLimit {
    /// Requests in a second, by client address.
    pub requests_per_second: f64,
    /// How many more in a moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}
