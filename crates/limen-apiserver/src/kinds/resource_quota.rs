//! ResourceQuota: how much a namespace may ask for. The hub runs nothing, so it keeps the limits
//! and enforces none.

use serde_json::{Value, json};

use super::age::age;
use super::fields::{at, entries, existing_mut, fill_object, set};
use super::quantity;
use super::table::{self, AGE, NAME, column};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

pub(super) const RULES: Rules = Rules {
    name: NameRule::Subdomain,
    default: |object| {
        fill_object(object, "spec");
        if let Some(hard) = existing_mut(object, "spec.hard") {
            quantity::normalize_list(hard);
        }
    },
    prepare_create: |object| set(object, "status", json!({})),
    validate,
    ..Rules::NONE
};

fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let field = FieldPath::new("spec").child("hard");
    for (resource, amount) in entries(object, "spec.hard") {
        if amount.as_str().is_some_and(|amount| amount.starts_with('-')) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(&field.key(resource), amount, detail));
        }
    }
}

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column("Request", "What is asked for, of how much."),
    column("Limit", "What it may come to, of how much."),
    AGE,
];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let shown = |of_limits: bool| {
        let hard = entries(object, "status.hard");
        let wanted = hard.filter(|(resource, _)| resource.starts_with("limits") == of_limits);
        let mut shown: Vec<String> = wanted
            .map(|(resource, hard)| {
                let used = at(object, "status.used").get(resource).and_then(Value::as_str);
                let (used, hard) = (used.unwrap_or("0"), hard.as_str().unwrap_or_default());
                format!("{resource}: {used}/{hard}")
            })
            .collect();
        shown.sort_unstable();
        shown.join(", ")
    };
    vec![table::name(object), shown(false).into(), shown(true).into(), age(object, now)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_is_shown_beside_the_limits() {
        let quota = json!({
            "metadata": {"name": "q", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {
                "hard": {"pods": "10", "limits.cpu": "4", "configmaps": "5"},
                "used": {"pods": "3", "configmaps": "1"},
            },
        });
        let now = crate::kinds::age::seconds("2026-01-01T00:00:05Z").unwrap();
        let expected = json!(["q", "configmaps: 1/5, pods: 3/10", "limits.cpu: 0/4", "5s"]);
        assert_eq!(Value::Array(cells(&quota, now)), expected);
    }
}
