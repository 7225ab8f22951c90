//! HorizontalPodAutoscaler: more pods when there is more to do.

use serde_json::{Value, json};

use super::age::age;
use super::fields::{
    at, existing_mut, fill, fill_object, is_empty, is_set, items_mut, list, number, set, text,
};
use super::names::{self, check};
use super::quantity;
use super::table::{self, AGE, NAME, column, plain};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

pub(super) const RULES: Rules = Rules {
    name: NameRule::Subdomain,
    default,
    prepare_create: |object| {
        set(object, "status", json!({"currentMetrics": null, "desiredReplicas": 0}));
    },
    validate,
    ..Rules::NONE
};

fn default(object: &mut Value) {
    fill_object(object, "spec.scaleTargetRef");
    fill(object, "spec.minReplicas", 1);
    if is_empty(object, "spec.metrics") {
        let cpu =
            json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}});
        set(object, "spec.metrics", json!([{"type": "Resource", "resource": cpu}]));
    }
    for metric in items_mut(object, "spec.metrics") {
        for (_, source) in SOURCES {
            for name in ["value", "averageValue"] {
                if let Some(amount) = existing_mut(metric, &format!("{source}.target.{name}")) {
                    quantity::normalize(amount);
                }
            }
        }
    }
    if is_set(object, "spec.behavior") {
        fill(object, "spec.behavior.scaleUp.stabilizationWindowSeconds", 0);
        let up = json!([
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ]);
        fill(object, "spec.behavior.scaleUp.policies", up);
        let down = json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]);
        fill(object, "spec.behavior.scaleDown.policies", down);
        for direction in ["scaleUp", "scaleDown"] {
            fill(object, &format!("spec.behavior.{direction}.selectPolicy"), "Max");
        }
    }
}

fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let (spec, field) = (at(object, "spec"), FieldPath::new("spec"));
    let (least, most) = (number(spec, "minReplicas"), number(spec, "maxReplicas"));
    let most_field = field.child("maxReplicas");
    if is_set(spec, "minReplicas") && least < 1 {
        let detail = "must be greater than or equal to 1";
        errors.push(FieldError::invalid(&field.child("minReplicas"), &json!(least), detail));
    }
    if most == 0 {
        errors.push(FieldError::required(&most_field, "must be set and greater than 0"));
    } else if most < 0 {
        let detail = "must be greater than or equal to 1";
        errors.push(FieldError::invalid(&most_field, &json!(most), detail));
    }
    if is_set(spec, "minReplicas") && most < least {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid(&most_field, &json!(most), detail));
    }
    validate_reference(at(spec, "scaleTargetRef"), &field.child("scaleTargetRef"), errors);
    for (n, metric) in list(spec, "metrics").iter().enumerate() {
        validate_metric(metric, &field.child("metrics").index(n), errors);
    }
    for direction in ["scaleUp", "scaleDown"] {
        let rules = at(at(spec, "behavior"), direction);
        if !rules.is_null() {
            validate_behavior(rules, &field.child("behavior").child(direction), errors);
        }
    }
}

fn validate_reference(reference: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    for name in ["kind", "name"] {
        match text(reference, name) {
            "" => errors.push(FieldError::required(&field.child(name), "")),
            value => check(errors, &field.child(name), value, names::path_segment(value)),
        }
    }
    let version = text(reference, "apiVersion");
    let detail = match version.matches('/').count() {
        0 => "apiVersion must specify API group".to_owned(),
        1 => return,
        _ => format!("unexpected GroupVersion string: {version}"),
    };
    errors.push(FieldError::invalid(&field.child("apiVersion"), &json!(version), &detail));
}

fn validate_metric(metric: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let kind = text(metric, "type");
    let supported: Vec<&str> = SOURCES.iter().map(|(kind, _)| *kind).collect();
    if kind.is_empty() {
        let detail = "must specify a metric source type";
        errors.push(FieldError::required(&field.child("type"), detail));
    }
    let Some((_, expected)) = SOURCES.iter().find(|(name, _)| *name == kind) else {
        let field = field.child("type");
        errors.push(FieldError::not_supported(&field, &json!(kind), &supported));
        return;
    };
    let source = at(metric, expected);
    if source.is_null() {
        let detail = "must populate information for the given metric source";
        errors.push(FieldError::required(&field.child(expected), detail));
    } else {
        validate_source(source, expected, &field.child(expected), errors);
    }
    for (_, other) in SOURCES.iter().filter(|(_, other)| other != expected && is_set(metric, other))
    {
        let detail = "must populate the given metric source only";
        errors.push(FieldError::forbidden(&field.child(other), detail));
    }
}

fn validate_source(source: &Value, kind: &str, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let of_resource = ["resource", "containerResource"].contains(&kind);
    if of_resource {
        if is_empty(source, "name") {
            let detail = "must specify a resource name";
            errors.push(FieldError::required(&field.child("name"), detail));
        }
        if kind == "containerResource" {
            match text(source, "container") {
                "" => {
                    let detail = "must specify a container";
                    errors.push(FieldError::required(&field.child("container"), detail));
                }
                name => check(errors, &field.child("container"), name, names::label(name)),
            }
        }
    } else {
        if kind == "object" {
            let field = field.child("describedObject");
            validate_reference(at(source, "describedObject"), &field, errors);
        }
        let field = field.child("metric").child("name");
        match text(source, "metric.name") {
            "" => errors.push(FieldError::required(&field, "must specify a metric name")),
            name => check(errors, &field, name, names::path_segment(name)),
        }
    }
    let (target, field) = (at(source, "target"), field.child("target"));
    validate_target(target, &field, errors);
    let set = |name: &str| is_set(target, name);
    if of_resource {
        if !set("averageUtilization") && !set("averageValue") {
            let detail = "must set either a target raw value or a target utilization";
            errors.push(FieldError::required(&field.child("averageUtilization"), detail));
        }
        if set("averageUtilization") && set("averageValue") {
            let detail = "may not set both a target raw value and a target utilization";
            errors.push(FieldError::forbidden(&field.child("averageValue"), detail));
        }
        return;
    }
    let detail = match kind {
        "pods" if !set("averageValue") => "must specify a positive target averageValue",
        "object" if !set("value") && !set("averageValue") => {
            "must set either a target value or averageValue"
        }
        "external" if !set("value") && !set("averageValue") => {
            "must set either a target value for metric or a per-pod target"
        }
        "external" if set("value") && set("averageValue") => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.push(FieldError::forbidden(&field.child("value"), detail));
            return;
        }
        _ => return,
    };
    errors.push(FieldError::required(&field.child("averageValue"), detail));
}

fn validate_target(target: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let kind = text(target, "type");
    if kind.is_empty() {
        let detail = "must specify a metric target type";
        errors.push(FieldError::required(&field.child("type"), detail));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(&field.child("type"), &json!(kind), detail));
    }
    for name in ["value", "averageValue"] {
        let amount = at(target, name);
        if !amount.is_null() && !quantity::is_positive(amount) {
            errors.push(FieldError::invalid(&field.child(name), amount, "must be positive"));
        }
    }
    let utilization = at(target, "averageUtilization");
    if utilization.as_i64().is_some_and(|percent| percent < 1) {
        let field = field.child("averageUtilization");
        errors.push(FieldError::invalid(&field, utilization, "must be greater than 0"));
    }
}

fn validate_behavior(rules: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let window = number(rules, "stabilizationWindowSeconds");
    let window_field = field.child("stabilizationWindowSeconds");
    if window < 0 {
        let detail = "must be greater than or equal to zero";
        errors.push(FieldError::invalid(&window_field, &json!(window), detail));
    }
    if window > 3600 {
        let detail = "must be less than or equal to 3600";
        errors.push(FieldError::invalid(&window_field, &json!(window), detail));
    }
    let (select, supported) = (text(rules, "selectPolicy"), ["Disabled", "Max", "Min"]);
    if !supported.contains(&select) {
        let field = field.child("selectPolicy");
        errors.push(FieldError::not_supported(&field, &json!(select), &supported));
    }
    if is_empty(rules, "policies") {
        let detail = "must specify at least one Policy";
        errors.push(FieldError::required(&field.child("policies"), detail));
    }
    for (n, policy) in list(rules, "policies").iter().enumerate() {
        let field = field.child("policies").index(n);
        let (kind, supported) = (text(policy, "type"), ["Percent", "Pods"]);
        if !supported.contains(&kind) {
            let field = field.child("type");
            errors.push(FieldError::not_supported(&field, &json!(kind), &supported));
        }
        for name in ["value", "periodSeconds"] {
            let value = number(policy, name);
            if value <= 0 {
                let detail = "must be greater than zero";
                errors.push(FieldError::invalid(&field.child(name), &json!(value), detail));
            }
        }
        let period = number(policy, "periodSeconds");
        if period > 1800 {
            let detail = "must be less than or equal to 1800";
            errors.push(FieldError::invalid(&field.child("periodSeconds"), &json!(period), detail));
        }
    }
}

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column("Reference", "What is scaled."),
    column("Targets", "What is measured, and what it should be."),
    column("MinPods", "The least number of pods."),
    column("MaxPods", "The greatest number of pods."),
    column("Replicas", "How many pods there are."),
    AGE,
];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let target = at(object, "spec.scaleTargetRef");
    let least = at(object, "spec.minReplicas").as_i64();
    vec![
        table::name(object),
        format!("{}/{}", text(target, "kind"), text(target, "name")).into(),
        metrics(object).into(),
        least.map_or_else(|| "<unset>".to_owned(), |least| least.to_string()).into(),
        table::count(object, "spec.maxReplicas"),
        table::count(object, "status.currentReplicas"),
        age(object, now),
    ]
}

fn metrics(object: &Value) -> String {
    let specs = list(object, "spec.metrics");
    let statuses = list(object, "status.currentMetrics");
    let shown: Vec<String> = specs
        .iter()
        .enumerate()
        .map(|(n, spec)| metric(spec, statuses.get(n).unwrap_or(&Value::Null)))
        .collect();
    match shown.len() {
        0 => "<none>".to_owned(),
        count if count > 2 => format!("{} + {} more...", shown[..2].join(", "), count - 2),
        _ => shown.join(", "),
    }
}

fn metric(spec: &Value, status: &Value) -> String {
    let kind = text(spec, "type");
    let Some((_, source)) = SOURCES.iter().find(|(name, _)| *name == kind) else {
        return "<unknown type>".to_owned();
    };
    let (target, current) = (
        at(spec, &format!("{source}.target")).clone(),
        at(status, &format!("{source}.current")).clone(),
    );
    let amount = |value: &Value, name: &str, otherwise: &str| match at(value, name) {
        Value::Null => otherwise.to_owned(),
        value => plain(value),
    };
    let average = is_set(&target, "averageValue");
    let shown = if average || kind == "Pods" {
        let now = amount(&current, "averageValue", "<unknown>");
        format!("{now}/{}", amount(&target, "averageValue", "0"))
    } else if ["Resource", "ContainerResource"].contains(&kind) {
        let percent = |value: &Value, otherwise: &str| {
            let percent = at(value, "averageUtilization").as_i64();
            percent.map_or_else(|| otherwise.to_owned(), |percent| format!("{percent}%"))
        };
        format!("{}/{}", percent(&current, "<unknown>"), percent(&target, "<auto>"))
    } else {
        format!("{}/{}", amount(&current, "value", "<unknown>"), amount(&target, "value", "<nil>"))
    };
    match kind {
        "Resource" | "ContainerResource" => {
            format!("{}: {shown}", text(spec, &format!("{source}.name")))
        }
        "External" | "Object" if average => format!("{shown} (avg)"),
        _ => shown,
    }
}
