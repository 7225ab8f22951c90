//! Leaf statuses to a root's status.
//!
//! Each kind has its own rule: addresses are united, counts are summed, conditions name the
//! clusters they come from. A stale leaf counts like any other (an API server that cannot be
//! reached says nothing about the pods behind it); what says so is its mark in the
//! `FederatedStatus`.

mod addresses;
mod job;
mod workload;

use serde_json::Value;

use crate::federated::Kind;

/// What one member reports about its leaf.
#[derive(Clone, Copy, Debug)]
pub struct LeafStatus<'a> {
    /// The member.
    pub cluster: &'a str,
    /// The leaf's status as the member has it.
    pub status: &'a Value,
    /// Whether that status is about the leaf as it shall be.
    pub current: bool,
}

/// The status of a root, or nothing if its kind has none to show. `generation` is the root's.
/// Leaves are in the order of their clusters' names.
pub fn merge(kind: &Kind, leaves: &[LeafStatus<'_>], generation: i64) -> Option<Value> {
    match (kind.group(), kind.kind.as_str()) {
        ("networking.k8s.io", "Ingress") | ("", "Service") => Some(addresses::merge(leaves)),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            Some(workload::merge(leaves, generation))
        }
        ("autoscaling", "HorizontalPodAutoscaler") => Some(workload::merge(leaves, generation)),
        ("batch", "Job") => Some(job::merge(leaves)),
        _ => None,
    }
}

/// Whether a leaf's status says that the revision that was applied is available, as waves ask. A
/// status that is not current says nothing. Kinds without a status are available once they are there.
pub fn available(kind: &Kind, object_spec: &Value, leaf: LeafStatus<'_>) -> bool {
    let count = |field: &str| leaf.status[field].as_i64().unwrap_or(0);
    // Where replicas belong to an autoscaler, the status says how many there are.
    let wanted = || object_spec["replicas"].as_i64().unwrap_or_else(|| count("replicas").max(1));
    match (kind.group(), kind.kind.as_str()) {
        ("apps", "Deployment") => {
            leaf.current
                && count("updatedReplicas") >= wanted()
                && count("availableReplicas") >= wanted()
                && count("replicas") <= count("updatedReplicas")
        }
        ("apps", "ReplicaSet") => leaf.current && count("availableReplicas") >= wanted(),
        ("apps", "StatefulSet") => {
            let updated = count("updatedReplicas") >= wanted()
                || leaf.status["currentRevision"] == leaf.status["updateRevision"];
            leaf.current && updated && count("availableReplicas") >= wanted()
        }
        ("apps", "DaemonSet") => {
            let wanted = count("desiredNumberScheduled");
            leaf.current
                && count("updatedNumberScheduled") >= wanted
                && count("numberAvailable") >= wanted
        }
        ("batch", "Job") => {
            let failed = conditions(leaf.status).any(|(kind, on, _)| kind == "Failed" && on);
            !failed && (count("succeeded") > 0 || count("ready") > 0)
        }
        _ => true,
    }
}

/// Whether leaves of a kind reach a state from which they do not go on.
pub fn is_finite(kind: &Kind) -> bool {
    (kind.group(), kind.kind.as_str()) == ("batch", "Job")
}

/// Whether a leaf of this kind has reached a state from which it does not go on: a Job that has
/// completed or failed.
pub fn is_terminal(kind: &Kind, status: &Value) -> bool {
    let ended = |(kind, on, _): (&str, bool, &Value)| on && matches!(kind, "Complete" | "Failed");
    is_finite(kind) && conditions(status).any(ended)
}

/// The conditions of a status: type, whether it is true, and the whole of it.
fn conditions(status: &Value) -> impl Iterator<Item = (&str, bool, &Value)> {
    status["conditions"].as_array().into_iter().flatten().filter_map(|condition| {
        Some((condition["type"].as_str()?, condition["status"] == "True", condition))
    })
}

#[cfg(test)]
mod tests;
