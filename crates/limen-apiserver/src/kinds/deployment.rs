//! Deployment and ReplicaSet: any number of alike pods.

use serde_json::{Value, json};

use super::age::age;
use super::fields::{at, fill, fill_object, is_set, number, text};
use super::labels;
use super::pod::default_template;
use super::table::{self, AGE, CONTAINERS, IMAGES, NAME, SELECTOR, column, containers, integer};
use super::workload::{
    Workload, check_at_most_all, check_count_or_percent, check_counts, check_pods,
    check_selector_kept, check_status_counts, count_or_percent,
};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

const REPLICA_SET: Workload<'static> = Workload {
    kind: "ReplicaSet",
    called: "deployment",
    bad_selector: "invalid label selector",
    claims: &[],
};

pub(super) const RULES: Rules = Rules {
    name: NameRule::Subdomain,
    default,
    prepare_create: |object| fill_object(object, "status"),
    validate,
    validate_update: |new, old, errors| check_selector_kept(errors, new, old),
    validate_status: |new, _, errors| {
        let counts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        check_status_counts(errors, at(new, "status"), &counts, "readyReplicas");
    },
    ..Rules::NONE
};

pub(super) const REPLICA_SET_RULES: Rules = Rules {
    name: NameRule::Subdomain,
    default: |object| {
        fill(object, "spec.replicas", 1);
        default_template(object, "spec.template");
    },
    prepare_create: |object| table::start_with_zero(object, "status.replicas"),
    validate: |object, errors| {
        let spec = at(object, "spec");
        check_counts(errors, spec, &["replicas", "minReadySeconds"]);
        check_pods(errors, spec, &REPLICA_SET);
    },
    validate_update: |new, old, errors| check_selector_kept(errors, new, old),
    validate_status: |new, _, errors| {
        let counts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        check_status_counts(errors, at(new, "status"), &counts, "readyReplicas");
    },
    selectable: &[("status.replicas", |object| number(object, "status.replicas").to_string())],
    ..Rules::NONE
};

fn default(object: &mut Value) {
    fill(object, "spec.replicas", 1);
    fill(object, "spec.strategy.type", "RollingUpdate");
    if text(object, "spec.strategy.type") == "RollingUpdate" {
        fill(object, "spec.strategy.rollingUpdate.maxUnavailable", "25%");
        fill(object, "spec.strategy.rollingUpdate.maxSurge", "25%");
    }
    fill(object, "spec.revisionHistoryLimit", 10);
    fill(object, "spec.progressDeadlineSeconds", 600);
    default_template(object, "spec.template");
}

fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = at(object, "spec");
    let field = FieldPath::new("spec");
    check_counts(errors, spec, &["replicas"]);
    check_pods(errors, spec, &REPLICA_SET);
    validate_strategy(at(spec, "strategy"), &field.child("strategy"), errors);
    check_counts(errors, spec, &["minReadySeconds", "revisionHistoryLimit"]);
    check_counts(errors, spec, &["progressDeadlineSeconds"]);
    let deadline = number(spec, "progressDeadlineSeconds");
    if is_set(spec, "progressDeadlineSeconds") && deadline <= number(spec, "minReadySeconds") {
        let detail = "must be greater than minReadySeconds";
        let field = field.child("progressDeadlineSeconds");
        errors.push(FieldError::invalid(&field, &json!(deadline), detail));
    }
}

fn validate_strategy(strategy: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let rolling_field = field.child("rollingUpdate");
    match text(strategy, "type") {
        "Recreate" => {
            if is_set(strategy, "rollingUpdate") {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(FieldError::forbidden(&rolling_field, detail));
            }
        }
        "RollingUpdate" => {
            let unavailable = at(strategy, "rollingUpdate.maxUnavailable");
            let surge = at(strategy, "rollingUpdate.maxSurge");
            let unavailable_field = rolling_field.child("maxUnavailable");
            check_count_or_percent(errors, &unavailable_field, unavailable);
            check_count_or_percent(errors, &rolling_field.child("maxSurge"), surge);
            if count_or_percent(unavailable) == 0 && count_or_percent(surge) == 0 {
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.push(FieldError::invalid(&unavailable_field, unavailable, detail));
            }
            check_at_most_all(errors, &unavailable_field, unavailable);
        }
        other => {
            let shown = format!(r#"{{"Type":{other:?},"RollingUpdate":null}}"#);
            let supported = ["Recreate", "RollingUpdate"];
            errors.push(FieldError::not_supported_shown(field, &shown, &supported));
        }
    }
}

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column("Ready", "How many pods are ready, of how many."),
    column("Up-to-date", "How many pods have the template of now."),
    column("Available", "How many pods have been ready for long enough."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let ready = number(object, "status.readyReplicas");
    let (names, images) = containers(object, "spec.template.spec.containers");
    vec![
        table::name(object),
        format!("{ready}/{}", number(object, "spec.replicas")).into(),
        table::count(object, "status.updatedReplicas"),
        table::count(object, "status.availableReplicas"),
        age(object, now),
        names.into(),
        images.into(),
        labels::shown(at(object, "spec.selector")).into(),
    ]
}

pub(super) const REPLICA_SET_COLUMNS: &[Column] = &[
    NAME,
    integer("Desired", "How many pods there should be."),
    integer("Current", "How many pods there are."),
    integer("Ready", "How many pods are ready."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) fn replica_set_cells(object: &Value, now: i64) -> Vec<Value> {
    let (names, images) = containers(object, "spec.template.spec.containers");
    vec![
        table::name(object),
        table::count(object, "spec.replicas"),
        table::count(object, "status.replicas"),
        table::count(object, "status.readyReplicas"),
        age(object, now),
        names.into(),
        images.into(),
        labels::shown_or_none(at(object, "spec.selector")).into(),
    ]
}
