//! Objects inside of objects: they have a type and metadata too, which must be good.

use serde_json::Value;

use crate::crd::dns;
use crate::field_error::{FieldError, FieldPath};
use crate::schema::Node;

/// What is wrong with the objects embedded in a value.
pub(super) fn check(value: &Value, node: Node<'_>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if node.is_embedded() {
                object(value, path, errors);
            }
            for (name, value) in fields {
                if let Some(field) = node.named_field(name) {
                    check(value, field, &path.child(name), errors);
                } else if let Some(values) = node.additional() {
                    check(value, values, &path.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(item_node) = node.items() else { return };
            for (n, item) in items.iter().enumerate() {
                check(item, item_node, &path.index(n), errors);
            }
        }
        _ => {}
    }
}

/// What is wrong with the objects embedded in a default value.
pub(in crate::crd) fn check_parts(
    value: &Value,
    node: Node<'_>,
    path: &FieldPath,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(value, node, path, &mut errors);
    errors
}

fn object(object: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        if object.get(name).is_none() {
            errors.push(FieldError::required(&path.child(name), ""));
        }
    }
    for name in ["apiVersion", "kind"] {
        let Some(value) = object.get(name) else { continue };
        let path = path.child(name);
        let detail = match value.as_str() {
            None => "must be a string".to_owned(),
            Some("") => "must not be empty".to_owned(),
            Some(text) if name == "apiVersion" && text.matches('/').count() > 1 => {
                format!("unexpected GroupVersion string: {text}")
            }
            Some(text) if name == "kind" => {
                match dns::rfc1035_label(&text.to_lowercase()).join(",") {
                    wrong if wrong.is_empty() => continue,
                    wrong => format!("may have mixed case, but should otherwise match: {wrong}"),
                }
            }
            Some(_) => continue,
        };
        errors.push(FieldError::invalid(&path, value, &detail));
    }
    if let Some(value) = object.get("metadata") {
        let path = path.child("metadata");
        match unreadable(value) {
            Some(why) => errors.push(FieldError::invalid(&path, value, &why)),
            None => metadata(value, &path, errors),
        }
    }
}

const TEXTS: &[(&str, &str)] = &[
    ("name", "string"),
    ("generateName", "string"),
    ("namespace", "string"),
    ("selfLink", "string"),
    ("uid", "types.UID"),
    ("resourceVersion", "string"),
];

/// Why metadata cannot be read at all, in the words of Go's JSON library.
fn unreadable(metadata: &Value) -> Option<String> {
    let kind = |value: &Value| match value {
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) | Value::Null => "object",
    };
    let Some(fields) = metadata.as_object() else {
        let got = kind(metadata);
        return (!metadata.is_null())
            .then(|| format!("json: cannot unmarshal {got} into Go value of type v1.ObjectMeta"));
    };
    let wrong = |name: &str, value: &Value, wanted: &str| {
        let got = kind(value);
        Some(format!(
            "json: cannot unmarshal {got} into Go struct field ObjectMeta.{name} of type {wanted}"
        ))
    };
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let text = TEXTS.iter().find(|(text, _)| text == name);
        if let Some((_, wanted)) = text.filter(|_| !value.is_string()) {
            return wrong(name, value, wanted);
        }
        match (name.as_str(), value) {
            ("labels" | "annotations", Value::Object(values)) => {
                let stray = values.values().find(|value| !value.is_string() && !value.is_null());
                if let Some(stray) = stray {
                    return wrong(name, stray, "string");
                }
            }
            ("labels" | "annotations", other) => return wrong(name, other, "map[string]string"),
            ("finalizers", Value::Array(values)) => {
                if let Some(stray) = values.iter().find(|value| !value.is_string()) {
                    return wrong(name, stray, "string");
                }
            }
            ("finalizers", other) => return wrong(name, other, "[]string"),
            ("generation" | "deletionGracePeriodSeconds", other) if !other.is_i64() => {
                return wrong(name, other, "int64");
            }
            _ => {}
        }
    }
    None
}

fn metadata(metadata: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
    for name in ["generateName", "name"] {
        let value = text(name);
        let whole = name == "name" && matches!(value, "." | "..");
        let path = path.child(name);
        if whole {
            errors.push(FieldError::invalid(
                &path,
                &value.into(),
                &format!("may not be '{value}'"),
            ));
        }
        for part in ["/", "%"] {
            if !whole && value.contains(part) {
                let detail = format!("may not contain '{part}'");
                errors.push(FieldError::invalid(&path, &value.into(), &detail));
            }
        }
    }
    let namespace = text("namespace");
    if !namespace.is_empty() && (namespace.len() > 63 || !dns::is_label(namespace)) {
        let detail = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        errors.push(FieldError::invalid(&path.child("namespace"), &namespace.into(), detail));
    }
    for field in ["labels", "annotations"] {
        let entries = metadata.get(field).and_then(Value::as_object);
        for (key, value) in entries.into_iter().flatten() {
            let path = path.child(field);
            let checked = if field == "annotations" { key.to_lowercase() } else { key.clone() };
            for detail in dns::qualified_name(&checked) {
                errors.push(FieldError::invalid(&path, &key.as_str().into(), &detail));
            }
            if field == "labels" {
                for detail in dns::label_value(value.as_str().unwrap_or_default()) {
                    errors.push(FieldError::invalid(&path, value, &detail));
                }
            }
        }
    }
}
