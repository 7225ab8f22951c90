//! What kubectl shows of pods: most of it is finding one word for what a pod is up to.

use serde_json::Value;

use super::super::age::{age, seconds, since};
use super::super::fields::{at, flag, is_empty, is_set, list, number, text};
use super::super::table::{self, AGE, NAME, column, has_condition, text_or, wide};
use crate::resource::Column;

pub(in super::super) const COLUMNS: &[Column] = &[
    NAME,
    column("Ready", "How many containers are ready, of how many."),
    column("Status", "What the pod is up to."),
    column("Restarts", "How often containers restarted, and when last."),
    AGE,
    wide("IP", "The pod's address."),
    wide("Node", "The node that it runs on."),
    wide("Nominated Node", "The node where room is being made for it."),
    wide("Readiness Gates", "How many of its extra readiness conditions are met."),
];

/// What the containers add up to.
#[derive(Default)]
struct Summary {
    ready: usize,
    restarts: i64,
    last_restart: Option<String>,
}

impl Summary {
    fn add_restarts(&mut self, status: &Value) {
        self.restarts += number(status, "restartCount");
        let finished = text(status, "lastState.terminated.finishedAt");
        let later = seconds(finished) > self.last_restart.as_deref().and_then(seconds);
        if later {
            self.last_restart = Some(finished.to_owned());
        }
    }
}

pub(in super::super) fn cells(pod: &Value, now: i64) -> Vec<Value> {
    let sidecars = list(pod, "spec.initContainers").iter().filter(|it| is_sidecar(it)).count();
    let total = list(pod, "spec.containers").len() + sidecars;
    let (reason, summary) = status(pod);
    let restarts = match (&summary.last_restart, summary.restarts) {
        (Some(last), count) if count != 0 => {
            let ago = since(&serde_json::json!({"at": last}), "at", now);
            format!("{count} ({ago} ago)")
        }
        (_, count) => count.to_string(),
    };
    let gates = list(pod, "spec.readinessGates");
    let met = gates.iter().filter(|gate| has_condition(pod, text(gate, "conditionType"))).count();
    let gates = match gates.len() {
        0 => "<none>".to_owned(),
        count => format!("{met}/{count}"),
    };
    let ip = list(pod, "status.podIPs").first().map_or("", |ip| text(ip, "ip"));
    vec![
        table::name(pod),
        format!("{}/{total}", summary.ready).into(),
        reason.into(),
        restarts.into(),
        age(pod, now),
        if ip.is_empty() { "<none>" } else { ip }.into(),
        text_or(pod, "spec.nodeName", "<none>").into(),
        text_or(pod, "status.nominatedNodeName", "<none>").into(),
        gates.into(),
    ]
}

fn is_sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

fn status(pod: &Value) -> (String, Summary) {
    let mut reason = text_or(pod, "status.reason", text(pod, "status.phase")).to_owned();
    let gated = list(pod, "status.conditions").iter().any(|condition| {
        text(condition, "type") == "PodScheduled" && text(condition, "reason") == "SchedulingGated"
    });
    if gated {
        reason = "SchedulingGated".to_owned();
    }
    let (initializing, mut summary) = init_status(pod, &mut reason);
    if !initializing || has_condition(pod, "Initialized") {
        container_status(pod, &mut reason, &mut summary);
    }
    if is_set(pod, "metadata.deletionTimestamp") {
        let finished = ["Failed", "Succeeded"].contains(&text(pod, "status.phase"));
        if text(pod, "status.reason") == "NodeLost" {
            reason = "Unknown".to_owned();
        } else if !finished {
            reason = "Terminating".to_owned();
        }
    }
    (reason, summary)
}

/// Looks at the init containers up to the first that is not done. Their restarts count for as long
/// as they run; those of sidecars count on.
fn init_status(pod: &Value, reason: &mut String) -> (bool, Summary) {
    let containers = list(pod, "spec.initContainers");
    let (mut all, mut of_sidecars) = (Summary::default(), Summary::default());
    for (n, status) in list(pod, "status.initContainerStatuses").iter().enumerate() {
        let container = containers.iter().find(|it| text(it, "name") == text(status, "name"));
        let sidecar = container.is_some_and(is_sidecar);
        all.add_restarts(status);
        if sidecar {
            of_sidecars.add_restarts(status);
        }
        let terminated = at(status, "state.terminated");
        if !terminated.is_null() && number(terminated, "exitCode") == 0 {
            continue;
        }
        if sidecar && flag(status, "started") {
            of_sidecars.ready += usize::from(flag(status, "ready"));
            continue;
        }
        let waiting = text(status, "state.waiting.reason");
        *reason = if !terminated.is_null() {
            format!("Init:{}", end_of(terminated))
        } else if !["", "PodInitializing"].contains(&waiting) {
            format!("Init:{waiting}")
        } else {
            format!("Init:{n}/{}", containers.len())
        };
        all.ready = of_sidecars.ready;
        let initialized = has_condition(pod, "Initialized");
        return (true, if initialized { of_sidecars } else { all });
    }
    (false, of_sidecars)
}

fn container_status(pod: &Value, reason: &mut String, summary: &mut Summary) {
    let (mut running, mut failure) = (false, None);
    for status in list(pod, "status.containerStatuses").iter().rev() {
        summary.add_restarts(status);
        let terminated = at(status, "state.terminated");
        if !is_empty(status, "state.waiting.reason") {
            text(status, "state.waiting.reason").clone_into(reason);
        } else if !terminated.is_null() {
            *reason = end_of(terminated);
            if number(terminated, "exitCode") != 0 {
                failure = Some(reason.clone());
            }
        } else if flag(status, "ready") && is_set(status, "state.running") {
            running = true;
            summary.ready += 1;
        }
    }
    // A container that is done does not make a pod that still runs others complete.
    if reason == "Completed" {
        if running && has_condition(pod, "Ready") {
            "Running".clone_into(reason);
        } else if let Some(failure) = failure {
            *reason = failure;
        } else if running {
            "NotReady".clone_into(reason);
        }
    }
}

fn end_of(terminated: &Value) -> String {
    match (text(terminated, "reason"), number(terminated, "signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
