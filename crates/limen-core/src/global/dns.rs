//! How DNS servers answer for the hosts of a root.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How DNS servers answer. What is not said here follows the other traffic rules: the nearest
/// ready cluster, a failover order, or a split by weights.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsRules {
    /// How many clusters one answer names, best first; 0 and 1 mean one.
    #[serde(skip_serializing_if = "super::is_default")]
    pub clusters: u8,
    /// Every answer begins with the next of the ready clusters, wherever the client is.
    #[serde(skip_serializing_if = "super::is_default")]
    pub round_robin: bool,
    /// How long an answer is remembered while all is well, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u32>,
    /// How long while something is unhealthy or draining, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble_ttl_seconds: Option<u32>,
}
