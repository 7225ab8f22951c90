//! Federation v2: `Federated<Kind>` in one object, and the earlier form in three.

use std::sync::Arc;

use limen_core::federated::{Federated, Kind, ObjectId, OnDelete, Override, Placement};
use serde_json::{Value, json};

use super::native::on_conflict;
use super::selector::placement;
use super::{DialectError, field_error, identity, overrides, uid};
use crate::placement_policy::{ClusterName, PlacementSpec};

/// The model of a `Federated<Kind>`; `leaf` is the kind that members hold.
pub fn one_object(
    object: &Value,
    kind: &Arc<Kind>,
    leaf: &Arc<Kind>,
) -> Result<Federated, DialectError> {
    let spec = &object["spec"];
    let where_to: PlacementSpec = parsed(&spec["placement"], "spec.placement")?;
    let differing: Vec<_> = parsed(&spec["overrides"], "spec.overrides")?;
    let placement = placement(&where_to, "spec.placement")?;
    let overrides = overrides(&differing, "spec.overrides")?;
    federated(object, kind, leaf, placement, overrides)
}

/// The model of the three objects of one name. Without a placement nothing is selected.
pub fn three_objects(
    object: &Value,
    placing: Option<&Value>,
    overriding: Option<&Value>,
    kind: &Arc<Kind>,
    leaf: &Arc<Kind>,
) -> Result<Federated, DialectError> {
    let placement = match placing {
        None => Placement::Nowhere,
        Some(placing) => {
            let names: Option<Vec<String>> =
                parsed(&placing["spec"]["clusterNames"], "spec.clusterNames")?;
            let spec = PlacementSpec {
                clusters: names
                    .map(|names| names.into_iter().map(|name| ClusterName { name }).collect()),
                cluster_selector: parsed(
                    &placing["spec"]["clusterSelector"],
                    "spec.clusterSelector",
                )?,
            };
            placement(&spec, "spec")?
        }
    };
    let entries = overriding.and_then(|overriding| overriding["spec"]["overrides"].as_array());
    let overrides = entries
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(index, entry)| fields_of_spec(entry, index))
        .collect::<Result<_, _>>()?;
    federated(object, kind, leaf, placement, overrides)
}

/// An override of the three-object form names fields of the leaf's spec.
fn fields_of_spec(entry: &Value, index: usize) -> Result<Override, DialectError> {
    let field = format!("spec.overrides[{index}]");
    let (Some(cluster), Some(fields)) = (entry["clusterName"].as_str(), entry.as_object()) else {
        return Err(field_error(field, "give it a clusterName"));
    };
    let operations: Vec<Value> = fields
        .iter()
        .filter(|(name, _)| *name != "clusterName")
        .map(|(name, value)| {
            let path = name.replace('~', "~0").replace('/', "~1");
            json!({"op": "add", "path": format!("/spec/{path}"), "value": value})
        })
        .collect();
    let patch = serde_json::from_value(Value::Array(operations))
        .map_err(|error| field_error(field, error.to_string()))?;
    Ok(Override { clusters: Placement::Clusters(vec![cluster.to_owned()]), patch })
}

fn federated(
    object: &Value,
    kind: &Arc<Kind>,
    leaf: &Arc<Kind>,
    placement: Placement,
    overrides: Vec<Override>,
) -> Result<Federated, DialectError> {
    let template = &object["spec"]["template"];
    if !template.is_object() {
        return Err(field_error("spec.template", "the object that members shall hold is missing"));
    }
    let root = identity(object, kind);
    Ok(Federated {
        // Leaves have the name of the federated object, whatever the template says.
        leaf: ObjectId {
            kind: Arc::clone(leaf),
            namespace: root.namespace.clone().filter(|_| leaf.namespaced),
            name: root.name.clone(),
        },
        root_uid: uid(object),
        template: template.into(),
        placement,
        overrides,
        on_conflict: on_conflict(leaf, None),
        on_delete: OnDelete::Cascade,
        waves: Vec::new(),
        root,
    })
}

fn parsed<T: serde::de::DeserializeOwned + Default>(
    value: &Value,
    field: &str,
) -> Result<T, DialectError> {
    if value.is_null() {
        return Ok(T::default());
    }
    serde_json::from_value(value.clone()).map_err(|error| field_error(field, error.to_string()))
}
