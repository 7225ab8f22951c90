//! Lists whose items are told apart: sets by value, maps by key.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::schema_part::SchemaPart;
use crate::crd::schema_json::{text, texts};
use crate::field_error::{FieldError, FieldPath};
use crate::schema::{ListType, Node};

/// The items that occur twice.
pub(super) fn check(object: &Value, node: Node<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(object, node, &FieldPath::root(), &mut errors);
    errors
}

/// The item of an old list that has the same key.
pub(super) fn counterpart<'a>(
    item: &Value,
    old: &'a Value,
    list: SchemaPart<'_>,
) -> Option<&'a Value> {
    if text(list.raw(), "x-kubernetes-list-type") != "map" {
        return None;
    }
    let keys: Vec<&str> = texts(list.raw(), "x-kubernetes-list-map-keys").collect();
    item.as_object()?;
    old.as_array()?
        .iter()
        .find(|old| old.is_object() && keys.iter().all(|key| old.get(key) == item.get(key)))
}

fn walk(value: &Value, node: Node<'_>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(field) = node.named_field(name) {
                    walk(value, field, &path.child(name), errors);
                } else if let Some(values) = node.additional() {
                    walk(value, values, &path.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            match node.list_type() {
                ListType::Atomic => {}
                ListType::Set => {
                    for n in repeated(items) {
                        errors.push(FieldError::duplicate(&path.index(n), &items[n]));
                    }
                }
                ListType::Map(keys) => check_map(items, keys, path, errors),
            }
            if let Some(item_node) = node.items() {
                for (n, item) in items.iter().enumerate() {
                    walk(item, item_node, &path.index(n), errors);
                }
            }
        }
        _ => {}
    }
}

fn check_map(items: &[Value], keys: &[String], path: &FieldPath, errors: &mut Vec<FieldError>) {
    let stray = items.iter().position(|item| !item.is_object() && !item.is_null());
    if let Some(n) = stray {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(&path.index(n), &items[n], detail));
        return;
    }
    let key_of = |item: &Value| {
        let fields = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(fields.collect::<Map<_, _>>())
    };
    let keys: Vec<Value> = items.iter().map(key_of).collect();
    for n in repeated(&keys) {
        errors.push(FieldError::duplicate(&path.index(n), &keys[n]));
    }
}

/// Where values occur for the second time; later ones are not worth a message.
fn repeated(values: &[Value]) -> Vec<usize> {
    let mut times: HashMap<String, usize> = HashMap::new();
    let mut found = Vec::new();
    for (n, value) in values.iter().enumerate() {
        let times = times.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            found.push(n);
        }
    }
    found
}
