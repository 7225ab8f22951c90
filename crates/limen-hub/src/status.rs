//! What people read about a root: its own status, and the `FederatedStatus` beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use limen_api::{GovernedBy, LeafReport, LeafState, OnDeleteSpec};
use limen_core::federated::{Kind, ObjectId, OnDelete};
use limen_core::lifecycle::Governed;
use limen_core::merge::{LeafStatus, merge};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::clusters::Members;
use crate::conditions::condition;
use crate::roots::{Memory, Root};

/// The root's own status, merged from its leaves, if its kind has one.
pub(crate) fn merged(root: &Root) -> Option<Value> {
    let federated = root.federated.as_ref().ok()?;
    // A federated form has a schema of its own; only native objects show the status of leaves.
    if federated.root != federated.leaf {
        return None;
    }
    // Another root's leaf of the same name says nothing about this one.
    let is_leaf = |report: &limen_sync::Report| report.held_for.as_deref() == Some(root.uid());
    let leaves: Vec<_> = root
        .reports
        .iter()
        .filter(|(name, report)| is_leaf(report) && root.desired.contains_key(*name))
        .filter_map(|(name, report)| {
            let status = report.status.as_deref()?;
            Some(LeafStatus { cluster: name, status, current: report.current })
        })
        .collect();
    let generation = root.object["metadata"]["generation"].as_i64().unwrap_or(0);
    let mut status = merge(&federated.leaf.kind, &leaves, generation)?;
    // Members without a status have not observed or completed anything yet.
    let has_status = |name: &Arc<str>| {
        let report = root.reports.get(name).filter(|report| is_leaf(report));
        report.is_some_and(|report| report.status.is_some()) || root.memory.ended_in.contains(name)
    };
    if !root.plan.leaves.keys().all(has_status)
        && let Some(status) = status.as_object_mut()
    {
        status.remove("observedGeneration");
        status.remove("completionTime");
        if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
            conditions.retain(|condition| condition["type"] != "Complete");
        }
    }
    Some(status)
}

/// Where the `FederatedStatus` of a root is.
pub(crate) fn report_id(root: &ObjectId) -> ObjectId {
    let (namespace, name) = limen_api::record_of(root);
    ObjectId { kind: report_kind(), namespace: Some(namespace), name }
}

/// The kind of a `FederatedStatus`.
pub(crate) fn report_kind() -> Arc<Kind> {
    limen_api::kind(("limen.dev/v1alpha1", "FederatedStatus", "federatedstatuses", true))
}

/// Memory of a written record: its content, for comparison with the next one, and its version, which
/// the next one replaces.
pub(crate) fn recorded(record: &Value) -> Box<str> {
    let metadata = &record["metadata"];
    let (owners, version) = (&metadata["ownerReferences"], &metadata["resourceVersion"]);
    json!({"owners": owners, "version": version, "spec": record["spec"]}).to_string().into()
}

/// The facts that a record keeps over a restart.
pub(crate) fn memory(recorded: &str) -> Memory {
    let recorded: Value = serde_json::from_str(recorded).unwrap_or_default();
    let spec = &recorded["spec"];
    let leaves = || spec["clusters"].as_array().into_iter().flatten();
    let name = |leaf: &Value| Some(Arc::from(leaf["cluster"].as_str()?));
    let names = |value: &Value| {
        let names = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        names.map(Arc::from).collect()
    };
    let holds = |leaf: &&Value| {
        leaf["presumed"] == true
            || matches!(leaf["state"].as_str(), Some("Synced" | "Held" | "Deleting"))
    };
    Memory {
        governed: spec["governed"]["policy"].as_str().map(|policy| Governed {
            policy: policy.to_owned(),
            placed: names(&spec["governed"]["clusters"]),
        }),
        on_delete: match spec["onDelete"].as_str() {
            Some("Cascade") => Some(OnDelete::Cascade),
            Some("Orphan") => Some(OnDelete::Orphan),
            _ => None,
        },
        ended_in: names(&spec["ended"]),
        holders: leaves().filter(holds).filter_map(name).collect(),
    }
}

/// Whether a record that is remembered is about a root.
pub(crate) fn is_about(recorded: &str, root_uid: &str) -> bool {
    let recorded: Value = serde_json::from_str(recorded).unwrap_or_default();
    recorded["owners"][0]["uid"] == root_uid
}

/// The `FederatedStatus` of a root, if it differs from what was written last, with the version that
/// it replaces. States that have not
/// changed keep their times. `unserved` is why its clients are not served as they should be.
pub(crate) fn report(
    id: &ObjectId,
    root: &Root,
    members: &Members,
    unserved: Option<&str>,
    now: jiff::Timestamp,
) -> Option<Value> {
    let written = root.written_report.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let written: Value = written.unwrap_or_default();
    let before: BTreeMap<&str, &Value> = written["spec"]["clusters"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|leaf| Some((leaf["cluster"].as_str()?, leaf)))
        .collect();
    let kind =
        root.federated.as_ref().map_or_else(|_| id.kind.clone(), |known| known.leaf.kind.clone());
    let mut leaves: Vec<LeafReport> = Vec::new();
    for (name, member) in members {
        let stale = member.away() || member.has_lost(&kind) || member.is_another();
        let Some(leaf) = leaf_report(root, name, stale) else { continue };
        leaves.push(leaf);
    }
    let selected = root.plan.leaves.len() + root.plan.refused.len();
    let synced = leaves.iter().filter(|leaf| leaf.state == LeafState::Synced).count();
    let message = message(root, &leaves);
    let conditions = conditions(root, &written, (synced, selected), (&message, unserved), now);
    let message = if message.is_empty() { unserved.unwrap_or_default() } else { &message };
    let since = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let clusters: Vec<Value> = leaves
        .iter()
        .map(|leaf| {
            let mut value = serde_json::to_value(leaf).unwrap_or_default();
            let old = before.get(leaf.cluster.as_str());
            let same = old.filter(|old| old["state"] == value["state"]);
            value["since"] = same.map_or_else(|| json!(since), |old| old["since"].clone());
            value
        })
        .collect();
    let owners = json!([{
        "apiVersion": id.kind.api_version, "kind": id.kind.kind,
        "name": id.name, "uid": root.uid()}]);
    let mut spec = json!({
        "root": {"apiVersion": id.kind.api_version, "kind": id.kind.kind, "name": id.name,
            "generation": root.object["metadata"]["generation"].as_i64().unwrap_or(0)},
        "synced": format!("{synced}/{selected}"),
        "message": message,
        "conditions": conditions,
        "governed": root.memory.governed.as_ref().map(|governed| GovernedBy {
            policy: governed.policy.clone(),
            clusters: governed.placed.iter().map(ToString::to_string).collect(),
        }),
        "clusters": clusters});
    let ended: Vec<&str> = root.memory.ended_in.iter().map(|name| &**name).collect();
    if !ended.is_empty() {
        spec["ended"] = json!(ended);
    }
    if let Some(fate) = root.memory.on_delete {
        spec["onDelete"] = json!(match fate {
            OnDelete::Cascade => OnDeleteSpec::Cascade,
            OnDelete::Orphan => OnDeleteSpec::Orphan,
        });
    }
    if written["owners"] == owners && written["spec"] == spec {
        return None;
    }
    let record = report_id(id);
    let metadata = json!({"name": record.name, "namespace": record.namespace,
        "resourceVersion": written["version"], "ownerReferences": owners});
    Some(json!({
        "apiVersion": record.kind.api_version, "kind": record.kind.kind,
        "metadata": metadata, "spec": spec}))
}

/// Whether the record of a root shows that the root was deleted with its leaves to be left behind.
///
/// A root that is deleted so has the finalizer `orphan` only until the garbage collector has made
/// what the root owns nobody's. The record is owned by the root, so it tells of that ever after,
/// also to a hub that was not there.
pub(crate) fn was_let_go(record: Option<&Value>, root_uid: &str) -> bool {
    let Some(record) = record else { return false };
    let owners = record["metadata"]["ownerReferences"].as_array();
    let of_a_root = record["spec"]["root"].is_object() && !root_uid.is_empty();
    of_a_root && owners.is_none_or(Vec::is_empty)
}

fn leaf_report(root: &Root, name: &Arc<str>, away: bool) -> Option<LeafReport> {
    let report = root.reports.get(name);
    let planned = root.plan.leaves.contains_key(&**name);
    let refused = root.plan.refused.get(&**name);
    let (state, message) = match (report, refused) {
        (_, Some(error)) => (LeafState::Failed, error.to_string()),
        _ if root.losing.contains(name) && root.hold.is_some() => {
            (LeafState::Held, "its deletion waits to be released".to_owned())
        }
        _ if root.waiting.contains(name) => {
            (LeafState::Waiting, "an earlier wave is not done".to_owned())
        }
        (Some(report), None) if report.state.is_some() || report.held_for.is_some() => {
            (report.state.unwrap_or_default(), report.message.clone())
        }
        _ if planned => (LeafState::Pending, String::new()),
        // It goes when the member can show it again.
        _ if root.memory.holders.contains(name) => (LeafState::Deleting, String::new()),
        _ => return None,
    };
    let held = report.is_some_and(|report| report.held_for.is_some());
    let ended = root.memory.ended_in.contains(name);
    let message = match ended && !held && message.is_empty() {
        true => "finished; it is not created again".to_owned(),
        false => message,
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
        presumed: match held {
            true => state == LeafState::Waiting,
            false => root.memory.holders.contains(name),
        },
        status: report.and_then(|report| report.status.as_deref().cloned()),
    })
}

fn message(root: &Root, leaves: &[LeafReport]) -> String {
    if let Err(error) = &root.federated {
        return format!("{error}; nothing is changed in any cluster until this is mended");
    }
    if let Some((name, accident)) = &root.hold {
        return format!("held: {accident}; limen release {name} carries it out");
    }
    if let Some((name, accident)) = &root.kept {
        return format!("held: {accident}; limen release {name} lets it");
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

fn conditions(
    root: &Root,
    written: &Value,
    (synced, selected): (usize, usize),
    (message, unserved): (&str, Option<&str>),
    now: jiff::Timestamp,
) -> Vec<Condition> {
    let before = Vec::<Condition>::deserialize(&written["spec"]["conditions"]).unwrap_or_default();
    let make = |kind: &str, on: bool, reason: &str, message: &str| {
        condition(&before, kind, if on { "True" } else { "False" }, reason, message, now)
    };
    let understood = root.federated.is_ok();
    let held = root.hold.as_ref().or(root.kept.as_ref());
    let all = understood && held.is_none() && synced == selected;
    let mut conditions = vec![
        make("Placed", understood, if understood { "Planned" } else { "NotUnderstood" }, ""),
        make("Synced", all, if all { "AllClusters" } else { "NotYet" }, message),
    ];
    if let Some((name, accident)) = held {
        conditions.push(make("Held", true, "BlastRadius", &format!("{accident} (hold {name})")));
    }
    if let Some(why) = unserved {
        conditions.push(make("Served", false, "Traffic", why));
    }
    conditions
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use limen_core::federated::{Federated, OnConflict, Placement};
    use limen_core::leaf::Leaf;
    use limen_sync::{Desired, Report};

    use super::*;

    #[test]
    fn a_record_that_was_made_nobodys_tells_of_orphans() {
        let record = |owners: Value| json!({"metadata": {"ownerReferences": owners}, "spec": {"root": {"name": "a"}}});
        let ours = record(json!([{"uid": "u-1"}]));
        let anothers = record(json!([{"uid": "u-2"}]));
        for (found, let_go) in [
            (None, false),
            (Some(&ours), false),
            (Some(&anothers), false),
            (Some(&record(json!([]))), true),
            (Some(&record(Value::Null)), true),
        ] {
            assert_eq!(was_let_go(found, "u-1"), let_go, "{found:?}");
        }
    }

    #[test]
    fn leaves_that_a_member_cannot_show_are_remembered_over_a_restart() {
        let clusters = json!([
            {"cluster": "africa", "state": "Failed"},
            {"cluster": "asia", "state": "Failed", "presumed": true},
            {"cluster": "europe", "state": "Synced"}]);
        let memory = memory(&json!({"spec": {"clusters": clusters}}).to_string());
        assert_eq!(memory.holders, BTreeSet::from(["asia".into(), "europe".into()]));
    }

    #[test]
    fn a_finished_job_is_remembered_where_it_is_selected_no_more() {
        let clusters = json!([{"cluster": "europe", "state": "Synced"}]);
        let spec = json!({"ended": ["asia"], "clusters": clusters});
        let memory = memory(&json!({"spec": spec}).to_string());
        assert_eq!(memory.ended_in, BTreeSet::from(["asia".into()]));
    }

    #[test]
    fn a_job_is_complete_when_every_selected_member_has_run_it() {
        let kind = limen_api::kind(("batch/v1", "Job", "jobs", true));
        let id = ObjectId { kind, namespace: Some("shop".to_owned()), name: "once".to_owned() };
        let federated = Federated {
            root: id.clone(),
            root_uid: "u-1".to_owned(),
            leaf: id,
            template: (&json!({})).into(),
            placement: Placement::Nowhere,
            overrides: Vec::new(),
            on_conflict: OnConflict::Abort,
            on_delete: OnDelete::Cascade,
            waves: Vec::new(),
        };
        let object = json!({"metadata": {"name": "once", "uid": "u-1"}});
        let mut root = Root::new(Arc::new(object), Ok(Arc::new(federated)));
        let leaf = Arc::new(Leaf {
            object: (&json!({})).into(),
            hash: "h".into(),
            handed_over: Vec::new(),
        });
        for name in ["africa", "asia"] {
            root.plan.leaves.insert(name.into(), leaf.clone());
            let desired =
                Desired::Leaf { leaf: leaf.clone(), on_conflict: OnConflict::Abort, create: true };
            root.desired.insert(name.into(), root.desire(desired));
        }
        let status = json!({"succeeded": 1, "completionTime": "2026-11-16T05:03:07Z",
            "conditions": [{"type": "Complete", "status": "True"}]});
        let report = Report {
            held_for: Some("u-1".into()),
            state: Some(LeafState::Synced),
            message: String::new(),
            status: Some(Arc::new(status)),
            current: true,
            applied: None,
            adopted: false,
        };
        root.reports.insert("asia".into(), report);
        let complete = |root: &Root| {
            let status = merged(root).unwrap();
            (status["conditions"][0]["type"] == "Complete", status["completionTime"].is_string())
        };
        assert_eq!(complete(&root), (false, false), "africa has not run it");
        root.memory.ended_in.insert("africa".into());
        assert_eq!(complete(&root), (true, true), "its leaf in africa has expired");
    }
}
