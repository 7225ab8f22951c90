//! Job: pods that run to their end.

use serde_json::{Value, json};

use super::age::{age, human_duration, seconds};
use super::fields::{at, fill, fill_object, flag, is_empty, is_set, number, remove, text};
use super::labels::{self, check_selector};
use super::metadata::IMMUTABLE;
use super::names;
use super::pod::{check_template, default_template};
use super::table::{
    self, AGE, CONTAINERS, IMAGES, NAME, SELECTOR, column, containers, has_condition,
};
use super::workload::{check_match, check_not_negative, shown_selector};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];

pub(super) const RULES: Rules = Rules {
    name: NameRule::Subdomain,
    default: |object| {
        default_spec(object, "spec");
        default_labels(object);
    },
    prepare_create,
    validate: |object, errors| {
        let (spec, field) = (at(object, "spec"), FieldPath::new("spec"));
        check_spec(errors, &field, spec);
        check_spec_selector(errors, spec);
    },
    validate_create: |object, errors| {
        let mut first = Vec::new();
        check_generated_labels(&mut first, object);
        errors.splice(0..0, first);
        check_longest_hostname(errors, object);
    },
    validate_update,
    selectable: &[("status.successful", |object| number(object, "status.succeeded").to_string())],
    ..Rules::NONE
};

/// Fills in the job spec at a path.
pub(super) fn default_spec(object: &mut Value, path: &str) {
    fill_object(object, path);
    let Some(spec) = super::fields::existing_mut(object, path) else { return };
    if !is_set(spec, "completions") && !is_set(spec, "parallelism") {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    let per_index = is_set(spec, "backoffLimitPerIndex");
    fill(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    let failures_matter = is_set(spec, "podFailurePolicy");
    let replacement = if failures_matter { "Failed" } else { "TerminatingOrFailed" };
    fill(spec, "podReplacementPolicy", replacement);
    fill(spec, "manualSelector", false);
    default_template(spec, "template");
}

/// A job without labels takes those of its pods.
fn default_labels(object: &mut Value) {
    let labels = at(object, "spec.template.metadata.labels").clone();
    if is_empty(object, "metadata.labels") && !labels.is_null() {
        super::fields::set(object, "metadata.labels", labels);
    }
}

/// Unless the user insists, pods are told by their job's uid.
fn prepare_create(object: &mut Value) {
    let (name, uid) = (at(object, "metadata.name").clone(), at(object, "metadata.uid").clone());
    fill_object(object, "status");
    if flag(object, "spec.manualSelector") {
        return;
    }
    // A job that took the labels of its pods takes these too.
    let labels = at(object, "metadata.labels");
    let shares = is_empty(object, "metadata.labels")
        || labels == at(object, "spec.template.metadata.labels");
    fill_object(object, "spec.template.metadata.labels");
    if let Some(labels) = object["spec"]["template"]["metadata"]["labels"].as_object_mut() {
        for label in NAME_LABELS {
            labels.entry(label).or_insert_with(|| name.clone());
        }
        for label in UID_LABELS {
            labels.entry(label).or_insert_with(|| uid.clone());
        }
    }
    fill_object(object, "spec.selector.matchLabels");
    let selector = &mut object["spec"]["selector"]["matchLabels"];
    if selector.get(UID_LABELS[1]).is_none() {
        selector[UID_LABELS[1]] = uid;
    }
    if shares {
        remove(object, "metadata.labels");
        default_labels(object);
    }
}

fn check_generated_labels(errors: &mut Vec<FieldError>, object: &Value) {
    if flag(object, "spec.manualSelector") {
        return;
    }
    let field = FieldPath::new("spec").child("template").child("metadata").child("labels");
    let labels = at(object, "spec.template.metadata.labels");
    let (uid, name) = (text(object, "metadata.uid"), text(object, "metadata.name"));
    let generated = [
        (UID_LABELS[0], uid),
        (NAME_LABELS[0], name),
        (UID_LABELS[1], uid),
        (NAME_LABELS[1], name),
    ];
    for (label, expected) in generated {
        let detail = format!("must be '{expected}'");
        match labels.get(label).and_then(Value::as_str) {
            None => errors.push(FieldError::required(&field.key(label), &detail)),
            Some(value) if value != expected => {
                errors.push(FieldError::invalid(&field.key(label), labels, &detail));
            }
            Some(_) => {}
        }
    }
    let selector = at(object, "spec.selector");
    let expected: Value = generated.into_iter().map(|(k, v)| (k.to_owned(), json!(v))).collect();
    if labels::is_valid(selector) && !labels::matches(selector, &expected) {
        let detail = "`selector` not auto-generated";
        let field = FieldPath::new("spec").child("selector");
        errors.push(FieldError::invalid_shown(&field, &shown_selector(selector), detail));
    }
}

fn check_longest_hostname(errors: &mut Vec<FieldError>, object: &Value) {
    let completions = number(object, "spec.completions");
    if text(object, "spec.completionMode") == "Indexed" && completions > 0 {
        let name = text(object, "metadata.name");
        let hostname = format!("{name}-{}", completions - 1);
        if !names::label(&hostname).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {hostname}");
            let field = FieldPath::new("metadata").child("name");
            errors.push(FieldError::invalid(&field, &json!(name), &detail));
        }
    }
}

/// Adds what is wrong with a job spec, less its selector.
pub(super) fn check_spec(errors: &mut Vec<FieldError>, field: &FieldPath, spec: &Value) {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    for name in counts {
        check_not_negative(errors, &field.child(name), number(spec, name));
    }
    if is_set(spec, "maxFailedIndexes") && !is_set(spec, "backoffLimitPerIndex") {
        let detail = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(&field.child("backoffLimitPerIndex"), detail));
    }
    check_completion_mode(errors, field, spec);
    let policy = text(spec, "podReplacementPolicy");
    let supported: &[&str] = if is_set(spec, "podFailurePolicy") {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    if is_set(spec, "podReplacementPolicy") && !supported.contains(&policy) {
        let field = field.child("podReplacementPolicy");
        errors.push(FieldError::not_supported(&field, &json!(policy), supported));
    }
    check_template(errors, &field.child("template"), at(spec, "template"), &[]);
    let restart_field = field.child("template").child("spec").child("restartPolicy");
    match text(spec, "template.spec.restartPolicy") {
        "" | "Always" => {
            let detail = "valid values: \"OnFailure\", \"Never\"";
            errors.push(FieldError::required(&restart_field, detail));
        }
        "OnFailure" if is_set(spec, "podFailurePolicy") => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.push(FieldError::invalid(&restart_field, &json!("OnFailure"), detail));
        }
        "OnFailure" | "Never" => {}
        other => {
            let supported = ["OnFailure", "Never"];
            errors.push(FieldError::not_supported(&restart_field, &json!(other), &supported));
        }
    }
}

fn check_completion_mode(errors: &mut Vec<FieldError>, field: &FieldPath, spec: &Value) {
    match text(spec, "completionMode") {
        "Indexed" => {
            if !is_set(spec, "completions") {
                let detail = "when completion mode is Indexed";
                errors.push(FieldError::required(&field.child("completions"), detail));
            }
            let parallelism = number(spec, "parallelism");
            if parallelism > 100_000 {
                let detail = "must be less than or equal to 100000 when completion mode is Indexed";
                let field = field.child("parallelism");
                errors.push(FieldError::invalid(&field, &json!(parallelism), detail));
            }
        }
        "NonIndexed" => {
            for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if is_set(spec, name) {
                    let detail = "requires indexed completion mode";
                    errors.push(FieldError::invalid(&field.child(name), at(spec, name), detail));
                }
            }
        }
        other => {
            let (field, supported) = (field.child("completionMode"), ["NonIndexed", "Indexed"]);
            errors.push(FieldError::not_supported(&field, &json!(other), &supported));
        }
    }
}

fn check_spec_selector(errors: &mut Vec<FieldError>, spec: &Value) {
    let (field, selector) = (FieldPath::new("spec").child("selector"), at(spec, "selector"));
    if selector.is_null() {
        errors.push(FieldError::required(&field, ""));
    } else {
        check_selector(errors, &field, selector);
    }
    if labels::is_valid(selector) {
        check_match(errors, spec);
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (new, old) = (at(new, "spec"), at(old, "spec"));
    let field = FieldPath::new("spec");
    let changed = |name: &str| at(new, name) != at(old, name);
    if text(new, "completionMode") == "Indexed" {
        let completions = at(new, "completions");
        if changed("completions") && completions != at(new, "parallelism") {
            let detail = "can only be modified in tandem with spec.parallelism";
            errors.push(FieldError::invalid(&field.child("completions"), completions, detail));
        }
    } else if changed("completions") {
        let completions = at(new, "completions");
        errors.push(FieldError::invalid(&field.child("completions"), completions, IMMUTABLE));
    }
    if changed("selector") {
        let shown = shown_selector(at(new, "selector"));
        errors.push(FieldError::invalid_shown(&field.child("selector"), &shown, IMMUTABLE));
    }
    let fixed = [
        "template",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ];
    for name in fixed.into_iter().filter(|name| changed(name)) {
        errors.push(FieldError::invalid(&field.child(name), at(new, name), IMMUTABLE));
    }
}

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column("Status", "How far the job is."),
    column("Completions", "How many pods ended well, of how many."),
    column("Duration", "How long it ran."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let succeeded = number(object, "status.succeeded");
    let parallelism = number(object, "spec.parallelism");
    let completions = match at(object, "spec.completions").as_i64() {
        Some(completions) => format!("{succeeded}/{completions}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    };
    let start = seconds(text(object, "status.startTime"));
    let end = seconds(text(object, "status.completionTime")).unwrap_or(now);
    let duration = start.map(|start| human_duration(end - start)).unwrap_or_default();
    let (names, images) = containers(object, "spec.template.spec.containers");
    vec![
        table::name(object),
        status(object).into(),
        completions.into(),
        duration.into(),
        age(object, now),
        names.into(),
        images.into(),
        labels::shown_or_none(at(object, "spec.selector")).into(),
    ]
}

fn status(object: &Value) -> &'static str {
    let terminating = is_set(object, "metadata.deletionTimestamp");
    let states = ["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"];
    let mut reached = states.into_iter().filter(|state| has_condition(object, state));
    match reached.next() {
        Some(state @ ("Complete" | "Failed")) => state,
        _ if terminating => "Terminating",
        Some(state) => state,
        None => "Running",
    }
}
