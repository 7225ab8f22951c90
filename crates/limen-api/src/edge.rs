//! `Edge`: a gateway or a DNS server. It writes its own object; the hub and the other edges read it.

use kube::CustomResource;
use limen_core::compile::EdgeLiveness;
use limen_core::edge::{EdgeKind, EdgeReport};
use limen_core::locality::Locality;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What clients touch: where it is, and what it says.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "limen.dev",
    version = "v1alpha1",
    kind = "Edge",
    plural = "edges",
    shortname = "edge",
    status = "EdgeReport",
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.kind"),
    printcolumn(name = "Region", type_ = "string", json_path = ".spec.region"),
    printcolumn(name = "Addresses", type_ = "string", json_path = ".spec.addresses"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct EdgeSpec {
    /// What kind of edge it is.
    #[serde(default)]
    pub kind: EdgeKind,
    /// Names and addresses that clients reach it at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub addresses: Vec<String>,
    /// TCP ports that it takes connections of clients at. What stands before it may have others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ports: Vec<u16>,
    /// Where it is.
    #[serde(flatten)]
    pub locality: Locality,
}

impl Edge {
    /// When the hub's API stored its last report, by the hub's clock, in seconds since 1970.
    pub fn received_at(&self) -> Option<i64> {
        let fields = self.metadata.managed_fields.iter().flatten();
        let status = fields.filter(|entry| entry.subresource.as_deref() == Some("status"));
        status.filter_map(|entry| entry.time.as_ref()).map(|time| time.0.as_second()).max()
    }

    /// When it was last heard of, for a reader of its object. `now` is by the hub's clock.
    pub fn heard(&self, now: i64) -> EdgeLiveness {
        let observed_at = self.status.as_ref().and_then(|report| report.observed_at);
        EdgeLiveness::read(self.received_at(), observed_at, now)
    }
}
