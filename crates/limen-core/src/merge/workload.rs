//! Deployments and their like: counts are summed, conditions name their clusters.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{LeafStatus, conditions};

/// Numbers that are no counts, and must not be summed.
const NOT_COUNTS: [&str; 3] = ["observedGeneration", "collisionCount", "terminatingReplicas"];

/// The sum of all counts, with one condition per type.
pub(super) fn merge(leaves: &[LeafStatus<'_>], generation: i64) -> Value {
    let mut merged = Map::new();
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for leaf in leaves {
        for (field, value) in leaf.status.as_object().into_iter().flatten() {
            if let Some(count) = value.as_i64()
                && !NOT_COUNTS.contains(&field.as_str())
            {
                *sums.entry(field).or_default() += count;
            }
        }
    }
    merged.extend(sums.into_iter().map(|(field, sum)| (field.to_owned(), json!(sum))));
    // Waiting for a rollout compares this with the generation: it must not be there too early.
    if !leaves.is_empty() && leaves.iter().all(|leaf| leaf.current) {
        merged.insert("observedGeneration".to_owned(), json!(generation));
    }
    let conditions = merge_conditions(leaves);
    if !conditions.is_empty() {
        merged.insert("conditions".to_owned(), Value::Array(conditions));
    }
    Value::Object(merged)
}

/// One condition per type. A type that means well is true when it is true everywhere; one that
/// means trouble is true when it is true anywhere.
pub(super) fn merge_conditions(leaves: &[LeafStatus<'_>]) -> Vec<Value> {
    let mut types: BTreeMap<&str, Vec<(&str, bool, &Value)>> = BTreeMap::new();
    for leaf in leaves {
        for (kind, on, condition) in conditions(leaf.status) {
            types.entry(kind).or_default().push((leaf.cluster, on, condition));
        }
    }
    types.into_iter().map(|(kind, reports)| one_condition(kind, &reports, leaves.len())).collect()
}

fn one_condition(kind: &str, reports: &[(&str, bool, &Value)], leaves: usize) -> Value {
    let trouble = matches!(kind, "ReplicaFailure" | "Failed" | "FailureTarget" | "Suspended");
    let exceptional: Vec<_> = reports.iter().filter(|(_, on, _)| *on == trouble).collect();
    let missing = leaves - reports.len();
    let on = match trouble {
        true => !exceptional.is_empty(),
        false => exceptional.is_empty() && missing == 0,
    };
    let latest = reports.iter().map(|(_, _, condition)| *condition).max_by_key(|condition| {
        condition["lastTransitionTime"].as_str().unwrap_or_default().to_owned()
    });
    // What differs from the rest is what a person wants to read.
    let message = match exceptional.as_slice() {
        [] if missing > 0 => format!("{missing} of {leaves} clusters have not reported"),
        [] => format!("{} clusters agree", reports.len()),
        some => some
            .iter()
            .map(|(cluster, _, condition)| {
                format!("{cluster}: {}", condition["message"].as_str().unwrap_or_default())
            })
            .collect::<Vec<_>>()
            .join("; "),
    };
    let told = exceptional.first().map(|(_, _, condition)| *condition).or(latest);
    let mut condition = json!({
        "type": kind,
        "status": if on { "True" } else { "False" },
        "reason": told.map_or(json!("NotReported"), |condition| condition["reason"].clone()),
        "message": message,
    });
    for field in ["lastTransitionTime", "lastUpdateTime"] {
        if let Some(time) = latest.and_then(|latest| latest[field].as_str()) {
            condition[field] = json!(time);
        }
    }
    condition
}
