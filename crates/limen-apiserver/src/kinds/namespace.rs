//! Namespace: a room of its own for the names of other objects.

use serde_json::{Value, json};

use super::age::age;
use super::fields::{at, fill_object, is_set, list, remove, set, text, texts};
use super::metadata::check_standard_finalizer;
use super::names::{self, check};
use super::table::{self, AGE, NAME, column};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

/// The finalizer that keeps a namespace until its contents are gone.
pub(crate) const FINALIZER: &str = "kubernetes";

/// The label that every namespace has with its own name.
pub(crate) const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) const RULES: Rules = Rules {
    name: NameRule::Label,
    default,
    prepare_create,
    validate,
    validate_status,
    prepare_update,
    selectable: &[("status.phase", |object| text(object, "status.phase").to_owned())],
    ..Rules::NONE
};

fn default(object: &mut Value) {
    fill_object(object, "spec");
    let name = text(object, "metadata.name").to_owned();
    if !name.is_empty() {
        fill_object(object, "metadata.labels");
        object["metadata"]["labels"][NAME_LABEL] = name.into();
    }
}

fn prepare_create(object: &mut Value) {
    // A name may have been generated since the object was defaulted.
    default(object);
    set(object, "status", json!({"phase": "Active"}));
    let mut finalizers = list(object, "spec.finalizers").to_vec();
    if !finalizers.contains(&json!(FINALIZER)) {
        finalizers.push(FINALIZER.into());
    }
    set(object, "spec.finalizers", finalizers);
}

fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let field = FieldPath::new("spec").child("finalizers");
    for finalizer in texts(object, "spec.finalizers") {
        check(errors, &field, finalizer, names::label_key(finalizer));
        check_standard_finalizer(errors, &field, finalizer);
    }
}

/// Finalizers change only through the finalize subresource.
fn prepare_update(new: &mut Value, old: &Value) {
    match at(old, "spec.finalizers") {
        Value::Null => remove(new, "spec.finalizers"),
        finalizers => set(new, "spec.finalizers", finalizers.clone()),
    }
}

fn validate_status(new: &Value, _old: &Value, errors: &mut Vec<FieldError>) {
    let phase = text(new, "status.phase");
    let (expected, detail) = if is_set(new, "metadata.deletionTimestamp") {
        ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
    } else {
        ("Active", "may only be 'Active' if `deletionTimestamp` is empty")
    };
    if phase != expected {
        let field = FieldPath::new("status").child("Phase");
        errors.push(FieldError::invalid(&field, &json!(phase), detail));
    }
}

/// What is wrong with an update of the finalize subresource.
pub(crate) fn validate_finalize(new: &Value, errors: &mut Vec<FieldError>) {
    let field = FieldPath::new("spec").child("finalizers");
    for (n, finalizer) in texts(new, "spec.finalizers").into_iter().enumerate() {
        let field = field.index(n);
        check(errors, &field, finalizer, names::label_key(finalizer));
        check_standard_finalizer(errors, &field, finalizer);
    }
}

pub(super) const COLUMNS: &[Column] =
    &[NAME, column("Status", "Whether the namespace is in use or going away."), AGE];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    vec![table::name(object), text(object, "status.phase").into(), age(object, now)]
}
