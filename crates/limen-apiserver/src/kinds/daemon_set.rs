//! DaemonSet: a pod on every node.

use serde_json::{Value, json};

use super::age::age;
use super::fields::{at, fill, is_set, text};
use super::labels::{self, check_selector, picks_all};
use super::pod::{check_template, default_template};
use super::table::{self, AGE, CONTAINERS, IMAGES, NAME, SELECTOR, column, containers, integer};
use super::workload::{
    check_at_most_all, check_count_or_percent, check_counts, check_forever, check_match,
    check_selector_kept, count_or_percent,
};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

const COUNTS: [&str; 4] =
    ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"];

pub(super) const RULES: Rules = Rules {
    name: NameRule::Subdomain,
    default,
    prepare_create: |object| {
        for name in COUNTS {
            table::start_with_zero(object, &format!("status.{name}"));
        }
        // Counts the versions of the template; kept for programs from before apps/v1.
        const GENERATION: &str = "deprecated.daemonset.template.generation";
        super::fields::fill_object(object, "metadata.annotations");
        object["metadata"]["annotations"][GENERATION] = json!("1");
    },
    validate,
    validate_update: |new, old, errors| {
        let mut first = Vec::new();
        check_selector_kept(&mut first, new, old);
        errors.splice(0..0, first);
    },
    validate_status: |new, _, errors| {
        let field = FieldPath::new("status");
        for name in COUNTS {
            let value = super::fields::number(at(new, "status"), name);
            super::workload::check_not_negative(errors, &field.child(name), value);
        }
    },
    ..Rules::NONE
};

fn default(object: &mut Value) {
    fill(object, "spec.updateStrategy.type", "RollingUpdate");
    if text(object, "spec.updateStrategy.type") == "RollingUpdate" {
        fill(object, "spec.updateStrategy.rollingUpdate.maxUnavailable", 1);
        fill(object, "spec.updateStrategy.rollingUpdate.maxSurge", 0);
    }
    fill(object, "spec.revisionHistoryLimit", 10);
    default_template(object, "spec.template");
}

fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = at(object, "spec");
    let field = FieldPath::new("spec");
    let selector = at(spec, "selector");
    check_selector(errors, &field.child("selector"), selector);
    if labels::is_valid(selector) {
        check_match(errors, spec);
    }
    if !selector.is_null() && picks_all(selector) {
        let detail = "empty selector is invalid for daemonset";
        errors.push(FieldError::invalid(&field.child("selector"), selector, detail));
    }
    let template = at(spec, "template");
    check_template(errors, &field.child("template"), template, &[]);
    check_forever(errors, template, &field.child("template"), "DaemonSet");
    check_counts(errors, spec, &["minReadySeconds"]);
    validate_strategy(at(spec, "updateStrategy"), &field.child("updateStrategy"), errors);
    check_counts(errors, spec, &["revisionHistoryLimit"]);
}

fn validate_strategy(strategy: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" if !is_set(strategy, "rollingUpdate") => {
            errors.push(FieldError::required(&field.child("rollingUpdate"), ""));
        }
        "RollingUpdate" => {
            let field = field.child("rollingUpdate");
            let (unavailable_field, surge_field) =
                (field.child("maxUnavailable"), field.child("maxSurge"));
            let unavailable = at(strategy, "rollingUpdate.maxUnavailable");
            let surge = at(strategy, "rollingUpdate.maxSurge");
            check_count_or_percent(errors, &unavailable_field, unavailable);
            check_count_or_percent(errors, &surge_field, surge);
            check_at_most_all(errors, &unavailable_field, unavailable);
            check_at_most_all(errors, &surge_field, surge);
            match (count_or_percent(unavailable) != 0, count_or_percent(surge) != 0) {
                (true, true) => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errors.push(FieldError::invalid(&surge_field, surge, detail));
                }
                (false, false) => {
                    let detail = "cannot be 0 when maxSurge is 0";
                    errors.push(FieldError::required(&unavailable_field, detail));
                }
                _ => {}
            }
        }
        other => {
            let shown = format!(r#"{{"Type":{other:?},"RollingUpdate":null}}"#);
            let supported = ["RollingUpdate", "OnDelete"];
            errors.push(FieldError::not_supported_shown(field, &shown, &supported));
        }
    }
}

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    integer("Desired", "How many nodes should run a pod."),
    integer("Current", "How many nodes run a pod."),
    integer("Ready", "How many pods are ready."),
    integer("Up-to-date", "How many pods have the template of now."),
    integer("Available", "How many pods have been ready for long enough."),
    column("Node Selector", "Which nodes run a pod."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let (names, images) = containers(object, "spec.template.spec.containers");
    vec![
        table::name(object),
        table::count(object, "status.desiredNumberScheduled"),
        table::count(object, "status.currentNumberScheduled"),
        table::count(object, "status.numberReady"),
        table::count(object, "status.updatedNumberScheduled"),
        table::count(object, "status.numberAvailable"),
        labels::shown_labels(at(object, "spec.template.spec.nodeSelector")).into(),
        age(object, now),
        names.into(),
        images.into(),
        labels::shown_or_none(at(object, "spec.selector")).into(),
    ]
}
