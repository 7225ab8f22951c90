//! Jobs: pods that come to an end.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fields::{condition, holds, is_leaving, news, number, suffix, text, time};
use super::replicas::{is_active, is_ready, pod};
use super::world::{Change, World};

/// Brings every Job a step on.
pub(super) fn reconcile(world: &World, now: Timestamp, changes: &mut Vec<Change>) {
    for (key, job) in world.all("Job") {
        if is_leaving(job) || holds(job, "Complete") || job["spec"]["suspend"] == true {
            continue;
        }
        let pods = world.owned("Pod", job);
        let active = pods.iter().filter(|it| is_active(it)).count();
        let succeeded = pods.iter().filter(|it| text(it, "/status/phase") == "Succeeded").count();
        let size =
            |pointer: &str| number(job, pointer).and_then(|number| usize::try_from(number).ok());
        let parallel = size("/spec/parallelism").unwrap_or(1);
        let completions = size("/spec/completions").unwrap_or(parallel);
        let wanted = parallel.min(completions.saturating_sub(succeeded));
        for _ in active..wanted {
            let name = format!("{}-{}", key.1, suffix());
            let made = pod(job, ("batch/v1", "Job"), &job["spec"]["template"], &name);
            changes.push(Change::Create("Pod", made));
        }
        let ready = pods.iter().filter(|it| is_ready(it)).count();
        let mut status = json!({
            "active": active.max(wanted), "ready": ready, "succeeded": succeeded, "failed": 0,
        });
        let started = text(job, "/status/startTime");
        status["startTime"] = if started.is_empty() { json!(time(now)) } else { json!(started) };
        if succeeded >= completions {
            finish(&mut status, now);
        }
        let status = news(job, status, now);
        changes.extend(status.map(|it| Change::Status("Job", key.clone(), it)));
    }
}

fn finish(status: &mut Value, now: Timestamp) {
    let done = |of: &str| {
        condition(of, true, "CompletionsReached", "Reached expected number of succeeded pods")
    };
    status["completionTime"] = json!(time(now));
    status["conditions"] = json!([done("SuccessCriteriaMet"), done("Complete")]);
}
