//! Lease: who holds something, and until when.

use serde_json::{Value, json};

use super::age::age;
use super::fields::{at, fill_object, is_empty, is_set, number, text};
use super::table::{self, AGE, NAME, column};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

pub(super) const RULES: Rules = Rules {
    name: NameRule::Subdomain,
    default: |object| fill_object(object, "spec"),
    validate,
    ..Rules::NONE
};

fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let (spec, field) = (at(object, "spec"), FieldPath::new("spec"));
    let (duration, transitions) =
        (number(spec, "leaseDurationSeconds"), number(spec, "leaseTransitions"));
    if is_set(spec, "leaseDurationSeconds") && duration <= 0 {
        let field = field.child("leaseDurationSeconds");
        errors.push(FieldError::invalid(&field, &json!(duration), "must be greater than 0"));
    }
    if transitions < 0 {
        let detail = "must be greater than or equal to 0";
        let field = field.child("leaseTransitions");
        errors.push(FieldError::invalid(&field, &json!(transitions), detail));
    }
    if !is_empty(spec, "preferredHolder") && is_empty(spec, "strategy") {
        let detail = "may only be specified if `strategy` is defined";
        errors.push(FieldError::forbidden(&field.child("preferredHolder"), detail));
    }
}

pub(super) const COLUMNS: &[Column] = &[NAME, column("Holder", "Who holds the lease."), AGE];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    vec![table::name(object), text(object, "spec.holderIdentity").into(), age(object, now)]
}
