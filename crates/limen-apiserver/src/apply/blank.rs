//! An object before anything is in it.
//!
//! Kubernetes compares a new object of a built-in kind with an empty Go struct, which is not as
//! empty as `{}`: structs inside it are there, and fields that are always written are there as
//! zero or null. OpenAPI shows both, as defaults and as required fields. So the creator of a
//! Deployment does not own `.spec` as such, but does own `.spec.strategy.rollingUpdate`.

use serde_json::{Map, Value};

use crate::schema::Node;

/// How deep structs are nested in structs, at most. Go structs cannot contain themselves; a schema
/// might.
const MAX_DEPTH: usize = 16;

/// The empty object of a built-in kind.
pub(crate) fn blank(schema: Node<'_>) -> Value {
    Value::Object(fields(schema, MAX_DEPTH))
}

fn fields(schema: Node<'_>, depth: usize) -> Map<String, Value> {
    let mut blank = Map::new();
    if depth == 0 {
        return blank;
    }
    for (name, field) in schema.named_fields() {
        let value = match field.default() {
            Some(Value::Object(_)) => Value::Object(fields(field, depth - 1)),
            Some(value) if is_zero(value) => value.clone(),
            None if schema.required().iter().any(|required| required == name) => Value::Null,
            _ => continue,
        };
        blank.insert(name.to_owned(), value);
    }
    blank
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}
