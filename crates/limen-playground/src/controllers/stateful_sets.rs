//! StatefulSets: pods with numbers, one after the other.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fields::{hash, is_leaving, news, number, text};
use super::replicas::{delete, is_active, is_ready, pod};
use super::world::{Change, Key, World};

const REVISION: &str = "controller-revision-hash";

/// Brings every StatefulSet a step on.
pub(super) fn reconcile(world: &World, now: Timestamp, changes: &mut Vec<Change>) {
    for (key, set) in world.all("StatefulSet") {
        if !is_leaving(set) {
            let mut pods = world.owned("Pod", set);
            pods.sort_by_key(|it| ordinal(it));
            let revision = format!("{}-{}", key.1, hash(&set["spec"]["template"]));
            changes.extend(step(key, set, &pods, &revision));
            changes.extend(status(key, set, &pods, &revision, now));
        }
    }
}

fn ordinal(pod: &Value) -> i64 {
    let number = text(pod, "/metadata/name").rsplit('-').next();
    number.and_then(|number| number.parse().ok()).unwrap_or(i64::MAX)
}

fn is_current(pod: &Value, revision: &str) -> bool {
    pod["metadata"]["labels"][REVISION] == revision
}

fn step(key: &Key, set: &Value, pods: &[&Value], revision: &str) -> Vec<Change> {
    let wanted = number(set, "/spec/replicas").unwrap_or(1);
    let at_once = set["spec"]["podManagementPolicy"] == "Parallel";
    let mut changes = Vec::new();
    for index in 0..wanted {
        match pods.iter().find(|it| ordinal(it) == index) {
            Some(found) if is_ready(found) || at_once => {}
            Some(_) => return changes,
            None => {
                let name = format!("{}-{index}", key.1);
                let mut made =
                    pod(set, ("apps/v1", "StatefulSet"), &set["spec"]["template"], &name);
                made["metadata"]["labels"][REVISION] = json!(revision);
                made["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = json!(name);
                made["metadata"]["labels"]["apps.kubernetes.io/pod-index"] =
                    json!(index.to_string());
                made["spec"]["hostname"] = json!(name);
                changes.push(Change::Create("Pod", made));
                if !at_once {
                    return changes;
                }
            }
        }
    }
    let surplus = pods.iter().rev().find(|it| ordinal(it) >= wanted);
    let on_delete = set["spec"]["updateStrategy"]["type"] == "OnDelete";
    let first = number(set, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0);
    let outdated = pods.iter().rev().find(|it| {
        !on_delete && ordinal(it) >= first && ordinal(it) < wanted && !is_current(it, revision)
    });
    changes.extend(surplus.or(outdated).map(|it| delete("Pod", it)));
    changes
}

fn status(
    key: &Key,
    set: &Value,
    pods: &[&Value],
    revision: &str,
    now: Timestamp,
) -> Option<Change> {
    let count = |fits: &dyn Fn(&Value) -> bool| pods.iter().filter(|it| fits(it)).count();
    let ready = count(&is_ready);
    let updated = count(&|it| is_active(it) && is_current(it, revision));
    let all = count(&is_active);
    let before = text(set, "/status/currentRevision");
    let current = if updated == all || before.is_empty() { revision } else { before };
    let status = json!({
        "replicas": all, "readyReplicas": ready, "availableReplicas": ready,
        "currentReplicas": count(&|it| is_active(it) && is_current(it, current)),
        "updatedReplicas": updated, "currentRevision": current, "updateRevision": revision,
        "collisionCount": 0,
        "observedGeneration": number(set, "/metadata/generation").unwrap_or(1),
    });
    Some(Change::Status("StatefulSet", key.clone(), news(set, status, now)?))
}
