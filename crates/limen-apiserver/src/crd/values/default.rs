//! Filling in what a schema has defaults for.

use serde_json::Value;

use super::prune::{default_of, drop_nulls, known_field, known_items};
use crate::crd::schema_json::flag;
use crate::schema::Node;

/// Fills in defaults, also inside of what was just filled in. A null where there can be none is
/// taken as absent.
pub(crate) fn default(object: &mut Value, node: Node<'_>) {
    drop_nulls(object, Some(node));
    fill(object, Some(node));
}

fn fill(value: &mut Value, node: Option<Node<'_>>) {
    let Some(node) = node else { return };
    match value {
        Value::Object(fields) => {
            for (name, field) in node.named_fields() {
                let Some(default) = default_of(field) else { continue };
                let absent = match fields.get(name) {
                    None => true,
                    Some(value) => value.is_null() && !flag(field.raw(), "nullable"),
                };
                if absent {
                    fields.insert(name.to_owned(), default.clone());
                }
            }
            for (name, value) in fields {
                let field = known_field(node, name);
                replace_null(value, field);
                fill(value, field);
            }
        }
        Value::Array(items) => {
            for item in items {
                replace_null(item, known_items(node));
                fill(item, known_items(node));
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, node: Option<Node<'_>>) {
    let Some(node) = node.filter(|node| !flag(node.raw(), "nullable")) else { return };
    if let Some(default) = default_of(node).filter(|_| value.is_null()) {
        *value = default.clone();
    }
}
