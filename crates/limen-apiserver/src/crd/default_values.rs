//! Whether the defaults in a schema are good values: they fit their schema and name no field that
//! would be pruned.

use serde_json::{Value, json};

use super::schema_json::{fields, flag, items, present};
use super::{rules, values};
use crate::field_error::{FieldError, FieldPath};
use crate::schema::Schema;

/// What is wrong with the defaults in a structural schema. Those of the top-level metadata are not
/// looked at: there can be none.
pub(super) fn check(schema: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, path, true, &mut errors);
    errors
}

fn walk(schema: &Value, path: &FieldPath, root: bool, errors: &mut Vec<FieldError>) {
    if let Some(default) = present(schema, "default") {
        check_default(default, schema, &path.child("default"), errors);
    }
    if let Some(items) = items(schema) {
        walk(items, &path.child("items"), false, errors);
    }
    for (name, field) in fields(schema, "properties") {
        if root && matches!(name, "metadata" | "apiVersion" | "kind") {
            continue;
        }
        walk(field, &path.child("properties").key(name), false, errors);
    }
}

fn check_default(default: &Value, schema: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Ok(made) = Schema::from_json(schema, &|_| None) else { return };
    let node = made.root();
    if prunes(default, schema) {
        errors.push(FieldError::invalid(path, default, "must not have unknown fields"));
    }
    let embedded = values::check_embedded(default, node, path);
    if !embedded.is_empty() {
        errors.extend(embedded);
        return;
    }
    let wrong = values::check_values(default, None, node, path);
    if !wrong.is_empty() {
        errors.extend(wrong);
        return;
    }
    let mut wrong = rules::run(default, Some(default), node, path);
    if wrong.is_empty() {
        wrong = rules::run(default, None, node, path);
    }
    errors.extend(wrong);
}

/// Whether a default would lose something in pruning. The type and the metadata of an embedded
/// object are its own; a wrapper makes sure that those of anything else are not taken for it.
fn prunes(default: &Value, schema: &Value) -> bool {
    let wrapper = json!({"type": "object", "properties": {"default": schema}});
    let Ok(made) = Schema::from_json(&wrapper, &|_| None) else { return false };
    let mut object = json!({"default": default});
    let unknown = values::prune(&mut object, made.root());
    let metadata = flag(schema, "x-kubernetes-embedded-resource");
    unknown.iter().any(|path| !metadata || !path.starts_with("default.metadata."))
}
