//! Overrides: JSON patches for some members.

use limen_core::federated::{Override, Placement};
use serde_json::{Value, json};

use super::selector::label_selector;
use super::{DialectError, field_error};
use crate::placement_policy::OverrideSpec;

/// Reads overrides. An operation that does not say what it does replaces.
pub fn parse(specs: &[OverrideSpec], field: &str) -> Result<Vec<Override>, DialectError> {
    let one = |(index, spec): (usize, &OverrideSpec)| {
        let field = format!("{field}[{index}]");
        let clusters = match (&spec.cluster_name, &spec.cluster_selector) {
            (Some(name), _) => Placement::Clusters(vec![name.clone()]),
            (None, Some(selector)) => {
                Placement::Selector(label_selector(selector, &format!("{field}.clusterSelector"))?)
            }
            (None, None) => {
                return Err(field_error(field, "give it a clusterName or a clusterSelector"));
            }
        };
        let operations: Vec<Value> = spec
            .cluster_overrides
            .iter()
            .map(|operation| {
                let op = operation.op.as_deref().unwrap_or("replace");
                let mut patch = json!({"op": op, "path": operation.path});
                if let Some(from) = &operation.from {
                    patch["from"] = json!(from);
                }
                if op != "remove" {
                    patch["value"] = operation.value.clone().unwrap_or(Value::Null);
                }
                patch
            })
            .collect();
        let patch = serde_json::from_value(Value::Array(operations)).map_err(|error| {
            field_error(format!("{field}.clusterOverrides"), format!("not a JSON patch: {error}"))
        })?;
        Ok(Override { clusters, patch })
    };
    specs.iter().enumerate().map(one).collect()
}
