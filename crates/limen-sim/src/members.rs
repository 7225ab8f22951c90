//! The controllers of a simulated cluster: Deployments roll out, Jobs finish, autoscalers scale.

use serde_json::{Value, json};

use crate::actor::Actor;
use crate::api::{Cause, Key, Server};

/// The field manager of a cluster's own controllers.
const MANAGER: &str = "kube-controller-manager";
/// How long a Job runs, in seconds.
const JOB_SECONDS: i64 = 5;

/// Whether a Job has reached a terminal state.
pub fn is_finished(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array();
    conditions.is_some_and(|conditions| {
        conditions.iter().any(|condition| {
            condition["status"] == "True"
                && ["Complete", "Failed"].iter().any(|name| condition["type"] == *name)
        })
    })
}

/// Whether a Deployment has its newest revision available everywhere.
pub fn is_rolled_out(deployment: &Value) -> bool {
    let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
    let status = &deployment["status"];
    let counted = |field: &str| status[field].as_i64().unwrap_or(0) == wanted;
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && counted("updatedReplicas")
        && counted("availableReplicas")
}

/// One step of every controller of a cluster, at a time in seconds since 1970.
pub fn tick(server: &mut Server, now: i64) {
    scale(server);
    for (key, object) in copies(server, "deployments.apps") {
        if let Some(status) = rollout(&object) {
            set_status(server, &key, object, status);
        }
    }
    for (key, object) in copies(server, "jobs.batch") {
        let age = |time: &Value| {
            let time = time.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
            time.map_or(0, |time| now - time.as_second())
        };
        if !is_finished(&object) {
            if age(&object["metadata"]["creationTimestamp"]) >= JOB_SECONDS {
                let time = jiff::Timestamp::from_second(now).unwrap_or_default();
                let time = crate::world::timestamp(time);
                let done = json!({"type": "Complete", "status": "True"});
                let status = json!({"succeeded": 1, "completionTime": time, "conditions": [done]});
                set_status(server, &key, object, status);
            }
        } else if let Some(ttl) = object["spec"]["ttlSecondsAfterFinished"].as_i64()
            && age(&object["status"]["completionTime"]) >= ttl
        {
            server.remove(&Actor::Cluster, &key, false, Cause::Request);
        }
    }
}

fn copies(server: &Server, resource: &str) -> Vec<(Key, Value)> {
    server.of(resource).map(|(key, object)| (key.clone(), object.clone())).collect()
}

fn set_status(server: &mut Server, key: &Key, mut object: Value, status: Value) {
    object["status"] = status;
    server.put_as(&Actor::Cluster, key, object, MANAGER);
}

/// The next status of a Deployment, if it has not settled.
fn rollout(deployment: &Value) -> Option<Value> {
    let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
    let (generation, status) = (&deployment["metadata"]["generation"], &deployment["status"]);
    let bad = deployment["spec"]["template"].to_string().contains("bad");
    let counted = |field: &str| status[field].as_i64().unwrap_or(0);
    let available = if bad { counted("availableReplicas").min(wanted) } else { wanted };
    if status["observedGeneration"] != *generation || counted("updatedReplicas") != wanted {
        return Some(json!({"observedGeneration": generation, "replicas": wanted,
            "updatedReplicas": wanted, "readyReplicas": counted("readyReplicas"),
            "availableReplicas": counted("availableReplicas").min(wanted).min(wanted - 1).max(0)}));
    }
    let available = if bad { available.min(wanted - 1).max(0) } else { available };
    (counted("availableReplicas") != available).then(|| {
        json!({"observedGeneration": generation, "replicas": wanted, "updatedReplicas": wanted,
            "readyReplicas": available, "availableReplicas": available})
    })
}

/// Autoscalers want as many replicas as they may have.
fn scale(server: &mut Server) {
    for (key, scaler) in copies(server, "horizontalpodautoscalers.autoscaling") {
        let target = scaler["spec"]["scaleTargetRef"]["name"].as_str().unwrap_or_default();
        let target = Key::new("deployments.apps", &key.namespace, target);
        let wanted = scaler["spec"]["maxReplicas"].as_i64().unwrap_or(1);
        let Some(deployment) =
            server.get(&target).filter(|object| object["spec"]["replicas"] != wanted)
        else {
            continue;
        };
        let mut deployment = deployment.clone();
        deployment["spec"]["replicas"] = json!(wanted);
        server.put_as(&Actor::Cluster, &target, deployment, MANAGER);
    }
}
