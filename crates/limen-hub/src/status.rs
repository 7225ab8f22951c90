//! What people read about a root: its own status, and the `FederatedStatus` beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use limen_api::{LeafReport, LeafState, NAMESPACE};
use limen_core::federated::ObjectId;
use limen_core::merge::{LeafStatus, merge};
use serde_json::{Value, json};

use crate::clusters::Members;
use crate::roots::Root;

/// The root's own status, merged from its leaves, if its kind has one.
pub(crate) fn merged(root: &Root) -> Option<Value> {
    let federated = root.federated.as_ref().ok()?;
    // A federated form has a schema of its own; only native objects show the status of leaves.
    if federated.root != federated.leaf {
        return None;
    }
    let leaves: Vec<_> = root
        .reports
        .iter()
        .filter(|(name, report)| report.held_for.is_some() && root.wishes.contains_key(*name))
        .filter_map(|(name, report)| {
            let status = report.status.as_deref()?;
            Some(LeafStatus { cluster: name, status, current: report.current })
        })
        .collect();
    let generation = root.object["metadata"]["generation"].as_i64().unwrap_or(0);
    let mut status = merge(&federated.leaf.kind, &leaves, generation)?;
    // Leaves without a status at all have not observed anything yet.
    let all = root.plan.leaves.len();
    if leaves.len() < all
        && let Some(status) = status.as_object_mut()
    {
        status.remove("observedGeneration");
    }
    Some(status)
}

/// Where the `FederatedStatus` of a root is.
pub(crate) fn report_id(root: &ObjectId) -> ObjectId {
    let kind =
        limen_api::kind(("limen.dev/v1alpha1", "FederatedStatus", "federatedstatuses", true));
    let namespace = match (&root.namespace, root.kind.kind.as_str()) {
        (Some(namespace), _) => namespace.clone(),
        (None, "Namespace") => root.name.clone(),
        (None, _) => NAMESPACE.to_owned(),
    };
    let name = format!("{}.{}", root.kind.kind.to_lowercase(), root.name);
    ObjectId { kind, namespace: Some(namespace), name }
}

/// The `FederatedStatus` of a root. `before` has the times of states that have not changed.
pub(crate) fn report(id: &ObjectId, root: &Root, members: &Members, now: &str) -> Value {
    let before: BTreeMap<&str, &Value> = root
        .written_report
        .as_ref()
        .and_then(|report| report["spec"]["clusters"].as_array())
        .into_iter()
        .flatten()
        .filter_map(|leaf| Some((leaf["cluster"].as_str()?, leaf)))
        .collect();
    let mut leaves: Vec<LeafReport> = Vec::new();
    for (name, member) in members {
        let Some(leaf) = leaf_report(root, name, member.away()) else { continue };
        leaves.push(leaf);
    }
    let selected = root.plan.leaves.len() + root.plan.refused.len();
    let synced = leaves.iter().filter(|leaf| leaf.state == LeafState::Synced).count();
    let message = message(root, &leaves);
    let clusters: Vec<Value> = leaves
        .iter()
        .map(|leaf| {
            let mut value = serde_json::to_value(leaf).unwrap_or_default();
            let old = before.get(leaf.cluster.as_str());
            let same = old.filter(|old| old["state"] == value["state"]);
            value["since"] = same.map_or(json!(now), |old| old["since"].clone());
            value
        })
        .collect();
    let placement = report_id(id);
    json!({
        "apiVersion": "limen.dev/v1alpha1", "kind": "FederatedStatus",
        "metadata": {
            "name": placement.name, "namespace": placement.namespace,
            "ownerReferences": [{
                "apiVersion": id.kind.api_version, "kind": id.kind.kind,
                "name": id.name, "uid": root.uid()}]},
        "spec": {
            "root": {"apiVersion": id.kind.api_version, "kind": id.kind.kind, "name": id.name,
                "generation": root.object["metadata"]["generation"].as_i64().unwrap_or(0)},
            "synced": format!("{synced}/{selected}"),
            "message": message,
            "conditions": conditions(root, synced, selected, &message, now),
            "clusters": clusters}})
}

fn leaf_report(root: &Root, name: &Arc<str>, away: bool) -> Option<LeafReport> {
    let report = root.reports.get(name);
    let planned = root.plan.leaves.contains_key(&**name);
    let refused = root.plan.refused.get(&**name);
    let (state, message) = match (report, refused) {
        (_, Some(error)) => (LeafState::Failed, error.to_string()),
        _ if root.losing.contains(name) && root.held.is_some() => {
            (LeafState::Held, "its deletion waits to be released".to_owned())
        }
        _ if root.waiting.contains(name) => {
            (LeafState::Waiting, "an earlier wave is not done".to_owned())
        }
        (Some(report), None) if report.state.is_some() || report.held_for.is_some() => {
            (report.state.unwrap_or_default(), report.message.clone())
        }
        _ if planned => (LeafState::Pending, String::new()),
        _ => return None,
    };
    let message = match (message.is_empty(), away) {
        (true, true) if state != LeafState::Synced => "the cluster cannot be reached".to_owned(),
        _ => message,
    };
    Some(LeafReport {
        cluster: name.to_string(),
        state,
        message,
        since: None,
        stale: away,
        status: report.and_then(|report| report.status.as_deref().cloned()),
    })
}

fn message(root: &Root, leaves: &[LeafReport]) -> String {
    if let Err(error) = &root.federated {
        return format!("{error}; nothing is changed in any cluster until this is mended");
    }
    if let Some((reason, mark)) = &root.held {
        return format!("held: {reason}; limen release lets it go on (mark {mark})");
    }
    let troubled: Vec<_> = leaves
        .iter()
        .filter(|leaf| matches!(leaf.state, LeafState::Failed | LeafState::Conflict))
        .collect();
    match troubled.as_slice() {
        [] if root.plan.leaves.is_empty() && root.deleting.is_none() => {
            "no cluster is selected".to_owned()
        }
        [] => String::new(),
        [one] => format!("{}: {}", one.cluster, one.message),
        [first, rest @ ..] => {
            format!("{}: {} (and {} more clusters)", first.cluster, first.message, rest.len())
        }
    }
}

fn conditions(root: &Root, synced: usize, selected: usize, message: &str, now: &str) -> Value {
    let old = root.written_report.as_ref().map(|report| &report["spec"]["conditions"]);
    let make = |kind: &str, on: bool, reason: &str, message: &str| {
        let status = if on { "True" } else { "False" };
        let same = old
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == kind && condition["status"] == status);
        let since = same.map_or(json!(now), |condition| condition["lastTransitionTime"].clone());
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": since})
    };
    let understood = root.federated.is_ok();
    let all = understood && root.held.is_none() && synced == selected;
    let mut conditions = vec![
        make("Placed", understood, if understood { "Planned" } else { "NotUnderstood" }, ""),
        make("Synced", all, if all { "AllClusters" } else { "NotYet" }, message),
    ];
    if let Some((reason, _)) = &root.held {
        conditions.push(make("Held", true, "BlastRadius", &reason.to_string()));
    }
    Value::Array(conditions)
}
