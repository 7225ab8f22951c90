//! Pods from templates, and ReplicaSets, which keep a number of them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fields::{holds, is_leaving, list, news, number, owned_by, suffix, text, uid};
use super::world::{Change, Key, World};

/// Whether a pod still counts.
pub(super) fn is_active(pod: &Value) -> bool {
    !["Succeeded", "Failed"].contains(&text(pod, "/status/phase")) && !is_leaving(pod)
}

/// Whether requests may be sent to a pod.
pub(super) fn is_ready(pod: &Value) -> bool {
    is_active(pod) && holds(pod, "Ready")
}

/// A new pod as a template has it.
pub(super) fn pod(owner: &Value, kind: (&str, &str), template: &Value, name: &str) -> Value {
    let mut metadata = json!({
        "name": name,
        "namespace": text(owner, "/metadata/namespace"),
        "ownerReferences": owned_by(kind.0, kind.1, owner),
    });
    for field in ["labels", "annotations"] {
        let found = &template["metadata"][field];
        if found.is_object() {
            metadata[field] = found.clone();
        }
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

/// Deletes an object.
pub(super) fn delete(kind: &'static str, object: &Value) -> Change {
    let part = |pointer: &str| text(object, pointer).to_owned();
    let key = (part("/metadata/namespace"), part("/metadata/name"));
    Change::Delete(kind, key, uid(object).to_owned())
}

/// Keeps the pods of every ReplicaSet.
pub(super) fn reconcile(world: &World, now: Timestamp, changes: &mut Vec<Change>) {
    for (key, set) in world.all("ReplicaSet") {
        if is_leaving(set) {
            continue;
        }
        let pods: Vec<&Value> =
            world.owned("Pod", set).into_iter().filter(|it| is_active(it)).collect();
        let wanted = usize::try_from(number(set, "/spec/replicas").unwrap_or(1)).unwrap_or(0);
        for _ in pods.len()..wanted {
            let name = format!("{}-{}", key.1, suffix());
            let made = pod(set, ("apps/v1", "ReplicaSet"), &set["spec"]["template"], &name);
            changes.push(Change::Create("Pod", made));
        }
        let mut leaving = pods.clone();
        // Those that are of no use yet go first, then the youngest.
        leaving.sort_by_key(|it| {
            let born = text(it, "/metadata/creationTimestamp");
            (is_ready(it), std::cmp::Reverse((born, text(it, "/metadata/name"))))
        });
        let surplus = pods.len().saturating_sub(wanted);
        changes.extend(leaving.into_iter().take(surplus).map(|it| delete("Pod", it)));
        changes.extend(status(key, set, &pods, now));
    }
}

fn status(key: &Key, set: &Value, pods: &[&Value], now: Timestamp) -> Option<Change> {
    let ready = pods.iter().filter(|it| is_ready(it)).count();
    let status = json!({
        "replicas": pods.len(), "fullyLabeledReplicas": pods.len(),
        "readyReplicas": ready, "availableReplicas": ready,
        "observedGeneration": number(set, "/metadata/generation").unwrap_or(1),
    });
    Some(Change::Status("ReplicaSet", key.clone(), news(set, status, now)?))
}

/// The ports that the containers of a pod declare.
pub(super) fn ports(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, "/spec/containers").iter().flat_map(|container| list(container, "/ports"))
}
