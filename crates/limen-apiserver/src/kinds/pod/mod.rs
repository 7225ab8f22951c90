//! Pod, and the pod template that workloads have.

mod columns;
mod defaults;
mod validation;

use serde_json::{Map, Value, json};

use super::fields::{at, is_empty, is_set, items_mut, list, set, text};
use crate::resource::{NameRule, Rules};

pub(super) use columns::{COLUMNS, cells};
pub(super) use defaults::default_template;
pub(super) use validation::{check_not_negative, check_template};

use validation::is_tagged_latest;

pub(super) const RULES: Rules = Rules {
    name: NameRule::Subdomain,
    default: defaults::default_pod,
    prepare_create,
    validate: validation::validate,
    validate_update: validation::validate_update,
    selectable: &[
        ("spec.nodeName", |pod| text(pod, "spec.nodeName").to_owned()),
        ("spec.restartPolicy", |pod| text(pod, "spec.restartPolicy").to_owned()),
        ("spec.schedulerName", |pod| text(pod, "spec.schedulerName").to_owned()),
        ("spec.serviceAccountName", |pod| text(pod, "spec.serviceAccountName").to_owned()),
        ("spec.hostNetwork", |pod| super::fields::flag(pod, "spec.hostNetwork").to_string()),
        ("status.phase", |pod| text(pod, "status.phase").to_owned()),
        ("status.podIP", |pod| text(pod, "status.podIP").to_owned()),
        ("status.nominatedNodeName", |pod| text(pod, "status.nominatedNodeName").to_owned()),
    ],
    ..Rules::NONE
};

/// A new pod waits for a node. Pods put up with an ailing node for a while, and have no priority,
/// unless they say otherwise.
fn prepare_create(pod: &mut Value) {
    let quality = quality_of_service(pod);
    set(pod, "status", json!({"phase": "Pending", "qosClass": quality}));
    let mut tolerations = list(pod, "spec.tolerations").to_vec();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = tolerations.iter().any(|it| {
            [key, ""].contains(&text(it, "key")) && ["NoExecute", ""].contains(&text(it, "effect"))
        });
        if !tolerated {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
    set(pod, "spec.tolerations", tolerations);
    if !is_set(pod, "spec.priority") && is_empty(pod, "spec.priorityClassName") {
        set(pod, "spec.priority", 0);
        super::fields::fill(pod, "spec.preemptionPolicy", "PreemptLowerPriority");
    }
}

/// How firmly the pod's resources are set, which decides which pods go first when a node is full.
fn quality_of_service(pod: &Value) -> &'static str {
    let containers: Vec<&Value> =
        list(pod, "spec.containers").iter().chain(list(pod, "spec.initContainers")).collect();
    let amounts = |container: &Value, path: &str| -> Map<String, Value> {
        let amounts = at(container, path).as_object().into_iter().flatten();
        let counted = amounts.filter(|(name, amount)| {
            ["cpu", "memory"].contains(&name.as_str()) && super::quantity::is_positive(amount)
        });
        counted.map(|(name, amount)| (name.clone(), amount.clone())).collect()
    };
    let of = |container: &&Value| {
        (amounts(container, "resources.requests"), amounts(container, "resources.limits"))
    };
    let all: Vec<_> = containers.iter().map(of).collect();
    if all.iter().all(|(requests, limits)| requests.is_empty() && limits.is_empty()) {
        "BestEffort"
    } else if all.iter().all(|(requests, limits)| limits.len() == 2 && requests == limits) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Every container of a pod spec.
fn each_container(spec: &mut Value, mut change: impl FnMut(&mut Value)) {
    for path in ["containers", "initContainers", "ephemeralContainers"] {
        items_mut(spec, path).iter_mut().for_each(&mut change);
    }
}
