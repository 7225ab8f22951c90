//! What is wrong with a pod or a pod template.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::fields::{at, is_empty, is_set, list, number, text};
use super::super::labels::check_labels;
use super::super::metadata::check_annotations;
use super::super::names::{self, check};
use super::super::service::check_port_reference;
use crate::field_error::{FieldError, FieldPath};

pub(super) fn validate(pod: &Value, errors: &mut Vec<FieldError>) {
    check_spec(errors, &FieldPath::new("spec"), at(pod, "spec"), &[]);
}

/// Adds what is wrong with a pod template. `claims` are the volumes that a workload adds to it.
pub(in super::super) fn check_template(
    errors: &mut Vec<FieldError>,
    field: &FieldPath,
    template: &Value,
    claims: &[&str],
) {
    check_labels(errors, &field.child("labels"), at(template, "metadata.labels"));
    check_annotations(errors, &field.child("annotations"), at(template, "metadata.annotations"));
    check_spec(errors, &field.child("spec"), at(template, "spec"), claims);
    if !is_empty(template, "spec.ephemeralContainers") {
        let field = field.child("spec").child("ephemeralContainers");
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(&field, detail));
    }
}

fn check_spec(errors: &mut Vec<FieldError>, field: &FieldPath, spec: &Value, claims: &[&str]) {
    let mut volumes: BTreeSet<&str> = claims.iter().copied().collect();
    check_volumes(errors, &field.child("volumes"), spec, &mut volumes);
    if is_empty(spec, "containers") {
        errors.push(FieldError::required(&field.child("containers"), ""));
    }
    let mut seen = BTreeSet::new();
    for path in ["containers", "initContainers"] {
        for (n, container) in list(spec, path).iter().enumerate() {
            let field = field.child(path).index(n);
            check_container(errors, &field, container, &volumes);
            let name = text(container, "name");
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(&field.child("name"), &json!(name)));
            }
            for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
                if is_set(container, name) {
                    check_probe(errors, &field.child(name), at(container, name), name);
                }
            }
        }
    }
    let restart = ["Always", "OnFailure", "Never"];
    one_of(errors, &field.child("restartPolicy"), text(spec, "restartPolicy"), &restart);
    let dns = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(errors, &field.child("dnsPolicy"), text(spec, "dnsPolicy"), &dns);
    check_labels(errors, &field.child("nodeSelector"), at(spec, "nodeSelector"));
    for name in ["serviceAccountName", "nodeName"] {
        if !is_empty(spec, name) {
            let value = text(spec, name);
            check(errors, &field.child(name), value, names::subdomain(value));
        }
    }
    if is_set(spec, "activeDeadlineSeconds") {
        let seconds = number(spec, "activeDeadlineSeconds");
        let reasons = names::in_range(seconds, 1, i64::from(i32::MAX));
        check(errors, &field.child("activeDeadlineSeconds"), seconds, reasons);
    }
    for name in ["hostname", "subdomain"] {
        if !is_empty(spec, name) {
            let value = text(spec, name);
            check(errors, &field.child(name), value, names::label(value));
        }
    }
    if !is_empty(spec, "priorityClassName") {
        let class = text(spec, "priorityClassName");
        check(errors, &field.child("priorityClassName"), class, names::subdomain(class));
    }
}

fn one_of(errors: &mut Vec<FieldError>, field: &FieldPath, value: &str, supported: &[&str]) {
    if value.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !supported.contains(&value) {
        errors.push(FieldError::not_supported(field, &json!(value), supported));
    }
}

fn check_volumes<'a>(
    errors: &mut Vec<FieldError>,
    field: &FieldPath,
    spec: &'a Value,
    volumes: &mut BTreeSet<&'a str>,
) {
    let mut seen = BTreeSet::new();
    for (n, volume) in list(spec, "volumes").iter().enumerate() {
        let name = text(volume, "name");
        let (before, field) = (errors.len(), field.index(n).child("name"));
        match name {
            "" => errors.push(FieldError::required(&field, "")),
            name => check(errors, &field, name, names::label(name)),
        }
        if !seen.insert(name) && !name.is_empty() {
            errors.push(FieldError::duplicate(&field, &json!(name)));
        }
        if errors.len() == before {
            volumes.insert(name);
        }
    }
}

fn check_container(
    errors: &mut Vec<FieldError>,
    field: &FieldPath,
    container: &Value,
    volumes: &BTreeSet<&str>,
) {
    match text(container, "name") {
        "" => errors.push(FieldError::required(&field.child("name"), "")),
        name => check(errors, &field.child("name"), name, names::label(name)),
    }
    if is_empty(container, "image") {
        errors.push(FieldError::required(&field.child("image"), ""));
    }
    let policies = ["File", "FallbackToLogsOnError"];
    let policy = text(container, "terminationMessagePolicy");
    if !policies.contains(&policy) {
        let field = field.child("terminationMessagePolicy");
        errors.push(FieldError::not_supported(&field, &json!(policy), &policies));
    }
    check_ports(errors, &field.child("ports"), container);
    for (n, variable) in list(container, "env").iter().enumerate() {
        let field = field.child("env").index(n);
        match text(variable, "name") {
            "" => errors.push(FieldError::required(&field.child("name"), "")),
            name => check(errors, &field.child("name"), name, names::variable_name(name)),
        }
        check_value_source(errors, &field.child("valueFrom"), variable);
    }
    let mut mount_paths = BTreeSet::new();
    for (n, mount) in list(container, "volumeMounts").iter().enumerate() {
        let field = field.child("volumeMounts").index(n);
        let (name, path) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(&field.child("name"), ""));
        }
        if !volumes.contains(name) {
            errors.push(FieldError::not_found(&field.child("name"), &json!(name)));
        }
        if path.is_empty() {
            errors.push(FieldError::required(&field.child("mountPath"), ""));
        }
        if !mount_paths.insert(path) {
            let field = field.child("mountPath");
            errors.push(FieldError::invalid(&field, &json!(path), "must be unique"));
        }
    }
    let pull = ["Always", "IfNotPresent", "Never"];
    one_of(errors, &field.child("imagePullPolicy"), text(container, "imagePullPolicy"), &pull);
}

fn check_ports(errors: &mut Vec<FieldError>, field: &FieldPath, container: &Value) {
    let mut seen = BTreeSet::new();
    for (n, port) in list(container, "ports").iter().enumerate() {
        let field = field.index(n);
        let name = text(port, "name");
        if !name.is_empty() {
            let reasons = names::port_name(name);
            if reasons.is_empty() && !seen.insert(name) {
                errors.push(FieldError::duplicate(&field.child("name"), &json!(name)));
            }
            check(errors, &field.child("name"), name, reasons);
        }
        match number(port, "containerPort") {
            0 => errors.push(FieldError::required(&field.child("containerPort"), "")),
            port => check(errors, &field.child("containerPort"), port, names::port_number(port)),
        }
        let host_port = number(port, "hostPort");
        if host_port != 0 {
            check(errors, &field.child("hostPort"), host_port, names::port_number(host_port));
        }
        let protocols = ["SCTP", "TCP", "UDP"];
        one_of(errors, &field.child("protocol"), text(port, "protocol"), &protocols);
    }
}

fn check_value_source(errors: &mut Vec<FieldError>, field: &FieldPath, variable: &Value) {
    let Some(source) = variable.get("valueFrom").and_then(Value::as_object) else { return };
    let count = source.values().filter(|value| !value.is_null()).count();
    let detail = match count {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
             `secretKeyRef` or `fileKeyRef`"
        }
        _ if !is_empty(variable, "value") => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(FieldError::invalid(field, &json!(""), detail));
}

fn check_probe(errors: &mut Vec<FieldError>, field: &FieldPath, probe: &Value, kind: &str) {
    let handlers = ["exec", "httpGet", "tcpSocket", "grpc"];
    let mut given = handlers.into_iter().filter(|name| is_set(probe, name));
    match given.next() {
        None => errors.push(FieldError::required(field, "must specify a handler type")),
        Some("exec") if is_empty(probe, "exec.command") => {
            errors.push(FieldError::required(&field.child("exec").child("command"), ""));
        }
        Some("httpGet") => check_http(errors, &field.child("httpGet"), at(probe, "httpGet")),
        Some("tcpSocket") => {
            let field = field.child("tcpSocket").child("port");
            check_port_reference(errors, &field, at(probe, "tcpSocket.port"));
        }
        Some("grpc") => {
            let port = number(probe, "grpc.port");
            let field = field.child("grpc").child("port");
            check(errors, &field, port, names::port_number(port));
        }
        Some(_) => {}
    }
    for extra in given {
        let detail = "may not specify more than 1 handler type";
        errors.push(FieldError::forbidden(&field.child(extra), detail));
    }
    let counts = [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ];
    for name in counts {
        check_not_negative(errors, &field.child(name), number(probe, name));
    }
    let threshold = number(probe, "successThreshold");
    if kind != "readinessProbe" && threshold != 1 {
        let field = field.child("successThreshold");
        errors.push(FieldError::invalid(&field, &json!(threshold), "must be 1"));
    }
}

fn check_http(errors: &mut Vec<FieldError>, field: &FieldPath, request: &Value) {
    check_port_reference(errors, &field.child("port"), at(request, "port"));
    let scheme = text(request, "scheme");
    if !["HTTP", "HTTPS"].contains(&scheme) {
        let (field, supported) = (field.child("scheme"), ["HTTP", "HTTPS"]);
        errors.push(FieldError::not_supported(&field, &json!(scheme), &supported));
    }
}

/// Adds that a number is below zero.
pub(in super::super) fn check_not_negative(
    errors: &mut Vec<FieldError>,
    field: &FieldPath,
    value: i64,
) {
    if value < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(field, &json!(value), detail));
    }
}

/// A pod's spec is set once; only a few fields may change.
pub(super) fn validate_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (mut spec, old) = (at(new, "spec").clone(), at(old, "spec"));
    let field = FieldPath::new("spec");
    for path in ["containers", "initContainers"] {
        let (now, before) = (list(&spec, path).len(), list(old, path).len());
        if now != before {
            let detail = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(&field.child(path), detail));
            return;
        }
        for n in 0..now {
            spec[path][n]["image"] = at(&old[path][n], "image").clone();
        }
    }
    for name in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        super::super::fields::remove(&mut spec, name);
        if let Some(value) = old.get(name) {
            spec[name] = value.clone();
        }
    }
    if spec != *old {
        let detail = "pod updates may not change fields other than `spec.containers[*].image`,\
            `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
            `spec.tolerations` (only additions to existing tolerations),\
            `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously \
            negative)";
        errors.push(FieldError::forbidden(&field, detail));
    }
}

/// Whether an image is told by the tag `latest`, which it is when nothing is said.
pub(in super::super) fn is_tagged_latest(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    match (image, name.split_once('@'), name.split_once(':')) {
        ("", _, _) => false,
        (_, Some((name, _)), _) => name.ends_with(":latest"),
        (_, None, Some((_, tag))) => tag == "latest",
        (_, None, None) => true,
    }
}
