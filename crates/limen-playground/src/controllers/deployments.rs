//! Deployments: a ReplicaSet for each version of the template, and the way from one to the next.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fields::{condition, hash, is_leaving, news, number, owned_by, text};
use super::world::{Change, Key, World};

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// Brings every Deployment a step on.
pub(super) fn reconcile(world: &World, now: Timestamp, changes: &mut Vec<Change>) {
    for (key, deployment) in world.all("Deployment") {
        if is_leaving(deployment) {
            continue;
        }
        let version = hash(&deployment["spec"]["template"]);
        let sets = world.owned("ReplicaSet", deployment);
        let is_new = |set: &&&Value| set["metadata"]["labels"][HASH] == version.as_str();
        let new = sets.iter().find(is_new).copied();
        let old: Vec<&Value> = sets.iter().filter(|set| !is_new(set)).copied().collect();
        let steps = Steps::of(deployment, new, &old);
        match new {
            None => {
                let revision = 1 + old.iter().map(|set| revision(set)).max().unwrap_or(0);
                let made = replica_set(deployment, &version, steps.new, revision);
                changes.push(Change::Create("ReplicaSet", made));
            }
            Some(set) => changes.extend(scale(set, steps.new)),
        }
        changes.extend(old.iter().zip(&steps.old).filter_map(|(set, to)| scale(set, *to)));
        changes.extend(status(key, deployment, new, &sets, now));
    }
}

fn replicas(object: &Value) -> i64 {
    number(object, "/spec/replicas").unwrap_or(1)
}

fn available(set: &Value) -> i64 {
    number(set, "/status/availableReplicas").unwrap_or(0)
}

fn revision(set: &Value) -> i64 {
    set["metadata"]["annotations"][REVISION].as_str().and_then(|it| it.parse().ok()).unwrap_or(0)
}

fn scale(set: &Value, to: i64) -> Option<Change> {
    let part = |pointer: &str| text(set, pointer).to_owned();
    let key = (part("/metadata/namespace"), part("/metadata/name"));
    let patch = || Change::Patch("ReplicaSet", key, json!({"spec": {"replicas": to}}));
    (replicas(set) != to).then(patch)
}

/// How many pods each ReplicaSet may have next.
struct Steps {
    new: i64,
    old: Vec<i64>,
}

impl Steps {
    fn of(deployment: &Value, new: Option<&Value>, old: &[&Value]) -> Self {
        let wanted = replicas(deployment);
        let strategy = &deployment["spec"]["strategy"];
        let sizes: Vec<i64> = old.iter().map(|set| replicas(set)).collect();
        let now = new.map_or(0, replicas);
        if strategy["type"] == "Recreate" {
            let left: i64 = old.iter().filter_map(|set| number(set, "/status/replicas")).sum();
            let new = if left + sizes.iter().sum::<i64>() > 0 { now } else { wanted };
            return Self { new, old: vec![0; old.len()] };
        }
        let surge = share(&strategy["rollingUpdate"]["maxSurge"], wanted, true);
        let missing = share(&strategy["rollingUpdate"]["maxUnavailable"], wanted, false);
        // Both nothing would never end.
        let surge = if surge + missing == 0 { 1 } else { surge };
        let total = now + sizes.iter().sum::<i64>();
        let room = (wanted + surge - total).max(0);
        let next = if now > wanted { wanted } else { (now + room).min(wanted) };
        let pending = now - new.map_or(0, available);
        let mut spare = (total - (wanted - missing) - pending).max(0);
        let mut left = sizes.clone();
        // What does not work is of no use: it goes first.
        for working in [false, true] {
            for ((set, left), size) in old.iter().zip(&mut left).zip(&sizes) {
                let usable = available(set).min(*size);
                let may = if working { *left } else { *left - usable };
                let gone = may.min(spare).max(0);
                *left -= gone;
                spare -= gone;
            }
        }
        Self { new: next, old: left }
    }
}

/// A number, or a share of the whole, rounded up or down.
fn share(value: &Value, whole: i64, up: bool) -> i64 {
    if let Some(number) = value.as_i64() {
        return number;
    }
    let percent = value.as_str().and_then(|it| it.strip_suffix('%')).unwrap_or("25");
    let product = whole * percent.parse::<i64>().unwrap_or(25);
    if up { (product + 99) / 100 } else { product / 100 }
}

fn replica_set(deployment: &Value, version: &str, size: i64, revision: i64) -> Value {
    let mut template = deployment["spec"]["template"].clone();
    template["metadata"]["labels"][HASH] = json!(version);
    let mut selector = deployment["spec"]["selector"].clone();
    selector["matchLabels"][HASH] = json!(version);
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{version}", text(deployment, "/metadata/name")),
            "namespace": text(deployment, "/metadata/namespace"),
            "labels": template["metadata"]["labels"],
            "annotations": {REVISION: revision.to_string()},
            "ownerReferences": owned_by("apps/v1", "Deployment", deployment),
        },
        "spec": {"replicas": size, "selector": selector, "template": template},
    })
}

fn status(
    key: &Key,
    deployment: &Value,
    new: Option<&Value>,
    sets: &[&Value],
    now: Timestamp,
) -> Option<Change> {
    let sum = |pointer: &str| -> i64 { sets.iter().filter_map(|set| number(set, pointer)).sum() };
    let (all, ready) = (sum("/status/replicas"), sum("/status/readyReplicas"));
    let updated = new.and_then(|set| number(set, "/status/replicas")).unwrap_or(0);
    let wanted = replicas(deployment);
    let missing =
        share(&deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], wanted, false);
    let enough = ready >= wanted - missing;
    let done = updated == wanted && all == wanted && new.map_or(0, available) == wanted;
    let name = new.map_or("", |set| text(set, "/metadata/name"));
    let progress = match done {
        true => {
            ("NewReplicaSetAvailable", format!("ReplicaSet {name:?} has successfully progressed."))
        }
        false => ("ReplicaSetUpdated", format!("ReplicaSet {name:?} is progressing.")),
    };
    let available = match enough {
        true => ("MinimumReplicasAvailable", "Deployment has minimum availability."),
        false => ("MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
    };
    let status = json!({
        "replicas": all, "updatedReplicas": updated, "readyReplicas": ready,
        "availableReplicas": ready, "unavailableReplicas": (wanted - ready).max(0),
        "observedGeneration": number(deployment, "/metadata/generation").unwrap_or(1),
        "conditions": [
            condition("Available", enough, available.0, available.1),
            condition("Progressing", true, progress.0, &progress.1),
        ],
    });
    Some(Change::Status("Deployment", key.clone(), news(deployment, status, now)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(replicas: i64, strategy: &Value) -> Value {
        json!({"spec": {"replicas": replicas, "strategy": strategy}})
    }

    fn set(replicas: i64, available: i64) -> Value {
        json!({"spec": {"replicas": replicas},
            "status": {"replicas": replicas, "availableReplicas": available}})
    }

    #[test]
    fn a_rollout_never_has_too_few_or_too_many() {
        let rolling = json!({"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
        let recreate = json!({"type": "Recreate"});
        // What there is of the new (if any) and of the old, and what there may be next.
        for (strategy, wanted, new, old, next) in [
            (&rolling, 4, None, (4, 4), (1, 4)),
            (&rolling, 4, Some((1, 0)), (4, 4), (1, 4)),
            (&rolling, 4, Some((1, 1)), (4, 4), (1, 3)),
            (&rolling, 4, Some((1, 1)), (3, 3), (2, 3)),
            (&rolling, 4, Some((4, 4)), (1, 1), (4, 0)),
            (&rolling, 4, None, (4, 0), (1, 4)),
            (&recreate, 3, None, (3, 3), (0, 0)),
            (&recreate, 3, Some((0, 0)), (0, 0), (3, 0)),
        ] {
            let new = new.map(|(replicas, available)| set(replicas, available));
            let old = set(old.0, old.1);
            let steps = Steps::of(&deployment(wanted, strategy), new.as_ref(), &[&old]);
            assert_eq!((steps.new, steps.old[0]), next, "{wanted} {new:?} {old}");
        }
    }

    #[test]
    fn shares_are_rounded_as_kubernetes_rounds_them() {
        for (value, whole, up, result) in [
            (json!("25%"), 10, true, 3),
            (json!("25%"), 10, false, 2),
            (json!(null), 4, true, 1),
            (json!(7), 10, true, 7),
        ] {
            assert_eq!(share(&value, whole, up), result);
        }
    }
}
