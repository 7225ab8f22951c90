//! Template × placement × overrides: one leaf per member.

use std::collections::BTreeMap;
use std::sync::Arc;

use json_patch::Patch;
use serde_json::Value;

use crate::federated::Federated;
use crate::leaf::{self, Leaf};
use crate::placement::Clusters;

/// What members shall hold of one root.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The leaf of each selected member. Members with equal leaves share one.
    pub leaves: BTreeMap<Arc<str>, Arc<Leaf>>,
    /// Members whose overrides cannot be applied: they keep what they have.
    pub refused: BTreeMap<Arc<str>, OverrideError>,
}

/// An override that does not fit its template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("override {index} cannot be applied: {reason}")]
pub struct OverrideError {
    /// Which one, counted from 0.
    pub index: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// A leaf, or the override that does not fit.
type Made = Result<Arc<Leaf>, OverrideError>;

/// Plans the leaves of one root. `hub` names the hub in the marks that leaves carry; `handed_over`
/// has, for each member, the fields that another controller there is to own, as JSON pointers.
pub fn plan(
    federated: &Federated,
    clusters: &Clusters,
    hub: &str,
    handed_over: &BTreeMap<Arc<str>, Vec<String>>,
) -> Plan {
    let base = leaf::shape(federated);
    let mut plan = Plan::default();
    // Overrides are few and members many: leaves are made once per distinct set of overrides and
    // of handed-over fields.
    let mut made: BTreeMap<(Vec<usize>, &[String]), Made> = BTreeMap::new();
    for (name, facts) in clusters {
        if !federated.placement.selects(name, facts) {
            continue;
        }
        let applying: Vec<usize> = (0..federated.overrides.len())
            .filter(|&index| federated.overrides[index].clusters.selects(name, facts))
            .collect();
        let handed_over = handed_over.get(name).map_or(&[][..], Vec::as_slice);
        let leaf = made.entry((applying, handed_over)).or_insert_with_key(|(applying, fields)| {
            let object = overridden(base.clone(), federated, applying)?;
            Ok(Arc::new(leaf::finish(object, federated, hub, fields)))
        });
        match leaf {
            Ok(leaf) => drop(plan.leaves.insert(Arc::clone(name), Arc::clone(leaf))),
            Err(error) => drop(plan.refused.insert(name.clone(), error.clone())),
        }
    }
    plan
}

fn overridden(
    mut object: Value,
    federated: &Federated,
    applying: &[usize],
) -> Result<Value, OverrideError> {
    let identity = |object: &Value| {
        (object["metadata"]["name"].clone(), object["metadata"]["namespace"].clone())
    };
    let before = identity(&object);
    for &index in applying {
        let Patch(operations) = &federated.overrides[index].patch;
        let refuse = |reason: String| OverrideError { index, reason };
        json_patch::patch(&mut object, operations).map_err(|error| refuse(error.to_string()))?;
        if !object.is_object() || identity(&object) != before {
            return Err(refuse("it changes which object this is".to_owned()));
        }
    }
    Ok(object)
}

#[cfg(test)]
mod tests;
