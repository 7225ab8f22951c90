//! What users leave out of a pod or a pod template.

use serde_json::{Value, json};

use super::super::fields::{
    at, existing_mut, fill, fill_object, fill_zero, flag, is_empty, is_set, items_mut, number, set,
    text,
};
use super::super::quantity;
use super::{each_container, is_tagged_latest};

/// Fills in a pod.
pub(super) fn default_pod(pod: &mut Value) {
    fill_object(pod, "spec");
    default_spec(&mut pod["spec"]);
    let spec = &mut pod["spec"];
    for path in ["containers", "initContainers"] {
        for container in items_mut(spec, path) {
            request_what_is_limited(container);
        }
    }
    fill(spec, "enableServiceLinks", true);
    if flag(spec, "hostNetwork") {
        each_container(spec, |container| {
            for port in items_mut(container, "ports") {
                let number = number(port, "containerPort");
                fill_zero(port, "hostPort", number);
            }
        });
    }
}

/// A limit without a request is a request too.
fn request_what_is_limited(container: &mut Value) {
    let limits = at(container, "resources.limits").clone();
    if limits.is_null() {
        return;
    }
    fill_object(container, "resources.requests");
    for (name, amount) in limits.as_object().into_iter().flatten() {
        let requests = container["resources"]["requests"].as_object_mut();
        if let Some(requests) = requests {
            requests.entry(name.clone()).or_insert_with(|| amount.clone());
        }
    }
}

/// Fills in the pod template at a path.
pub(in super::super) fn default_template(object: &mut Value, path: &str) {
    fill_object(object, &format!("{path}.metadata"));
    fill_object(object, &format!("{path}.spec"));
    if let Some(spec) = existing_mut(object, &format!("{path}.spec")) {
        default_spec(spec);
    }
}

/// Fills in a pod spec.
fn default_spec(spec: &mut Value) {
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "restartPolicy", "Always");
    fill_object(spec, "securityContext");
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "schedulerName", "default-scheduler");
    // An account has an older name, which is kept in step.
    let account = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount").to_owned(),
        account => account.to_owned(),
    };
    if !account.is_empty() {
        set(spec, "serviceAccountName", account.as_str());
        set(spec, "serviceAccount", account);
    }
    each_container(spec, default_container);
    items_mut(spec, "volumes").iter_mut().for_each(default_volume);
    if let Some(overhead) = existing_mut(spec, "overhead") {
        quantity::normalize_list(overhead);
    }
}

fn default_container(container: &mut Value) {
    let policy = if is_tagged_latest(text(container, "image")) { "Always" } else { "IfNotPresent" };
    fill(container, "imagePullPolicy", policy);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    fill_object(container, "resources");
    for path in ["resources.limits", "resources.requests"] {
        if let Some(amounts) = existing_mut(container, path) {
            quantity::normalize_list(amounts);
        }
    }
    for port in items_mut(container, "ports") {
        fill(port, "protocol", "TCP");
    }
    for variable in items_mut(container, "env") {
        default_field_reference(variable, "valueFrom.fieldRef");
        if is_set(variable, "valueFrom.resourceFieldRef") {
            fill(variable, "valueFrom.resourceFieldRef.divisor", "0");
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = existing_mut(container, name) {
            fill_zero(probe, "timeoutSeconds", 1);
            fill_zero(probe, "periodSeconds", 10);
            fill_zero(probe, "successThreshold", 1);
            fill_zero(probe, "failureThreshold", 3);
            default_http(probe);
            if is_set(probe, "grpc") && !is_set(probe, "grpc.service") {
                set(probe, "grpc.service", "");
            }
        }
    }
    for name in ["lifecycle.postStart", "lifecycle.preStop"] {
        if let Some(handler) = existing_mut(container, name) {
            default_http(handler);
        }
    }
}

fn default_http(handler: &mut Value) {
    if is_set(handler, "httpGet") {
        fill(handler, "httpGet.path", "/");
        fill(handler, "httpGet.scheme", "HTTP");
    }
}

fn default_field_reference(object: &mut Value, path: &str) {
    if is_set(object, path) {
        fill(object, &format!("{path}.apiVersion"), "v1");
    }
}

fn default_volume(volume: &mut Value) {
    let sourceless = volume
        .as_object()
        .is_some_and(|fields| fields.iter().all(|(name, value)| name == "name" || value.is_null()));
    if sourceless {
        set(volume, "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if is_set(volume, source) {
            fill(volume, &format!("{source}.defaultMode"), 420);
        }
    }
    if is_set(volume, "hostPath") && !is_set(volume, "hostPath.type") {
        set(volume, "hostPath.type", "");
    }
    if is_set(volume, "ephemeral.volumeClaimTemplate.spec") {
        fill(volume, "ephemeral.volumeClaimTemplate.spec.volumeMode", "Filesystem");
    }
    if let Some(limit) = existing_mut(volume, "emptyDir.sizeLimit") {
        quantity::normalize(limit);
    }
    if is_set(volume, "image") && is_empty(volume, "image.pullPolicy") {
        let latest = is_tagged_latest(text(volume, "image.reference"));
        set(volume, "image.pullPolicy", if latest { "Always" } else { "IfNotPresent" });
    }
    for item in items_mut(volume, "downwardAPI.items") {
        default_field_reference(item, "fieldRef");
    }
    for source in items_mut(volume, "projected.sources") {
        if is_set(source, "serviceAccountToken") {
            fill(source, "serviceAccountToken.expirationSeconds", 3600);
        }
        for item in items_mut(source, "downwardAPI.items") {
            default_field_reference(item, "fieldRef");
        }
    }
}
