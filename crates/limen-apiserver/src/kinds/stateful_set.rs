//! StatefulSet: numbered pods that keep their names and volumes.

use serde_json::{Value, json};

use super::age::age;
use super::fields::{
    at, fill, fill_object, is_empty, is_set, items_mut, list, number, remove, set, text,
};
use super::names::{self, check};
use super::pod::default_template;
use super::quantity;
use super::table::{self, AGE, CONTAINERS, IMAGES, NAME, column, containers};
use super::workload::{
    Workload, check_at_most_all, check_count_or_percent, check_counts, check_not_negative,
    check_pods, check_status_counts, count_or_percent,
};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

pub(super) const RULES: Rules = Rules {
    name: NameRule::Label,
    default,
    prepare_create: |object| {
        table::start_with_zero(object, "status.replicas");
        table::start_with_zero(object, "status.availableReplicas");
    },
    validate,
    validate_update,
    validate_status: |new, _, errors| {
        let counts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
        check_status_counts(errors, at(new, "status"), &counts, "status.readyReplicas");
    },
    ..Rules::NONE
};

fn default(object: &mut Value) {
    fill(object, "spec.podManagementPolicy", "OrderedReady");
    if is_empty(object, "spec.updateStrategy.type") {
        set(object, "spec.updateStrategy.type", "RollingUpdate");
        fill_object(object, "spec.updateStrategy.rollingUpdate");
    }
    let rolling = text(object, "spec.updateStrategy.type") == "RollingUpdate";
    if rolling && is_set(object, "spec.updateStrategy.rollingUpdate") {
        fill(object, "spec.updateStrategy.rollingUpdate.partition", 0);
    }
    for name in ["whenDeleted", "whenScaled"] {
        let path = format!("spec.persistentVolumeClaimRetentionPolicy.{name}");
        fill(object, &path, "Retain");
    }
    fill(object, "spec.replicas", 1);
    fill(object, "spec.revisionHistoryLimit", 10);
    fill(object, "spec.serviceName", "");
    default_template(object, "spec.template");
    for claim in items_mut(object, "spec.volumeClaimTemplates") {
        fill(claim, "apiVersion", "v1");
        fill(claim, "kind", "PersistentVolumeClaim");
        fill(claim, "spec.volumeMode", "Filesystem");
        fill(claim, "status.phase", "Pending");
        if let Some(amounts) = super::fields::existing_mut(claim, "spec.resources.requests") {
            quantity::normalize_list(amounts);
        }
    }
}

fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = at(object, "spec");
    let field = FieldPath::new("spec");
    let policy = text(spec, "podManagementPolicy");
    if !["OrderedReady", "Parallel"].contains(&policy) {
        let detail = "must be 'OrderedReady' or 'Parallel'";
        let field = field.child("podManagementPolicy");
        errors.push(FieldError::invalid(&field, &json!(policy), detail));
    }
    validate_strategy(at(spec, "updateStrategy"), &field.child("updateStrategy"), errors);
    for name in ["whenDeleted", "whenScaled"] {
        let retention = at(spec, "persistentVolumeClaimRetentionPolicy");
        let supported = ["Retain", "Delete"];
        if !supported.contains(&text(retention, name)) {
            let field = field.child("persistentVolumeClaimRetentionPolicy").child(name);
            errors.push(FieldError::not_supported(&field, at(retention, name), &supported));
        }
    }
    check_counts(errors, spec, &["replicas", "minReadySeconds"]);
    check_not_negative(errors, &field.child("ordinals.start"), number(spec, "ordinals.start"));
    let service = text(spec, "serviceName");
    if !service.is_empty() {
        check(errors, &field.child("serviceName"), service, names::label(service));
    }
    let claims = list(spec, "volumeClaimTemplates").iter();
    let claims: Vec<&str> = claims.map(|claim| text(claim, "metadata.name")).collect();
    let workload =
        Workload { kind: "StatefulSet", called: "statefulset", bad_selector: "", claims: &claims };
    check_pods(errors, spec, &workload);
}

fn validate_strategy(strategy: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let rolling = field.child("rollingUpdate");
    match text(strategy, "type") {
        "OnDelete" => {
            if is_set(strategy, "rollingUpdate") {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                let value = at(strategy, "rollingUpdate");
                errors.push(FieldError::invalid(&rolling, value, detail));
            }
        }
        "RollingUpdate" => {
            let partition = number(strategy, "rollingUpdate.partition");
            check_not_negative(errors, &rolling.child("partition"), partition);
            let unavailable = at(strategy, "rollingUpdate.maxUnavailable");
            if !unavailable.is_null() {
                let field = rolling.child("maxUnavailable");
                check_count_or_percent(errors, &field, unavailable);
                if count_or_percent(unavailable) == 0 {
                    errors.push(FieldError::invalid(&field, unavailable, "cannot be 0"));
                }
                check_at_most_all(errors, &field, unavailable);
            }
        }
        other => {
            let shown = format!(r#"{{"Type":{other:?},"RollingUpdate":null}}"#);
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(FieldError::invalid_shown(field, &shown, detail));
        }
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let fixed = |object: &Value| {
        let mut spec = at(object, "spec").clone();
        for name in [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ] {
            remove(&mut spec, name);
        }
        spec
    };
    if fixed(new) != fixed(old) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
            'template', 'updateStrategy', 'revisionHistoryLimit', \
            'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden(&FieldPath::new("spec"), detail));
    }
}

pub(super) const COLUMNS: &[Column] =
    &[NAME, column("Ready", "How many pods are ready, of how many."), AGE, CONTAINERS, IMAGES];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let ready = number(object, "status.readyReplicas");
    let (names, images) = containers(object, "spec.template.spec.containers");
    vec![
        table::name(object),
        format!("{ready}/{}", number(object, "spec.replicas")).into(),
        age(object, now),
        names.into(),
        images.into(),
    ]
}
