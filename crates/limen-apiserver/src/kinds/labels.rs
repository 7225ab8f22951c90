//! Labels and the selectors that pick objects by them.

use serde_json::{Value, json};

use super::fields::{at, entries, is_empty, list, text, texts};
use super::names::{self, check};
use crate::field_error::{FieldError, FieldPath};

/// Adds what is wrong with a map of labels.
pub(super) fn check_labels(errors: &mut Vec<FieldError>, field: &FieldPath, labels: &Value) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        check(errors, field, key.as_str(), names::label_key(key));
        let value = value.as_str().unwrap_or_default();
        check(errors, field, value, names::label_value(value));
    }
}

/// Adds what is wrong with a label selector; an absent one is fine.
pub(super) fn check_selector(errors: &mut Vec<FieldError>, field: &FieldPath, selector: &Value) {
    check_labels(errors, &field.child("matchLabels"), at(selector, "matchLabels"));
    for (n, requirement) in list(selector, "matchExpressions").iter().enumerate() {
        check_requirement(errors, &field.child("matchExpressions").index(n), requirement);
    }
}

fn check_requirement(errors: &mut Vec<FieldError>, field: &FieldPath, requirement: &Value) {
    let values = field.child("values");
    match text(requirement, "operator") {
        "In" | "NotIn" => {
            if is_empty(requirement, "values") {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(&values, detail));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !is_empty(requirement, "values") {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(&values, detail));
            }
        }
        operator => {
            let detail = "not a valid selector operator";
            errors.push(FieldError::invalid(&field.child("operator"), &json!(operator), detail));
        }
    }
    let key = text(requirement, "key");
    check(errors, &field.child("key"), key, names::label_key(key));
    for (n, value) in texts(requirement, "values").into_iter().enumerate() {
        check(errors, &values.index(n), value, names::label_value(value));
    }
}

/// Whether a selector says which objects it picks.
pub(super) fn is_valid(selector: &Value) -> bool {
    let mut errors = Vec::new();
    check_selector(&mut errors, &FieldPath::root(), selector);
    errors.is_empty()
}

/// Whether a selector picks every object.
pub(super) fn picks_all(selector: &Value) -> bool {
    is_empty(selector, "matchLabels") && is_empty(selector, "matchExpressions")
}

/// Whether a selector picks objects with these labels. An absent selector picks nothing.
pub(super) fn matches(selector: &Value, labels: &Value) -> bool {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    !selector.is_null()
        && entries(selector, "matchLabels").all(|(key, value)| label(key) == value.as_str())
        && list(selector, "matchExpressions").iter().all(|requirement| {
            let value = label(text(requirement, "key"));
            let listed = value.is_some_and(|value| texts(requirement, "values").contains(&value));
            match text(requirement, "operator") {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                _ => value.is_none(),
            }
        })
}

/// A selector as tables show it, such as `app=web,tier in (a,b)`; empty if it picks all or nothing.
pub(super) fn shown(selector: &Value) -> String {
    let labels = entries(selector, "matchLabels")
        .map(|(key, value)| (key, format!("{key}={}", value.as_str().unwrap_or_default())));
    let requirements = list(selector, "matchExpressions").iter().map(|requirement| {
        let key = text(requirement, "key");
        let mut values = texts(requirement, "values");
        values.sort_unstable();
        let values = values.join(",");
        let shown = match text(requirement, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        (key, shown)
    });
    let mut parts: Vec<_> = labels.chain(requirements).collect();
    parts.sort_by_key(|(key, _)| *key);
    parts.into_iter().map(|(_, shown)| shown).collect::<Vec<_>>().join(",")
}

/// A selector as tables show it, with a word for one that says nothing.
pub(super) fn shown_or_none(selector: &Value) -> String {
    match shown(selector) {
        shown if shown.is_empty() => "<none>".to_owned(),
        shown => shown,
    }
}

/// A map of labels as tables show it.
pub(super) fn shown_labels(labels: &Value) -> String {
    shown_or_none(&json!({"matchLabels": labels}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_picks_by_labels_and_expressions() {
        let selector = json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "env", "operator": "NotIn", "values": ["test"]},
            ],
        });
        assert!(matches(&selector, &json!({"app": "web", "tier": "a"})));
        assert!(!matches(&selector, &json!({"app": "web", "tier": "c"})));
        assert!(!matches(&selector, &json!({"app": "web", "tier": "a", "old": ""})));
        assert!(!matches(&selector, &json!({"app": "web", "tier": "a", "env": "test"})));
        assert!(!matches(&Value::Null, &json!({"app": "web"})));
        assert_eq!(shown(&selector), "app=web,env notin (test),!old,tier in (a,b)");
        assert_eq!(shown_labels(&json!({})), "<none>");
    }
}
