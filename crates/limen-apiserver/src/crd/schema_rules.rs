//! The rules for the schema of a custom resource: what may stand in it, and what its extensions
//! ask of each other.
//!
//! A schema goes through three gates, as in the real server: it must be structural; its defaults
//! must be good values; its validation rules must compile. A later gate is tried only if the
//! earlier ones let the schema through, since its messages would be noise otherwise.

use serde_json::Value;

use super::schema_json::{
    additional, escaped, fields, flag, internal, internal_rule, is_empty, items, list, present,
    text, texts,
};
use super::{default_values, paths, rules, structural};
use crate::field_error::{FieldError, FieldPath};

/// How deep schemas may be nested; everything that walks them may rely on it.
const DEEPEST: usize = 64;
/// How many validation rules a schema may have.
const MOST_RULES: usize = 1000;
const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

/// What is wrong with a schema. With a status subresource, less may stand at the root.
pub(super) fn check(
    schema: &Value,
    path: &FieldPath,
    has_status: bool,
    errors: &mut Vec<FieldError>,
) {
    // A level of a schema is two levels of JSON: `properties` and the field.
    if deeper_than(schema, 2 * DEEPEST) {
        let detail = format!("must not be nested more than {DEEPEST} levels deep");
        errors.push(FieldError::forbidden(path, &detail));
        return;
    }
    let start = errors.len();
    if has_status {
        check_root(schema, path, errors);
    }
    if flag(schema, "nullable") {
        errors.push(FieldError::forbidden(
            &path.child("nullable"),
            "nullable cannot be true at the root",
        ));
    }
    let unsupported = structural::unsupported(schema);
    let mut compile_rules = false;
    if unsupported.is_none() {
        let mut found = structural::check(schema, path);
        if found.is_empty() {
            found = default_values::check(schema, path);
        }
        compile_rules = found.is_empty();
        errors.extend(found);
    }
    let mut walk =
        Walk { compile_rules, schema_errors: Vec::new(), rule_errors: Vec::new(), rules: 0 };
    walk.schema(schema, path, &Place { root: true, ..Place::default() });
    errors.append(&mut walk.schema_errors);
    errors.append(&mut walk.rule_errors);
    if let Some(why) = unsupported.filter(|_| errors.len() == start) {
        errors.push(FieldError::invalid(path, &"".into(), &why));
    }
}

/// Whether something in the JSON is nested more than so many levels deep.
fn deeper_than(json: &Value, levels: usize) -> bool {
    let inner = |inner: &Value| levels == 0 || deeper_than(inner, levels - 1);
    match json {
        Value::Object(fields) => fields.values().any(inner),
        Value::Array(items) => items.iter().any(inner),
        _ => false,
    }
}

const ALLOWED_AT_ROOT: &[&str] = &[
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// The status is validated alone when it is written alone, so the root may say nothing of it that
/// would be lost then.
fn check_root(schema: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    if !kind.is_empty() && kind != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(&path.child("type"), &kind.into(), detail));
        return;
    }
    let allowed = |name: &str| {
        let internal = match name.strip_prefix("x-kubernetes-") {
            Some("preserve-unknown-fields") => "XPreserveUnknownFields".to_owned(),
            Some("validations") => "XValidations".to_owned(),
            Some(_) => return false,
            None => name[..1].to_uppercase() + &name[1..],
        };
        ALLOWED_AT_ROOT.contains(&internal.as_str()) || name == "nullable"
    };
    let fields = schema.as_object().into_iter().flatten();
    let known = |name: &str| name.is_ascii() && !name.is_empty();
    if fields.into_iter().any(|(name, value)| known(name) && !is_empty(value) && !allowed(name)) {
        let detail = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            ALLOWED_AT_ROOT.join(" ")
        );
        errors.push(FieldError::invalid_shown(path, &internal(schema), &detail));
    }
}

struct Walk {
    compile_rules: bool,
    schema_errors: Vec<FieldError>,
    rule_errors: Vec<FieldError>,
    rules: usize,
}

/// What holds at a place in a schema because of what is above it.
#[derive(Clone, Default)]
struct Place {
    root: bool,
    inside_meta: bool,
    no_defaults: Option<String>,
    /// Where old and new values can no longer be told to belong together.
    uncorrelatable: Option<FieldPath>,
    /// A value validation, in which rules are not compiled.
    nested: bool,
}

impl Walk {
    fn schema(&mut self, schema: &Value, path: &FieldPath, place: &Place) {
        let before = self.schema_errors.len();
        self.constructs(schema, path, place);
        self.children(schema, path, place);
        self.extensions(schema, path);
        let rules = list(schema, "x-kubernetes-validations");
        for (n, rule) in rules.iter().enumerate() {
            let path = path.child("x-kubernetes-validations").index(n);
            self.rule_fields(rule, schema, &path);
        }
        self.rules += rules.len();
        if self.rules > MOST_RULES {
            let detail = format!("must have at most {MOST_RULES} rules in all");
            self.schema_errors
                .push(FieldError::forbidden(&path.child("x-kubernetes-validations"), &detail));
            self.compile_rules = false;
        }
        if self.schema_errors.len() == before && self.compile_rules && !place.nested {
            for (n, rule) in rules.iter().enumerate() {
                let path = path.child("x-kubernetes-validations").index(n);
                self.compile(rule, schema, &path, place);
            }
        }
    }

    fn constructs(&mut self, schema: &Value, path: &FieldPath, place: &Place) {
        let errors = &mut self.schema_errors;
        let kind = text(schema, "type");
        if !kind.is_empty() && !TYPES.contains(&kind) {
            errors.push(FieldError::not_supported(&path.child("type"), &kind.into(), TYPES));
        }
        if let Some(reason) =
            place.no_defaults.as_ref().filter(|_| present(schema, "default").is_some())
        {
            let detail = format!("must not be set {reason}");
            errors.push(FieldError::forbidden(&path.child("default"), &detail));
        }
        let mut unsupported = |name: &str, set: bool| {
            if set {
                let detail = format!("{name} is not supported");
                errors.push(FieldError::forbidden(&path.child(name), &detail));
            }
        };
        let non_empty = |name: &str| schema.get(name).is_some_and(|value| !is_empty(value));
        unsupported("id", non_empty("id"));
        unsupported("additionalItems", present(schema, "additionalItems").is_some());
        unsupported("patternProperties", non_empty("patternProperties"));
        unsupported("definitions", non_empty("definitions"));
        unsupported("dependencies", present(schema, "dependencies").is_some());
        unsupported("$ref", present(schema, "$ref").is_some());
        if kind == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            errors.push(FieldError::forbidden(&path.child("type"), detail));
        }
        if !list(schema, "items").is_empty() {
            let detail = "items must be a schema object and not an array";
            errors.push(FieldError::forbidden(&path.child("items"), detail));
        }
        if place.inside_meta && flag(schema, "x-kubernetes-embedded-resource") {
            let path = path.child("x-kubernetes-embedded-resource");
            errors.push(FieldError::forbidden(&path, "must not be used inside of resource meta"));
        }
        if flag(schema, "uniqueItems") {
            let detail =
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            errors.push(FieldError::forbidden(&path.child("uniqueItems"), detail));
        }
    }

    fn children(&mut self, schema: &Value, path: &FieldPath, place: &Place) {
        let inner = Place { root: false, ..place.clone() };
        let named = fields(schema, "properties").next().is_some();
        let additional_path = path.child("additionalProperties");
        let restricts = additional(schema).is_some()
            || schema.get("additionalProperties") == Some(&Value::Bool(false));
        if named && restricts {
            let detail = "additionalProperties and properties are mutual exclusive";
            self.schema_errors.push(FieldError::forbidden(&additional_path, detail));
        }
        if let Some(values) = additional(schema) {
            let mut inner = inner.clone();
            if place.inside_meta {
                let reason = "inside additionalProperties applying to object metadata";
                inner.no_defaults = Some(reason.to_owned());
            }
            self.schema(values, &additional_path, &inner);
        }
        let whole_object = place.root || flag(schema, "x-kubernetes-embedded-resource");
        for (name, field) in fields(schema, "properties") {
            let mut inner = inner.clone();
            if whole_object && matches!(name, "metadata" | "kind" | "apiVersion") {
                inner.inside_meta = true;
                if place.root {
                    inner.no_defaults = Some(format!("in top-level {name}"));
                }
            }
            self.schema(field, &path.child("properties").key(name), &inner);
        }
        let nested = Place { nested: true, ..inner.clone() };
        if let Some(not) = present(schema, "not") {
            self.schema(not, &path.child("not"), &nested);
        }
        for name in ["allOf", "oneOf", "anyOf"] {
            for (n, branch) in list(schema, name).iter().enumerate() {
                self.schema(branch, &path.child(name).index(n), &nested);
            }
        }
        if let Some(items) = items(schema) {
            let mut inner = inner;
            if text(schema, "x-kubernetes-list-type") != "map" {
                inner.uncorrelatable.get_or_insert_with(|| path.clone());
            }
            self.schema(items, &path.child("items"), &inner);
        }
    }

    fn extensions(&mut self, schema: &Value, path: &FieldPath) {
        let errors = &mut self.schema_errors;
        let preserve = "x-kubernetes-preserve-unknown-fields";
        if schema.get(preserve) == Some(&Value::Bool(false)) {
            let detail = "must be true or undefined";
            errors.push(FieldError::invalid(&path.child(preserve), &Value::Bool(false), detail));
        }
        let kind = text(schema, "type");
        let mut must_be = |wanted: &str, because: &str| {
            let detail = format!("must be {wanted} if {because} is specified");
            let path = path.child("type");
            errors.push(match kind {
                "" => FieldError::required(&path, &detail),
                kind => FieldError::invalid(&path, &kind.into(), &detail),
            });
        };
        let map_type = present(schema, "x-kubernetes-map-type").and_then(Value::as_str);
        if map_type.is_some() && kind != "object" {
            must_be("object", "x-kubernetes-map-type");
        }
        let list_type = present(schema, "x-kubernetes-list-type").and_then(Value::as_str);
        if list_type.is_some() && kind != "array" {
            must_be("array", "x-kubernetes-list-type");
        }
        if let Some(other) = map_type.filter(|kind| !["atomic", "granular"].contains(kind)) {
            let path = path.child("x-kubernetes-map-type");
            errors.push(FieldError::not_supported(&path, &other.into(), &["atomic", "granular"]));
        }
        if list_type == Some("set") && kind == "array" {
            set_items(schema, path, errors);
        }
        let list_path = path.child("x-kubernetes-list-type");
        if let Some(other) = list_type.filter(|kind| !["atomic", "set", "map"].contains(kind)) {
            let known = &["atomic", "set", "map"];
            errors.push(FieldError::not_supported(&list_path, &other.into(), known));
        }
        if !list(schema, "x-kubernetes-list-map-keys").is_empty() && list_type != Some("map") {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            errors.push(match list_type {
                None => FieldError::required(&list_path, detail),
                Some(other) => FieldError::invalid(&list_path, &other.into(), detail),
            });
        }
        if list_type == Some("map") {
            map_list(schema, path, errors);
        }
        if let Some(list_type) = list_type.filter(|kind| ["set", "map"].contains(kind)) {
            keyed_items(schema, list_type, path, errors);
        }
    }

    fn rule_fields(&mut self, rule: &Value, schema: &Value, path: &FieldPath) {
        let errors = &mut self.schema_errors;
        let (expression, message) = (text(rule, "rule"), text(rule, "message"));
        let broken = |text: &str| text.contains(['\n', '\r']);
        let (trimmed, trimmed_message) = (expression.trim(), message.trim());
        let message_path = path.child("message");
        if trimmed.is_empty() {
            errors.push(FieldError::required(&path.child("rule"), "rule is not specified"));
        } else if !message.is_empty() && trimmed_message.is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(FieldError::invalid(&message_path, &message.into(), detail));
        } else if broken(trimmed_message) {
            let detail = "must not contain line breaks";
            errors.push(FieldError::invalid(&message_path, &message.into(), detail));
        } else if broken(trimmed) && trimmed_message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(&message_path, detail));
        }
        let computed = text(rule, "messageExpression");
        if !computed.is_empty() && computed.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(&path.child("messageExpression"), detail));
        }
        let reasons = [
            "FieldValueDuplicate",
            "FieldValueForbidden",
            "FieldValueInvalid",
            "FieldValueRequired",
        ];
        if let Some(reason) =
            present(rule, "reason").filter(|reason| !reasons.iter().any(|known| *reason == known))
        {
            errors.push(FieldError::not_supported(&path.child("reason"), reason, &reasons));
        }
        let field = text(rule, "fieldPath");
        let path = path.child("fieldPath");
        let mut wrong = |detail| errors.push(FieldError::invalid(&path, &field.into(), detail));
        if !field.is_empty() && field.trim().is_empty() {
            wrong("must be non-empty if specified");
        }
        if broken(field) {
            wrong("must not contain line breaks");
        }
        if !field.is_empty() && paths::find(field, schema, true).is_err() {
            wrong("must be a valid path");
        }
    }

    fn compile(&mut self, rule: &Value, schema: &Value, path: &FieldPath, place: &Place) {
        let errors = &mut self.rule_errors;
        let whole_object = place.root || flag(schema, "x-kubernetes-embedded-resource");
        let checked = rules::check(rule, schema, whole_object);
        if let Err(why) = &checked.rule {
            let shown = internal_rule(rule);
            errors.push(FieldError::invalid_shown(&path.child("rule"), &shown, why));
        }
        if let Err(why) = &checked.message {
            let shown = internal_rule(rule);
            errors.push(FieldError::invalid_shown(&path.child("messageExpression"), &shown, why));
        }
        let optional = present(rule, "optionalOldSelf");
        if checked.uses_old_self {
            if let Some(above) = &place.uncorrelatable {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {above}"
                );
                let shown = Value::from(text(rule, "rule")).to_string();
                errors.push(FieldError::invalid_shown(&path.child("rule"), &shown, &detail));
            }
        } else if let Some(optional) = optional {
            let detail = "may not be set if oldSelf is not used in rule";
            let path = path.child("optionalOldSelf");
            errors.push(FieldError::invalid_shown(&path, &escaped(optional), detail));
        }
    }
}

fn set_items(schema: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(items) = items(schema) else { return };
    let (list_type, map_type) = ("x-kubernetes-list-type", "x-kubernetes-map-type");
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let shown = items.get(list_type).unwrap_or(&Value::Null);
    match text(items, "type") {
        "array" if !matches!(text(items, list_type), "" | "atomic") => {
            let path = path.child("items").child(list_type);
            errors.push(FieldError::invalid(&path, shown, detail));
        }
        "object" if text(items, map_type) != "atomic" => {
            let path = path.child("items").child(map_type);
            errors.push(FieldError::invalid(&path, shown, detail));
        }
        _ => {}
    }
}

fn map_list(schema: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let keys_path = path.child("x-kubernetes-list-map-keys");
    let items_path = path.child("items");
    let keys = list(schema, "x-kubernetes-list-map-keys");
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&keys_path, detail));
    }
    let Some(items) = items(schema) else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&items_path, detail));
        return;
    };
    let kind = text(items, "type");
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(&items_path.child("type"), &kind.into(), detail));
        return;
    }
    let shown = Value::from(keys);
    for (n, key) in keys.iter().filter_map(Value::as_str).enumerate() {
        let field = items.get("properties").and_then(|fields| fields.get(key));
        match field.map(|field| text(field, "type")) {
            Some("array" | "object") => {
                let path = items_path.child("properties").key(key).child("type");
                let detail =
                    "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(&path, &kind.into(), detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&keys_path, &shown, detail));
            }
        }
        if keys[..n].iter().any(|earlier| earlier == key) {
            let detail = "must not contain duplicate entries";
            errors.push(FieldError::invalid(&keys_path, &shown, detail));
        }
    }
}

/// Items of sets and maps cannot be null, and the keys of a map's items must be there.
fn keyed_items(schema: &Value, list_type: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(items) = items(schema) else { return };
    let path = path.child("items");
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&path.child("nullable"), &detail));
    }
    if list_type != "map" {
        return;
    }
    for key in texts(schema, "x-kubernetes-list-map-keys") {
        let Some(field) = items.get("properties").and_then(|fields| fields.get(key)) else {
            continue;
        };
        let path = path.child("properties").key(key);
        let required = texts(items, "required").any(|required| required == key);
        if !required && present(field, "default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(&path.child("default"), detail));
        }
        if flag(field, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(&path.child("nullable"), detail));
        }
    }
}
