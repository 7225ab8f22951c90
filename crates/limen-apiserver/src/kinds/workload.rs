//! What Deployments, ReplicaSets, StatefulSets and DaemonSets have in common: a selector, a pod
//! template that it must match, and counts.

use serde_json::{Value, json};

use super::fields::{at, is_set, number, text};
use super::labels::{self, check_selector};
use super::metadata::IMMUTABLE;
use super::names::{self, check};
use super::pod;
use crate::field_error::{FieldError, FieldPath};

pub(super) use pod::check_not_negative;

/// Adds what is wrong with counts that must not be negative.
pub(super) fn check_counts(errors: &mut Vec<FieldError>, spec: &Value, names: &[&str]) {
    let field = FieldPath::new("spec");
    for name in names {
        check_not_negative(errors, &field.child(name), number(spec, name));
    }
}

/// Adds what is wrong with a workload's selector and pod template. `what` is its kind as messages
/// call it.
pub(super) fn check_pods(errors: &mut Vec<FieldError>, spec: &Value, what: &Workload<'_>) {
    let (field, selector) = (FieldPath::new("spec"), at(spec, "selector"));
    let selector_field = field.child("selector");
    if selector.is_null() {
        errors.push(FieldError::required(&selector_field, ""));
    } else {
        check_selector(errors, &selector_field, selector);
        if labels::picks_all(selector) {
            let detail = format!("empty selector is invalid for {}", what.called);
            errors.push(FieldError::invalid(&selector_field, selector, &detail));
        }
    }
    if !labels::is_valid(selector) {
        let shown = shown_selector(selector);
        errors.push(FieldError::invalid_shown(&selector_field, &shown, what.bad_selector));
        return;
    }
    let template = at(spec, "template");
    let template_field = field.child("template");
    if selector.is_null() || !labels::picks_all(selector) {
        check_match(errors, spec);
    }
    pod::check_template(errors, &template_field, template, what.claims);
    check_forever(errors, template, &template_field, what.kind);
}

/// How messages speak of a workload.
pub(super) struct Workload<'a> {
    /// The kind, such as `ReplicaSet`.
    pub kind: &'a str,
    /// What an empty selector is invalid for.
    pub called: &'a str,
    /// What is said of a selector that cannot be read.
    pub bad_selector: &'a str,
    /// The volumes that it adds to the template.
    pub claims: &'a [&'a str],
}

/// Adds that the selector does not pick the template's pods.
pub(super) fn check_match(errors: &mut Vec<FieldError>, spec: &Value) {
    let template_labels = at(spec, "template.metadata.labels");
    if !labels::matches(at(spec, "selector"), template_labels) {
        let field = FieldPath::new("spec").child("template").child("metadata").child("labels");
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(&field, template_labels, detail));
    }
}

/// Adds that pods which are kept running may not end.
pub(super) fn check_forever(
    errors: &mut Vec<FieldError>,
    template: &Value,
    field: &FieldPath,
    kind: &str,
) {
    let field = field.child("spec");
    let policy = text(template, "spec.restartPolicy");
    if policy != "Always" {
        let field = field.child("restartPolicy");
        errors.push(FieldError::not_supported(&field, &json!(policy), &["Always"]));
    }
    if is_set(template, "spec.activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(FieldError::forbidden(&field.child("activeDeadlineSeconds"), &detail));
    }
}

/// A selector with its fields in the order that Kubernetes shows them.
pub(super) fn shown_selector(selector: &Value) -> String {
    let fields = ["matchLabels", "matchExpressions"].into_iter().filter(|it| is_set(selector, it));
    let fields: Vec<String> =
        fields.map(|name| format!("{name:?}:{}", at(selector, name))).collect();
    if selector.is_null() { "null".to_owned() } else { format!("{{{}}}", fields.join(",")) }
}

/// Adds that a workload's selector was changed.
pub(super) fn check_selector_kept(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    let (new, old) = (at(new, "spec.selector"), at(old, "spec.selector"));
    if new != old {
        let field = FieldPath::new("spec").child("selector");
        errors.push(FieldError::invalid_shown(&field, &shown_selector(new), IMMUTABLE));
    }
}

/// Adds what is wrong with a count or a percentage.
pub(super) fn check_count_or_percent(
    errors: &mut Vec<FieldError>,
    field: &FieldPath,
    value: &Value,
) {
    match value.as_str() {
        Some(text) => check(errors, field, text, names::percent(text)),
        None => check_not_negative(errors, field, value.as_i64().unwrap_or_default()),
    }
}

/// Adds that a percentage is above a hundred.
pub(super) fn check_at_most_all(errors: &mut Vec<FieldError>, field: &FieldPath, value: &Value) {
    if value.as_str().and_then(percentage).is_some_and(|percent| percent > 100) {
        errors.push(FieldError::invalid(field, value, "must not be greater than 100%"));
    }
}

/// A count or a percentage as a number.
pub(super) fn count_or_percent(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_str().and_then(percentage)).unwrap_or_default()
}

fn percentage(text: &str) -> Option<i64> {
    text.strip_suffix('%')?.parse().ok()
}

/// Adds that counts in a status are negative or exceed the number of pods.
pub(super) fn check_status_counts(
    errors: &mut Vec<FieldError>,
    status: &Value,
    counts: &[&str],
    ready: &str,
) {
    let field = FieldPath::new("status");
    let all = ["replicas"].iter().chain(counts);
    for name in all {
        check_not_negative(errors, &field.child(name), number(status, name));
    }
    let mut check_above = |name: &str, limit: &str, detail: &str| {
        if number(status, name) > number(status, limit) {
            let value = json!(number(status, name));
            errors.push(FieldError::invalid(&field.child(name), &value, detail));
        }
    };
    for name in counts.iter().filter(|name| name.ends_with("Replicas")) {
        check_above(name, "replicas", "cannot be greater than status.replicas");
    }
    check_above("availableReplicas", "readyReplicas", &format!("cannot be greater than {ready}"));
}
