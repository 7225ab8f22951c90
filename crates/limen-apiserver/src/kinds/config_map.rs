//! ConfigMap: settings as text or bytes.

use serde_json::Value;

use super::age::age;
use super::fields::{at, entries, flag, is_empty};
use super::names::{self, check};
use super::table::{self, AGE, NAME, column};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

/// How many bytes the values of a ConfigMap or a Secret may have in all.
pub(super) const SIZE_LIMIT: usize = 1024 * 1024;

const IMMUTABLE: &str = "field is immutable when `immutable` is set";

pub(super) const RULES: Rules =
    Rules { name: NameRule::Subdomain, validate, validate_update, ..Rules::NONE };

fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in entries(object, "data") {
        let field = FieldPath::new("data").key(key);
        check(errors, &field, key, names::config_key(key));
        if at(object, "binaryData").get(key).is_some() {
            let reasons = vec!["duplicate of key present in binaryData".to_owned()];
            check(errors, &field, key, reasons);
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in entries(object, "binaryData") {
        check(errors, &FieldPath::new("binaryData").key(key), key, names::config_key(key));
        size += decoded_size(value);
    }
    if size > SIZE_LIMIT {
        // Kubernetes means the whole object, whose path it shows like this.
        errors.push(FieldError::too_long(&FieldPath::new("[]"), SIZE_LIMIT));
    }
}

/// How many bytes a base64 text stands for.
pub(super) fn decoded_size(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default().trim_end_matches('=');
    text.len() * 3 / 4
}

fn validate_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    errors.splice(0..0, frozen_changes(new, old, &["data", "binaryData"]));
}

/// What is wrong with changing the content of an object that is declared immutable.
pub(super) fn frozen_changes(new: &Value, old: &Value, content: &[&str]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if flag(old, "immutable") {
        if !flag(new, "immutable") {
            errors.push(FieldError::forbidden(&FieldPath::new("immutable"), IMMUTABLE));
        }
        for name in content {
            let both_empty = is_empty(new, name) && is_empty(old, name);
            if at(new, name) != at(old, name) && !both_empty {
                errors.push(FieldError::forbidden(&FieldPath::new(name), IMMUTABLE));
            }
        }
    }
    errors
}

pub(super) const COLUMNS: &[Column] = &[NAME, column("Data", "How many keys there are."), AGE];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let keys = entries(object, "data").count() + entries(object, "binaryData").count();
    vec![table::name(object), keys.into(), age(object, now)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_room_for_a_mebibyte_in_all() {
        let judged = |text: usize, binary: &str| {
            let mut errors = Vec::new();
            let object = json!({"data": {"a": "b".repeat(text)}, "binaryData": {"c": binary}});
            validate(&object, &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(judged(SIZE_LIMIT - 1, "eA=="), Vec::<String>::new());
        let too_long = "[]: Too long: may not be more than 1048576 bytes";
        assert_eq!(judged(SIZE_LIMIT - 1, "eHg="), [too_long]);
    }
}
