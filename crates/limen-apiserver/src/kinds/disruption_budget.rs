//! PodDisruptionBudget: how many pods may be taken away at a time.

use serde_json::{Value, json};

use super::age::age;
use super::fields::{at, fill_object, is_set, set, text};
use super::labels::check_selector;
use super::table::{self, AGE, NAME, column, integer, plain};
use super::workload::{check_at_most_all, check_count_or_percent, shown_selector};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

pub(super) const RULES: Rules = Rules {
    name: NameRule::PathSegment,
    default: |object| fill_object(object, "spec"),
    prepare_create: |object| {
        let counts = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
        set(object, "status", counts);
    },
    validate,
    ..Rules::NONE
};

fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let (spec, field) = (at(object, "spec"), FieldPath::new("spec"));
    let limits = ["minAvailable", "maxUnavailable"];
    if limits.iter().all(|name| is_set(spec, name)) {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid_shown(&field, &shown_spec(spec), detail));
    }
    for name in limits.into_iter().filter(|name| is_set(spec, name)) {
        check_count_or_percent(errors, &field.child(name), at(spec, name));
        check_at_most_all(errors, &field.child(name), at(spec, name));
    }
    check_selector(errors, &field.child("selector"), at(spec, "selector"));
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    let policy = text(spec, "unhealthyPodEvictionPolicy");
    if is_set(spec, "unhealthyPodEvictionPolicy") && !policies.contains(&policy) {
        let field = field.child("unhealthyPodEvictionPolicy");
        errors.push(FieldError::not_supported(&field, &json!(policy), &policies));
    }
}

/// The spec as the Go structure that Kubernetes shows it in.
fn shown_spec(spec: &Value) -> String {
    format!(
        r#"{{"MinAvailable":{},"Selector":{},"MaxUnavailable":{},"UnhealthyPodEvictionPolicy":{}}}"#,
        at(spec, "minAvailable"),
        shown_selector(at(spec, "selector")),
        at(spec, "maxUnavailable"),
        at(spec, "unhealthyPodEvictionPolicy"),
    )
}

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column("Min Available", "How many pods must stay."),
    column("Max Unavailable", "How many pods may be missing."),
    integer("Allowed Disruptions", "How many pods may be taken away."),
    AGE,
];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let limit = |path: &str| match at(object, path) {
        Value::Null => "N/A".to_owned(),
        limit => plain(limit),
    };
    vec![
        table::name(object),
        limit("spec.minAvailable").into(),
        limit("spec.maxUnavailable").into(),
        table::count(object, "status.disruptionsAllowed"),
        age(object, now),
    ]
}
