//! Custom objects: a parsed body becomes what the server would store of it.
//!
//! Their metadata is that of built-in objects and decoded as such. The rest keeps its types
//! whatever they are, since only validation knows better; fields that the schema does not know are
//! dropped and told.

use serde_json::{Map, Value};

use super::MAX_STRICT_ERRORS;
use super::patch::duplicates;
use super::quote::quoted;
use super::raw::Raw;
use super::typed;
use crate::schema::{Node, Schema, types};

/// A decoded object.
#[derive(Debug)]
pub(crate) struct Custom {
    pub(crate) object: Map<String, Value>,
    /// `unknown field "spec.foo"`, `duplicate field "metadata.name"`, ...
    pub(crate) strict_errors: Vec<String>,
}

/// Decodes the fields of a custom object. The error is Go's sentence.
pub(crate) fn decode(schema: &Schema, fields: Vec<(String, Raw)>) -> Result<Custom, String> {
    let mut strict_errors = Vec::new();
    let raw = Raw::Object(fields);
    duplicates(&raw, &mut String::new(), &mut strict_errors);
    let mut object = match raw.into_value() {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    let metadata = object.remove("metadata").unwrap_or_default().into();
    let (metadata, unknown) = object_meta(metadata)?;
    strict_errors.extend(unknown.iter().map(|path| told("metadata", path)));
    let mut pruned = Vec::new();
    prune(schema.root(), &mut object, true, "", &mut pruned)?;
    pruned.sort();
    strict_errors.extend(pruned.iter().map(|path| format!("unknown field {}", quoted(path))));
    strict_errors.truncate(MAX_STRICT_ERRORS);
    object.insert("metadata".to_owned(), metadata);
    Ok(Custom { object, strict_errors })
}

fn told(prefix: &str, path: &str) -> String {
    format!("unknown field {}", quoted(&format!("{prefix}.{path}")))
}

/// Metadata as the server writes it, and the fields that it does not know.
fn object_meta(raw: Raw) -> Result<(Value, Vec<String>), String> {
    let fields = match raw {
        Raw::Null => Vec::new(),
        Raw::Object(fields) => fields,
        other => {
            let found = other.go_name();
            return Err(format!(
                "json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"
            ));
        }
    };
    let Some(definition) = types::by_short_name("meta.ObjectMeta") else {
        return Ok((Raw::Object(fields).into_value(), Vec::new()));
    };
    let decoded = typed::decode(definition, fields)?;
    let unknown = decoded.strict_errors.iter().filter_map(|error| {
        let path = error.strip_prefix("unknown field \"")?.strip_suffix('"')?;
        Some(path.to_owned())
    });
    let unknown = unknown.collect();
    Ok((decoded.object.into(), unknown))
}

/// Drops what the schema does not know. `whole` objects have a type and metadata of their own.
fn prune(
    node: Node<'_>,
    object: &mut Map<String, Value>,
    whole: bool,
    path: &str,
    dropped: &mut Vec<String>,
) -> Result<(), String> {
    let names: Vec<String> = object.keys().cloned().collect();
    for name in names {
        let field_path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if whole && matches!(name.as_str(), "apiVersion" | "kind") {
            continue;
        }
        if whole && name == "metadata" {
            if let Some(value) = object.get_mut(&name) {
                let (metadata, unknown) = object_meta(value.clone().into())
                    .map_err(|error| format!("{field_path}: Invalid value: {value}: {error}"))?;
                dropped.extend(unknown.iter().map(|path| format!("{field_path}.{path}")));
                *value = metadata;
            }
            continue;
        }
        match (node.field(&name), object.get_mut(&name)) {
            (Some(field), Some(value)) => prune_value(field, value, &field_path, dropped)?,
            (None, Some(_)) if !node.preserves_unknown() => {
                object.remove(&name);
                dropped.push(field_path);
            }
            _ => {}
        }
    }
    Ok(())
}

fn prune_value(
    node: Node<'_>,
    value: &mut Value,
    path: &str,
    dropped: &mut Vec<String>,
) -> Result<(), String> {
    match value {
        Value::Object(fields) => prune(node, fields, node.is_embedded(), path, dropped),
        Value::Array(items) => {
            let Some(item_node) = node.items() else { return Ok(()) };
            for (position, item) in items.iter_mut().enumerate() {
                prune_value(item_node, item, &format!("{path}[{position}]"), dropped)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
