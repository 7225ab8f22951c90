//! Node: a machine that runs pods.

use serde_json::{Value, json};

use super::age::age;
use super::fields::{at, entries, existing_mut, fill, fill_object, flag, is_set, list, set, text};
use super::names::{self, check};
use super::quantity;
use super::table::{self, AGE, NAME, column, text_or, wide};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";

pub(super) const RULES: Rules = Rules {
    name: NameRule::Subdomain,
    default,
    prepare_create,
    validate,
    selectable: &[("spec.unschedulable", |node| flag(node, "spec.unschedulable").to_string())],
    ..Rules::NONE
};

fn default(node: &mut Value) {
    fill_object(node, "spec");
    for path in ["status.capacity", "status.allocatable"] {
        if let Some(amounts) = existing_mut(node, path) {
            quantity::normalize_list(amounts);
        }
    }
    if is_set(node, "status.capacity") {
        let capacity = at(node, "status.capacity").clone();
        fill(node, "status.allocatable", capacity);
    }
    shape_status(node);
}

/// A new node is not ready until somebody says so.
fn prepare_create(node: &mut Value) {
    shape_status(node);
    let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let mut taints = list(node, "spec.taints").to_vec();
    if !taints.contains(&not_ready) {
        taints.push(not_ready);
    }
    set(node, "spec.taints", taints);
}

/// Fields that are shown even when there is nothing in them.
fn shape_status(node: &mut Value) {
    fill(node, "status.daemonEndpoints", json!({"kubeletEndpoint": {"Port": 0}}));
    for name in [
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ] {
        fill(node, &format!("status.nodeInfo.{name}"), "");
    }
}

fn validate(node: &Value, errors: &mut Vec<FieldError>) {
    let field = FieldPath::new("spec").child("taints");
    let taints = list(node, "spec.taints");
    for (n, taint) in taints.iter().enumerate() {
        let field = field.index(n);
        let (key, value, effect) =
            (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        check(errors, &field.child("key"), key, names::label_key(key));
        check(errors, &field.child("value"), value, names::label_value(value));
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if effect.is_empty() {
            errors.push(FieldError::required(&field.child("effect"), ""));
        } else if !effects.contains(&effect) {
            let field = field.child("effect");
            errors.push(FieldError::not_supported(&field, &json!(effect), &effects));
        }
    }
}

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column("Status", "Whether the node is ready for pods."),
    column("Roles", "What the node is for."),
    AGE,
    column("Version", "The kubelet's version."),
    wide("Internal-IP", "Its address inside of the cluster."),
    wide("External-IP", "Its address outside of the cluster."),
    wide("OS-Image", "Its operating system."),
    wide("Kernel-Version", "Its kernel."),
    wide("Container-Runtime", "What runs its containers."),
];

pub(super) fn cells(node: &Value, now: i64) -> Vec<Value> {
    let ready = list(node, "status.conditions").iter().rfind(|it| text(it, "type") == "Ready");
    let mut status = match ready {
        Some(condition) if text(condition, "status") == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if flag(node, "spec.unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let mut addresses = list(node, "status.addresses").iter();
        let address = addresses.find(|it| text(it, "type") == kind);
        address.map_or("<none>", |it| text(it, "address")).to_owned()
    };
    let info = |name: &str| text_or(at(node, "status.nodeInfo"), name, "<unknown>").to_owned();
    let kernel = match text(node, "status.nodeInfo.architecture") {
        "" => info("kernelVersion"),
        architecture => format!("{} ({architecture})", info("kernelVersion")),
    };
    vec![
        table::name(node),
        status.into(),
        roles(node).into(),
        age(node, now),
        text(node, "status.nodeInfo.kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        info("osImage").into(),
        kernel.into(),
        info("containerRuntimeVersion").into(),
    ]
}

fn roles(node: &Value) -> String {
    let labels = entries(node, "metadata.labels");
    let roles = labels.filter_map(|(key, value)| match key {
        "kubernetes.io/role" => value.as_str(),
        key => key.strip_prefix(ROLE_PREFIX),
    });
    let mut roles: Vec<&str> = roles.filter(|role| !role.is_empty()).collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}
