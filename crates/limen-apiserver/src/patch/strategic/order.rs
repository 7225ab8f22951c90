//! `$setElementOrder/<list>`: the order that the sender of the patch wants a merged list to have.

use serde_json::Value;

use super::list::{Backing, items_are_objects, merge_lists, merge_order, partition};
use super::{
    DIRECTIVE, Merged, Object, SET_ORDER, StrategicError, list_of_directive, no_merge_key, other,
    strategy, unexpected_type, without_directives,
};
use crate::patch::go_format;
use crate::schema::Node;

/// Merges the lists that the patch orders, and takes them out of the patch.
pub(super) fn merge_ordered_lists(
    original: &mut Object,
    patch: &mut Object,
    schema: Option<Node<'_>>,
) -> Merged<()> {
    let ordered: Vec<String> =
        patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    for directive in ordered {
        let Some(order) = patch.remove(&directive) else { continue };
        let order = as_list(order)?;
        let name = list_of_directive(&directive)
            .ok_or(StrategicError::BadDirective("setElementOrder list"))?;
        let live = original.get(name).cloned().map(as_list).transpose()?;
        let list = patch.get(name).cloned().map(as_list).transpose()?;
        let schema = schema.and_then(|schema| schema.field(name));
        if let Some(merged) = merge_ordered(live, list, &order, schema)? {
            original.insert(name.to_owned(), Value::Array(merged));
            patch.remove(name);
        }
    }
    Ok(())
}

fn as_list(value: Value) -> Merged<Vec<Value>> {
    match value {
        Value::Array(items) => Ok(items),
        value => Err(unexpected_type("[]interface {}", &value)),
    }
}

fn merge_ordered(
    live: Option<Vec<Value>>,
    patch: Option<Vec<Value>>,
    order: &[Value],
    schema: Option<Node<'_>>,
) -> Merged<Option<Vec<Value>>> {
    let strategy = strategy(schema);
    let key = strategy.merge_key.as_deref();
    if let Some(patch) = &patch {
        check_order(patch, order, key)?;
    }
    let (live_items, patch_items) =
        (live.clone().unwrap_or_default(), patch.clone().unwrap_or_default());
    let mut live_order = live_items.clone();
    let merged = match (live, patch) {
        (None, None) => return Ok(None),
        (Some(live), None) => live,
        (None, Some(patch)) => patch.into_iter().filter_map(without_directives).collect(),
        (Some(live), Some(patch)) if strategy.merge => {
            let mut backing = Backing::new(live);
            let merged = merge_lists(&mut backing, patch, schema, false)?;
            live_order = backing.storage().to_vec();
            merged
        }
        (Some(_), Some(patch)) => patch,
    };
    let (patched, others) = partition(merged, order, key)?;
    let by_key = if items_are_objects(&live_items, &patch_items)? { key } else { None };
    merge_order(others, patched, order, &live_order, by_key).map(Some)
}

/// The items of the patch must be in the order list, in the same order.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Merged<()> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for item in patch {
        if key.is_some() && !item.is_object() {
            return Err(unexpected_type("map[string]interface {}", item));
        }
        if item.get(DIRECTIVE).is_some() {
            continue;
        }
        loop {
            let Some(ordered) = rest.next() else {
                return Err(other(format!(
                    "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
                    go_format::plain_list(patch),
                    go_format::plain_list(order)
                )));
            };
            if same(item, ordered, key)? {
                break;
            }
        }
    }
    Ok(())
}

fn same(left: &Value, right: &Value, key: Option<&str>) -> Merged<bool> {
    let Some(key) = key else { return Ok(left == right) };
    Ok(identity(left, key)? == identity(right, key)?)
}

fn identity<'v>(item: &'v Value, key: &str) -> Merged<&'v Value> {
    match item {
        Value::Object(fields) => fields.get(key).ok_or_else(|| no_merge_key(fields, key)),
        item => Err(unexpected_type("map[string]interface {}", item)),
    }
}
