//! Jobs: counts are summed; failed where one failed, complete only where all are.

use serde_json::{Map, Value, json};

use super::workload::merge_conditions;
use super::{LeafStatus, conditions};

/// The sum of the shares.
pub(super) fn merge(leaves: &[LeafStatus<'_>]) -> Value {
    let mut merged = Map::new();
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        let counts: Vec<_> = leaves.iter().filter_map(|leaf| leaf.status[field].as_i64()).collect();
        if !counts.is_empty() {
            merged.insert(field.to_owned(), json!(counts.iter().sum::<i64>()));
        }
    }
    // RFC 3339 in UTC sorts as text.
    let times =
        |field: &'static str| leaves.iter().filter_map(move |leaf| leaf.status[field].as_str());
    if let Some(start) = times("startTime").min() {
        merged.insert("startTime".to_owned(), json!(start));
    }
    let complete = |leaf: &LeafStatus<'_>| {
        conditions(leaf.status).any(|(kind, on, _)| kind == "Complete" && on)
    };
    if leaves.iter().all(complete)
        && let Some(end) = times("completionTime").max()
    {
        merged.insert("completionTime".to_owned(), json!(end));
    }
    let conditions: Vec<_> = merge_conditions(leaves)
        .into_iter()
        .filter(|condition| condition["status"] == "True")
        .collect();
    if !conditions.is_empty() {
        merged.insert("conditions".to_owned(), Value::Array(conditions));
    }
    Value::Object(merged)
}
