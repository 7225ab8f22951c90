//! Whether a schema is structural: every value has one place that says what it is, and everything
//! else (`allOf`, `anyOf`, `oneOf`, `not`) only says which values are wrong.
//!
//! Pruning and defaulting walk that one place, so a schema that is not structural is refused.

use serde_json::Value;

use super::go_regex;
use super::schema_json::{
    additional, fields, flag, has_additional, is_empty, items, list, present, text,
};
use crate::field_error::{FieldError, FieldPath};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What keeps a schema from being structural, in the order of the messages.
pub(super) fn check(schema: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(schema, Level::Root, path, &mut errors);
    completeness(schema, schema, path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// The first construct in a schema that custom resources cannot have at all, as a sentence.
pub(super) fn unsupported(schema: &Value) -> Option<String> {
    let named = |name: &str| Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    for (name, key) in [("id", "id"), ("schema", "$schema"), ("$ref", "$ref")] {
        if !text(schema, key).is_empty() {
            return named(name);
        }
    }
    for name in ["patternProperties", "dependencies", "definitions"] {
        if schema.get(name).is_some_and(|value| !is_empty(value)) {
            return named(name);
        }
    }
    if present(schema, "additionalItems").is_some() {
        return named("additionalItems");
    }
    if present(schema, "x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        return Some(
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
                .to_owned(),
        );
    }
    if !list(schema, "items").is_empty() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    let parts = ["allOf", "anyOf", "oneOf"].iter().flat_map(|name| list(schema, name));
    let named = fields(schema, "properties").map(|(_, field)| field);
    let single = [schema.get("not"), items(schema), additional(schema)].into_iter().flatten();
    parts.chain(single).chain(named).find_map(unsupported)
}

fn invariants(schema: &Value, level: Level, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let int_or_string = flag(schema, "x-kubernetes-int-or-string");
    let preserves = flag(schema, "x-kubernetes-preserve-unknown-fields");
    let additional_path = path.child("additionalProperties");

    match items(schema) {
        Some(items) => invariants(items, Level::Item, &path.child("items"), errors),
        None if kind == "array" => {
            errors.push(FieldError::required(&path.child("items"), "must be specified"));
        }
        None => {}
    }
    for (name, field) in fields(schema, "properties") {
        invariants(field, Level::Field, &path.child("properties").key(name), errors);
    }
    if has_additional(schema) && level == Level::Root {
        errors.push(FieldError::forbidden(&additional_path, "must not be used at the root"));
    }
    if let Some(values) = additional(schema) {
        invariants(values, Level::Field, &additional_path, errors);
    }
    for (name, set) in [
        ("x-kubernetes-preserve-unknown-fields", preserves),
        ("x-kubernetes-embedded-resource", embedded),
    ] {
        if int_or_string && set {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(&path.child(name), &Value::Bool(true), detail));
        }
    }
    let any_of = is_int_or_string(schema);
    let all_of = list(schema, "allOf").first().is_some_and(is_int_or_string);
    value_validation(schema, any_of, all_of, path, errors);
    type_is_there(schema, level, path, errors);
    if embedded && has_additional(schema) {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(&additional_path, detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        let detail = "must be object at the root";
        errors.push(FieldError::invalid(&path.child("type"), &kind.into(), detail));
    }
    meta_fields(schema, level, path, errors);
    let named = fields(schema, "properties").next().is_some();
    if embedded && !preserves && !named {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&path.child("properties"), detail));
    }
}

fn type_is_there(schema: &Value, level: Level, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    let path = path.child("type");
    if flag(schema, "x-kubernetes-embedded-resource") {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        match kind {
            "object" => {}
            "" => errors.push(FieldError::required(&path, detail)),
            kind => errors.push(FieldError::invalid(&path, &kind.into(), detail)),
        }
        return;
    }
    let untyped = flag(schema, "x-kubernetes-int-or-string")
        || flag(schema, "x-kubernetes-preserve-unknown-fields");
    if kind.is_empty() && !untyped {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&path, detail));
    }
}

/// `kind`, `apiVersion` and `metadata` are what they are; a schema may only narrow the name.
fn meta_fields(schema: &Value, level: Level, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let whole_object = level == Level::Root || flag(schema, "x-kubernetes-embedded-resource");
    let property = |name: &str| schema.get("properties").and_then(|fields| fields.get(name));
    let property_path = |name: &str| path.child("properties").key(name);
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(field) = property(name).filter(|_| whole_object) else { continue };
        let kind = text(field, "type");
        if kind != wanted {
            let path = property_path(name).child("type");
            errors.push(FieldError::invalid(&path, &kind.into(), &format!("must be {wanted}")));
        }
    }
    if let Some(metadata) = property("metadata").filter(|_| level == Level::Root) {
        let named_only =
            fields(metadata, "properties").all(|(name, _)| matches!(name, "name" | "generateName"));
        let bare = metadata.as_object().is_some_and(|all| {
            all.iter().all(|(name, value)| match name.as_str() {
                "type" | "default" => true,
                "properties" => named_only,
                _ => is_empty(value),
            })
        });
        if !bare {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push(FieldError::forbidden(&property_path("metadata"), detail));
        }
    }
}

/// The one `anyOf` that may name types: an integer or a string.
fn is_int_or_string(schema: &Value) -> bool {
    let exactly = |branch: &Value, kind: &str| {
        text(branch, "type") == kind
            && branch.as_object().is_some_and(|all| {
                all.iter().all(|(name, value)| name == "type" || is_empty(value))
            })
    };
    matches!(list(schema, "anyOf"), [first, second] if exactly(first, "integer") && exactly(second, "string"))
}

fn value_validation(
    schema: &Value,
    skip_any_of: bool,
    skip_first_all_of: bool,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if !skip_any_of {
        for (n, branch) in list(schema, "anyOf").iter().enumerate() {
            nested(branch, false, &path.child("anyOf").index(n), errors);
        }
    }
    for (n, branch) in list(schema, "allOf").iter().enumerate() {
        nested(branch, skip_first_all_of && n == 0, &path.child("allOf").index(n), errors);
    }
    for (n, branch) in list(schema, "oneOf").iter().enumerate() {
        nested(branch, false, &path.child("oneOf").index(n), errors);
    }
    if let Some(branch) = present(schema, "not") {
        nested(branch, false, &path.child("not"), errors);
    }
    let pattern = text(schema, "pattern");
    if !pattern.is_empty()
        && let Err(why) = go_regex::compile(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(&path.child("pattern"), &pattern.into(), &detail));
    }
}

/// What stands in a value validation and does not belong there.
const NOT_NESTED: &[(&str, &str)] = &[
    ("type", "must be empty to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
];

fn nested(schema: &Value, skip_any_of: bool, path: &FieldPath, errors: &mut Vec<FieldError>) {
    value_validation(schema, skip_any_of, false, path, errors);
    if let Some(items) = items(schema) {
        nested(items, false, &path.child("items"), errors);
    }
    for (name, field) in fields(schema, "properties") {
        nested(field, false, &path.child("properties").key(name), errors);
    }
    if has_additional(schema) && schema["additionalProperties"] != Value::Bool(false) {
        let detail = "must be undefined to be structural";
        errors.push(FieldError::forbidden(&path.child("additionalProperties"), detail));
    }
    for (name, detail) in NOT_NESTED {
        let set = match *name {
            "default" => present(schema, name).is_some(),
            name => schema.get(name).is_some_and(|value| !is_empty(value)),
        };
        if set {
            errors.push(FieldError::forbidden(&path.child(name), detail));
        }
    }
    if schema.get("properties").and_then(|fields| fields.get("metadata")).is_some() {
        let path = path.child("properties").key("metadata");
        errors.push(FieldError::forbidden(&path, "must not be specified in a nested context"));
    }
}

/// Whether what the root's value validations speak of is there structurally.
fn completeness(
    validation: &Value,
    schema: &Value,
    schema_path: &FieldPath,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let mut branch = |branch: &Value, path: &FieldPath| {
        nested_completeness(branch, schema, schema_path, path, errors);
    };
    if let Some(not) = present(validation, "not") {
        branch(not, &path.child("not"));
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (n, schema) in list(validation, name).iter().enumerate() {
            branch(schema, &path.child(name).index(n));
        }
    }
}

fn nested_completeness(
    validation: &Value,
    schema: &Value,
    schema_path: &FieldPath,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    completeness(validation, schema, schema_path, path, errors);
    let mut part =
        |validation: &Value, schema: Option<&Value>, at: FieldPath, path: FieldPath| match schema {
            Some(schema) => nested_completeness(validation, schema, &at, &path, errors),
            None => {
                let detail = format!("because it is defined in {path}");
                errors.push(FieldError::required(&at, &detail));
            }
        };
    if let Some(validation) = items(validation) {
        part(validation, items(schema), schema_path.child("items"), path.child("items"));
    }
    for (name, validation) in fields(validation, "properties") {
        let field = schema.get("properties").and_then(|fields| fields.get(name));
        let at = schema_path.child("properties").key(name);
        part(validation, field, at, path.child("properties").key(name));
    }
}
