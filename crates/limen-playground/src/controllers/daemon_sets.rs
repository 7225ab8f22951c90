//! DaemonSets: a pod on every node.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fields::{hash, is_leaving, news, number, suffix, text};
use super::replicas::{delete, is_active, is_ready, pod};
use super::world::{Change, World};

const REVISION: &str = "controller-revision-hash";

/// Keeps the pods of every DaemonSet.
pub(super) fn reconcile(world: &World, now: Timestamp, changes: &mut Vec<Change>) {
    for (key, set) in world.all("DaemonSet") {
        if is_leaving(set) {
            continue;
        }
        let template = &set["spec"]["template"];
        let revision = hash(template);
        let pods = world.owned("Pod", set);
        let pods: Vec<&Value> = pods.into_iter().filter(|it| is_active(it)).collect();
        let current = |it: &Value| it["metadata"]["labels"][REVISION] == revision.as_str();
        let nodes: Vec<&str> = world.all("Node").map(|(key, _)| key.1.as_str()).collect();
        for node in &nodes {
            if pods.iter().any(|it| text(it, "/spec/nodeName") == *node) {
                continue;
            }
            let name = format!("{}-{}", key.1, suffix());
            let mut made = pod(set, ("apps/v1", "DaemonSet"), template, &name);
            made["spec"]["nodeName"] = json!(node);
            made["metadata"]["labels"][REVISION] = json!(revision);
            changes.push(Change::Create("Pod", made));
        }
        let lost = |it: &Value| !nodes.contains(&text(it, "/spec/nodeName"));
        changes.extend(pods.iter().filter(|it| lost(it)).map(|it| delete("Pod", it)));
        // One after the other, so that the rest goes on.
        let rolling = set["spec"]["updateStrategy"]["type"] != "OnDelete";
        if rolling && pods.iter().all(|it| is_ready(it)) {
            let outdated = pods.iter().find(|it| !current(it));
            changes.extend(outdated.map(|it| delete("Pod", it)));
        }
        let ready = pods.iter().filter(|it| is_ready(it)).count();
        let status = json!({
            "desiredNumberScheduled": nodes.len(), "currentNumberScheduled": pods.len(),
            "numberReady": ready, "numberAvailable": ready, "numberMisscheduled": 0,
            "numberUnavailable": nodes.len().saturating_sub(ready),
            "updatedNumberScheduled": pods.iter().filter(|it| current(it)).count(),
            "observedGeneration": number(set, "/metadata/generation").unwrap_or(1),
        });
        let status = news(set, status, now);
        changes.extend(status.map(|it| Change::Status("DaemonSet", key.clone(), it)));
    }
}
