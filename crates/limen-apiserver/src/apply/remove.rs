//! Taking fields out of an object.

use serde_json::{Map, Value};

use super::field_set::FieldSet;
use super::path::PathElement;
use super::types::{Shape, Type};

/// The value without those fields; null if nothing is left of it.
pub(super) fn remove(schema: Type<'_>, value: &Value, fields: &FieldSet) -> Value {
    match (schema.shape(Some(value)), value) {
        (Shape::Scalar, value) => value.clone(),
        (Shape::Map { atomic: false }, Value::Object(map)) => from_map(schema, map, fields),
        (Shape::List { atomic: false }, Value::Array(items)) => from_list(schema, items, fields),
        _ => Value::Null,
    }
}

fn from_map(schema: Type<'_>, map: &Map<String, Value>, fields: &FieldSet) -> Value {
    let mut kept = Map::new();
    for (name, value) in map {
        let element = PathElement::field(name);
        if fields.members.contains(&element) {
            continue;
        }
        let value = match fields.below(&element) {
            Some(below) => remove(schema.field(name).unwrap_or(Type::Deduced), value, below),
            None => value.clone(),
        };
        kept.insert(name.clone(), value);
    }
    if kept.is_empty() { Value::Null } else { Value::Object(kept) }
}

fn from_list(schema: Type<'_>, items: &[Value], fields: &FieldSet) -> Value {
    let mut kept = Vec::new();
    for item in items {
        let element = schema.item_element(item).ok();
        if element.as_ref().is_some_and(|element| fields.members.contains(element)) {
            continue;
        }
        let below = element.as_ref().and_then(|element| fields.below(element));
        kept.push(match below {
            Some(below) => remove(schema.items().unwrap_or(Type::Deduced), item, below),
            None => item.clone(),
        });
    }
    if kept.is_empty() { Value::Null } else { Value::Array(kept) }
}
