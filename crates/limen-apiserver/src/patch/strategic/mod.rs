//! Strategic merge patch: a merge patch that knows lists.
//!
//! The schema says which lists merge, and by which field their items are told apart. Directives in
//! the patch say the rest:
//!
//! ```text
//! $patch: replace | delete            this object, or an item of this list
//! $retainKeys: [..]                   drop the other fields
//! $setElementOrder/<list>: [..]       the order of a merged list
//! $deleteFromPrimitiveList/<list>     values to take out of a list
//! ```
//!
//! Where the schema is silent, objects merge and lists are replaced.

mod list;
mod order;

use serde_json::{Map, Value};

use super::go_format;
use crate::schema::{Node, PatchStrategy};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

type Object = Map<String, Value>;

/// Why a strategic merge patch was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum StrategicError {
    /// A directive is not made as it must be.
    #[error("invalid patch format of {0}")]
    BadDirective(&'static str),
    /// A list has lists as items.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// Anything else; kube-apiserver gives these no code of their own.
    #[error("{0}")]
    Other(String),
}

type Merged<T> = Result<T, StrategicError>;

fn other(message: impl Into<String>) -> StrategicError {
    StrategicError::Other(message.into())
}

fn no_merge_key(item: &Object, key: &str) -> StrategicError {
    let item = go_format::plain(&Value::Object(item.clone()));
    other(format!("map: {item} does not contain declared merge key: {key}"))
}

fn unexpected_type(expected: &str, got: &Value) -> StrategicError {
    other(format!("expected a {expected}, but received a {}", go_format::type_name(got)))
}

fn unknown_directive(directive: &Value, item: &Object) -> StrategicError {
    let item = go_format::plain(&Value::Object(item.clone()));
    let directive = match directive {
        Value::String(directive) => directive.clone(),
        Value::Null => go_format::type_name(directive).to_owned(),
        Value::Array(_) | Value::Object(_) => go_format::plain(directive),
        scalar => format!("%!s({}={scalar})", go_format::type_name(scalar)),
    };
    other(format!("unknown patch type: {directive} in map: {item}"))
}

/// Merges a patch into an object.
pub(super) fn merge(original: Object, patch: Object, schema: Option<Node<'_>>) -> Merged<Object> {
    merge_object(original, patch, schema)
}

fn merge_object(
    mut original: Object,
    mut patch: Object,
    schema: Option<Node<'_>>,
) -> Merged<Object> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order::merge_ordered_lists(&mut original, &mut patch, schema)?;
    for (name, value) in patch {
        merge_field(&mut original, name, value, schema)?;
    }
    Ok(original)
}

fn merge_field(
    original: &mut Object,
    name: String,
    value: Value,
    schema: Option<Node<'_>>,
) -> Merged<()> {
    let deletes = name.starts_with(DELETE_FROM_LIST);
    let name = if deletes {
        list_of_directive(&name).ok_or(StrategicError::BadDirective("primitive list"))?.to_owned()
    } else {
        name
    };
    if value.is_null() {
        original.remove(&name);
        return Ok(());
    }
    let schema = schema.and_then(|schema| schema.field(&name));
    let strategy = strategy(schema);
    let merged = match (original.remove(&name), value) {
        (Some(Value::Object(current)), Value::Object(value)) if strategy.replace => {
            drop(current);
            Some(Value::Object(value))
        }
        (Some(Value::Object(current)), Value::Object(value)) => {
            Some(Value::Object(merge_object(current, value, schema)?))
        }
        (Some(Value::Array(current)), Value::Array(value)) => {
            let merged = if strategy.merge || deletes {
                list::merge_lists(&mut list::Backing::new(current), value, schema, deletes)?
            } else {
                value
            };
            Some(Value::Array(merged))
        }
        (current, _) if deletes => current,
        (_, mut value) => {
            discard_nulls(&mut value);
            without_directives(value)
        }
    };
    if let Some(merged) = merged {
        original.insert(name, merged);
    }
    Ok(())
}

/// What strategic merge does at a place that the schema may not know.
fn strategy(schema: Option<Node<'_>>) -> &PatchStrategy {
    const UNKNOWN: &PatchStrategy =
        &PatchStrategy { merge: false, merge_key: None, retain_keys: false, replace: false };
    schema.map_or(UNKNOWN, Node::patch_strategy)
}

/// The list that a directive is about, as in `$setElementOrder/<list>`.
fn list_of_directive(name: &str) -> Option<&str> {
    let (directive, list) = name.split_once('/')?;
    matches!(directive, DELETE_FROM_LIST | SET_ORDER).then_some(list)
}

fn retain_keys(original: &mut Object, patch: &mut Object) -> Merged<()> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || StrategicError::BadDirective("retainKeys");
    let keys = keys.as_array().ok_or_else(bad)?;
    let retained = |name: &str| keys.iter().any(|key| key == name);
    let is_directive =
        |name: &str| name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ORDER);
    for (name, value) in &*patch {
        if !value.is_null() && !is_directive(name) && !retained(name) {
            return Err(bad());
        }
    }
    original.retain(|name, _| retained(name));
    Ok(())
}

/// A value that takes a place of its own, without the objects in it that are directives.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            let kept = fields.into_iter();
            let kept = kept.filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => {
            Some(Value::Array(items.into_iter().filter_map(without_directives).collect()))
        }
        scalar => Some(scalar),
    }
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}
