//! Reading a custom resource's schema as the JSON that its author wrote.
//!
//! Values that Go would not tell from absent ones (`""`, `false`, `[]`, `{}`, `null`) read as absent.

use serde_json::{Map, Value};

/// The text of a field; empty if there is none.
pub(super) fn text<'a>(json: &'a Value, name: &str) -> &'a str {
    json.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a field is true.
pub(super) fn flag(json: &Value, name: &str) -> bool {
    json.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// The items of a list; none if there is no list.
pub(super) fn list<'a>(json: &'a Value, name: &str) -> &'a [Value] {
    json.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The texts in a list.
pub(super) fn texts<'a>(json: &'a Value, name: &str) -> impl Iterator<Item = &'a str> {
    list(json, name).iter().filter_map(Value::as_str)
}

/// The fields of an object; none if there is no object.
pub(super) fn fields<'a>(
    json: &'a Value,
    name: &str,
) -> impl Iterator<Item = (&'a str, &'a Value)> {
    json.get(name)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value))
}

/// A value that is there and is not null.
pub(super) fn present<'a>(json: &'a Value, name: &str) -> Option<&'a Value> {
    json.get(name).filter(|value| !value.is_null())
}

/// The schema of a list's items, if it is one schema.
pub(super) fn items(schema: &Value) -> Option<&Value> {
    schema.get("items").filter(|items| items.is_object())
}

/// The schema of a map's values.
pub(super) fn additional(schema: &Value) -> Option<&Value> {
    schema.get("additionalProperties").filter(|schema| schema.is_object())
}

/// Whether a map's values may be there at all: `additionalProperties` is set.
pub(super) fn has_additional(schema: &Value) -> bool {
    present(schema, "additionalProperties").is_some()
}

/// Whether Go would see nothing here.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// Visits a schema and everything in it, value validations included.
pub(super) fn visit(schema: &Value, see: &mut dyn FnMut(&Value)) {
    see(schema);
    let parts = ["allOf", "anyOf", "oneOf"].iter().flat_map(|name| list(schema, name));
    let named = fields(schema, "properties").map(|(_, field)| field);
    let single = [items(schema), additional(schema), schema.get("not")].into_iter().flatten();
    for part in parts.chain(named).chain(single) {
        visit(part, see);
    }
}

/// A schema written the way Kubernetes' internal types are, which some messages show.
pub(super) fn internal(schema: &Value) -> String {
    let mut out = String::from("{");
    for (position, (shown, name, form)) in INTERNAL_FIELDS.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        let value = schema.get(name).unwrap_or(&Value::Null);
        out.push_str(&format!("\"{shown}\":{}", form.write(value)));
    }
    out.push('}');
    out
}

enum Form {
    Text,
    Flag,
    /// Any value as it is, `null` if absent.
    Plain,
    Schema,
    Schemas,
    NamedSchemas,
    ItemsSchema,
    SchemaOrFlag,
    Rules,
}

impl Form {
    fn write(&self, value: &Value) -> String {
        let joined = |parts: Vec<String>, open: char, close: char| {
            if parts.is_empty() {
                "null".to_owned()
            } else {
                format!("{open}{}{close}", parts.join(","))
            }
        };
        let array = || value.as_array().into_iter().flatten();
        match self {
            Self::Text => escaped(&Value::from(value.as_str().unwrap_or_default())),
            Self::Flag => value.as_bool().unwrap_or_default().to_string(),
            Self::Plain => match value {
                Value::Array(items) if items.is_empty() => "null".to_owned(),
                value => escaped(value),
            },
            Self::Schema if value.is_object() => internal(value),
            Self::Schema => "null".to_owned(),
            Self::Schemas => joined(array().map(internal).collect(), '[', ']'),
            Self::NamedSchemas => {
                let empty = Map::new();
                let named = value.as_object().unwrap_or(&empty).iter();
                let named = named.map(|(name, field)| {
                    format!("{}:{}", Value::from(name.as_str()), internal(field))
                });
                joined(named.collect(), '{', '}')
            }
            Self::ItemsSchema if value.is_object() => {
                format!("{{\"Schema\":{},\"JSONSchemas\":null}}", internal(value))
            }
            Self::ItemsSchema => "null".to_owned(),
            Self::SchemaOrFlag => match value {
                Value::Null => "null".to_owned(),
                Value::Bool(allows) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
                schema => format!("{{\"Allows\":true,\"Schema\":{}}}", internal(schema)),
            },
            Self::Rules => joined(array().map(internal_rule).collect(), '[', ']'),
        }
    }
}

/// JSON the way Go writes it.
pub(super) fn escaped(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// A validation rule written the way Kubernetes' internal types are.
pub(super) fn internal_rule(rule: &Value) -> String {
    let text = |name| Form::Text.write(rule.get(name).unwrap_or(&Value::Null));
    let plain = |name| Form::Plain.write(rule.get(name).unwrap_or(&Value::Null));
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        plain("reason"),
        text("fieldPath"),
        plain("optionalOldSelf"),
    )
}

const INTERNAL_FIELDS: &[(&str, &str, Form)] = &[
    ("ID", "id", Form::Text),
    ("Schema", "$schema", Form::Text),
    ("Ref", "$ref", Form::Plain),
    ("Description", "description", Form::Text),
    ("Type", "type", Form::Text),
    ("Nullable", "nullable", Form::Flag),
    ("Format", "format", Form::Text),
    ("Title", "title", Form::Text),
    ("Default", "default", Form::Plain),
    ("Maximum", "maximum", Form::Plain),
    ("ExclusiveMaximum", "exclusiveMaximum", Form::Flag),
    ("Minimum", "minimum", Form::Plain),
    ("ExclusiveMinimum", "exclusiveMinimum", Form::Flag),
    ("MaxLength", "maxLength", Form::Plain),
    ("MinLength", "minLength", Form::Plain),
    ("Pattern", "pattern", Form::Text),
    ("MaxItems", "maxItems", Form::Plain),
    ("MinItems", "minItems", Form::Plain),
    ("UniqueItems", "uniqueItems", Form::Flag),
    ("MultipleOf", "multipleOf", Form::Plain),
    ("Enum", "enum", Form::Plain),
    ("MaxProperties", "maxProperties", Form::Plain),
    ("MinProperties", "minProperties", Form::Plain),
    ("Required", "required", Form::Plain),
    ("Items", "items", Form::ItemsSchema),
    ("AllOf", "allOf", Form::Schemas),
    ("OneOf", "oneOf", Form::Schemas),
    ("AnyOf", "anyOf", Form::Schemas),
    ("Not", "not", Form::Schema),
    ("Properties", "properties", Form::NamedSchemas),
    ("AdditionalProperties", "additionalProperties", Form::SchemaOrFlag),
    ("PatternProperties", "patternProperties", Form::NamedSchemas),
    ("Dependencies", "dependencies", Form::Plain),
    ("AdditionalItems", "additionalItems", Form::SchemaOrFlag),
    ("Definitions", "definitions", Form::NamedSchemas),
    ("ExternalDocs", "externalDocs", Form::Plain),
    ("Example", "example", Form::Plain),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Form::Plain),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Form::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Form::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Form::Plain),
    ("XListType", "x-kubernetes-list-type", Form::Plain),
    ("XMapType", "x-kubernetes-map-type", Form::Plain),
    ("XValidations", "x-kubernetes-validations", Form::Rules),
];
