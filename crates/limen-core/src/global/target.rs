//! One cluster's way in for one backend.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::locality::Locality;

/// One cluster's way in for one backend.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The member's name.
    pub cluster: String,
    /// Where it is.
    #[serde(flatten)]
    pub locality: Locality,
    /// Where requests go: a member's ingress, a load balancer, node ports, or pods.
    #[serde(default)]
    pub addresses: Vec<Address>,
    /// Addresses that are of use to clients inside the cluster only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub local_addresses: Vec<String>,
    /// What is spoken there.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub protocol: Protocol,
    /// The version group that a split names, such as `v2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// How many endpoints are ready behind it; unknown when nothing has been observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_endpoints: Option<u32>,
    /// Requests in a second that one ready endpoint takes, where the Service declares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_endpoint: Option<f64>,
    /// How much it can take.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub capacity: Capacity,
    /// The share of its traffic, in percent, that a drain has taken away; 100 means all of it.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub drained_percent: u8,
    /// What is known of its health.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub verdicts: Verdicts,
}

/// Where requests go.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Address {
    /// An IP address of either family, or a host name that edges resolve.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// What a target speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Protocol {
    /// HTTP/1.1 in the clear.
    #[default]
    #[serde(rename = "http")]
    Http,
    /// HTTP/1.1 or HTTP/2 over TLS.
    #[serde(rename = "https")]
    Https,
    /// HTTP/2 in the clear.
    #[serde(rename = "h2c")]
    H2c,
}

/// How much a target can take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    /// Requests in a second over all edges; nothing means as many as come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<f64>,
}

/// What is known of a target's health, each kind of knowledge apart from the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verdicts {
    /// Whether the member's API answers; says nothing about its pods.
    #[serde(default)]
    pub api: Verdict,
    /// Whether the way in answers, as edges have seen it.
    #[serde(default)]
    pub edge: Verdict,
    /// Whether there are ready endpoints.
    #[serde(default)]
    pub endpoints: Verdict,
    /// The kind, such as `EndpointSlice`, whose watch in the member is lost: what is known of the
    /// target is stale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_kind: Option<String>,
    /// When the member was last heard of, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<i64>,
}

impl Verdicts {
    /// Whether what is known of the target's endpoints may be out of date.
    pub fn is_stale(&self) -> bool {
        self.api == Verdict::Unhealthy || self.lost_kind.is_some()
    }
}

/// One kind of knowledge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Verdict {
    /// Nothing is known.
    #[default]
    Unknown,
    /// It is well.
    Healthy,
    /// It is not.
    Unhealthy,
}
