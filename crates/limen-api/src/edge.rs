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
    /// When the hub's API stored its last report, by the hub's clock, in seconds since 1970. The
    /// edge's own time counts only where the hub's is not known.
    pub fn reported_at(&self) -> Option<i64> {
        let fields = self.metadata.managed_fields.iter().flatten();
        let status = fields.filter(|entry| entry.subresource.as_deref() == Some("status"));
        let stored = status.filter_map(|entry| entry.time.as_ref()).map(|time| time.0.as_second());
        stored.max().or_else(|| self.status.as_ref()?.observed_at)
    }

    /// When it was last heard of, for a reader that did not see its report arrive. `now` is by the
    /// hub's clock.
    pub fn heard(&self, now: i64) -> EdgeLiveness {
        EdgeLiveness::found(self.reported_at(), now)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reader_judges_by_the_time_of_the_hub_and_not_by_that_of_the_edge() {
        let stored = |at: &str| {
            json!([{"manager": "gateway", "operation": "Update", "subresource": "status",
                "apiVersion": "limen.dev/v1alpha1", "time": at}])
        };
        let (fresh, old) = (stored("1970-01-01T01:00:00Z"), stored("1970-01-01T00:59:00Z"));
        let now = 3605;
        for (stored, observed_at, expected) in [
            (&fresh, json!(5), true),
            (&old, json!(7200), false),
            (&json!([]), json!(3600), true),
            (&json!([]), json!(3540), false),
            (&json!([]), json!(null), false),
        ] {
            let edge: Edge = serde_json::from_value(json!({
                "apiVersion": "limen.dev/v1alpha1", "kind": "Edge",
                "metadata": {"name": "edge", "managedFields": stored},
                "spec": {"kind": "Gateway"}, "status": {"observedAt": observed_at}}))
            .unwrap();
            assert_eq!(edge.heard(now).is_fresh(now), expected, "{stored} {observed_at}");
        }
    }
}
