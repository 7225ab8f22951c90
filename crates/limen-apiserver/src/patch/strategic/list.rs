//! Lists that merge: of objects by their merge key, of plain values by value.
//!
//! The merged list has the patch's items in the patch's order and everybody else's in theirs,
//! interleaved by where they were in the live list.

use serde_json::Value;

use super::{
    DIRECTIVE, Merged, Object, StrategicError, merge_object, no_merge_key, other, strategy,
    unexpected_type, unknown_directive,
};
use crate::patch::go_format;
use crate::schema::Node;

/// A live list while it is merged into.
///
/// Kubernetes merges in place, and where an item was deleted first, a new one takes over its
/// storage. The order of the result depends on what is left in that storage, so it is kept here
/// as it would be there.
pub(super) struct Backing {
    storage: Vec<Value>,
    length: usize,
    /// The list once it has outgrown its storage.
    grown: Option<Vec<Value>>,
}

impl Backing {
    pub(super) fn new(items: Vec<Value>) -> Self {
        Self { length: items.len(), storage: items, grown: None }
    }

    pub(super) fn items(&self) -> &[Value] {
        self.grown.as_deref().unwrap_or(&self.storage[..self.length])
    }

    /// The items of the live list as they are left in its storage.
    pub(super) fn storage(&self) -> &[Value] {
        &self.storage
    }

    fn items_mut(&mut self) -> &mut [Value] {
        match &mut self.grown {
            Some(grown) => grown,
            None => &mut self.storage[..self.length],
        }
    }

    fn remove(&mut self, at: usize) {
        let last = self.storage[self.length - 1].clone();
        self.storage[at..self.length].rotate_left(1);
        self.storage[self.length - 1] = last;
        self.length -= 1;
    }

    fn push(&mut self, item: Value) {
        if let Some(grown) = &mut self.grown {
            grown.push(item);
        } else if self.length < self.storage.len() {
            self.storage[self.length] = item;
            self.length += 1;
        } else {
            let mut grown = self.storage.clone();
            grown.push(item);
            self.grown = Some(grown);
        }
    }
}

/// Merges the list of a patch into a live list. `schema` is that of the list.
pub(super) fn merge_lists(
    live: &mut Backing,
    patch: Vec<Value>,
    schema: Option<Node<'_>>,
    deletes: bool,
) -> Merged<Vec<Value>> {
    if live.items().is_empty() && patch.is_empty() {
        return Ok(Vec::new());
    }
    if !items_are_objects(live.items(), &patch)? {
        return Ok(merge_values(live.items(), &patch, deletes));
    }
    let Some(key) = &strategy(schema).merge_key else {
        return Err(other("cannot merge lists without merge key for struct"));
    };
    let items = schema.and_then(Node::items);
    let (replaces, patch) = take_directives(live, patch, key)?;
    if replaces {
        *live = Backing::new(patch);
        let items = live.items().to_vec();
        return merge_order(items, Vec::new(), &[], live.items(), Some(key));
    }
    let order = live.items().to_vec();
    for item in &patch {
        merge_item(live, item, key, items)?;
    }
    let merged = live.items().to_vec();
    let (patched, others) = partition(merged, &patch, Some(key))?;
    merge_order(others, patched, &patch, &order, Some(key))
}

/// Whether the items of both lists are objects; lists of different things do not merge.
pub(super) fn items_are_objects(live: &[Value], patch: &[Value]) -> Merged<bool> {
    let mut all = live.iter().chain(patch);
    let first = all.next().ok_or_else(|| other("no elements in any of the given slices"))?;
    if first.is_array() {
        return Err(StrategicError::ListOfLists);
    }
    if all.any(|item| go_format::type_name(item) != go_format::type_name(first)) {
        let lists = format!("[{} {}]", go_format::plain_list(live), go_format::plain_list(patch));
        return Err(other(format!("list element types are not identical: {lists}")));
    }
    Ok(first.is_object())
}

fn merge_values(live: &[Value], patch: &[Value], deletes: bool) -> Vec<Value> {
    if deletes {
        return live.iter().filter(|value| !patch.contains(value)).cloned().collect();
    }
    let mut others: Vec<Value> = Vec::new();
    let mut patched: Vec<Value> = Vec::new();
    for value in live.iter().chain(patch) {
        let into = if patch.contains(value) { &mut patched } else { &mut others };
        if !into.contains(value) {
            into.push(value.clone());
        }
    }
    let place = |value: &Value| patch.iter().position(|item| item == value);
    patched.sort_by_key(place);
    interleave(others, patched, live, None)
}

/// Carries out the items of a patch that are directives; returns whether the patch replaces the
/// list, and its other items.
fn take_directives(live: &mut Backing, patch: Vec<Value>, key: &str) -> Merged<(bool, Vec<Value>)> {
    let mut replaces = false;
    let mut kept = Vec::new();
    for item in patch {
        let fields = as_object(&item)?;
        let Some(directive) = fields.get(DIRECTIVE) else {
            kept.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let value = fields.get(key).ok_or_else(|| no_merge_key(fields, key))?;
                while let Some(at) = find(live.items(), key, value)? {
                    live.remove(at);
                }
            }
            Some("replace") => replaces = true,
            Some("merge") => {
                return Err(other("merging lists cannot yet be specified in the patch"));
            }
            _ => return Err(unknown_directive(directive, fields)),
        }
    }
    Ok((replaces, kept))
}

fn merge_item(live: &mut Backing, item: &Value, key: &str, schema: Option<Node<'_>>) -> Merged<()> {
    let fields = as_object(item)?;
    let value = fields.get(key).ok_or_else(|| no_merge_key(fields, key))?;
    let Some(at) = find(live.items(), key, value)? else {
        live.push(item.clone());
        return Ok(());
    };
    let slot = &mut live.items_mut()[at];
    let current = as_object(slot)?.clone();
    *slot = Value::Object(merge_object(current, fields.clone(), schema)?);
    Ok(())
}

fn as_object(item: &Value) -> Merged<&Object> {
    item.as_object().ok_or_else(|| unexpected_type("map[string]interface {}", item))
}

/// Where the item with that merge key is.
fn find(items: &[Value], key: &str, value: &Value) -> Merged<Option<usize>> {
    for (at, item) in items.iter().enumerate() {
        let fields =
            item.as_object().ok_or_else(|| other(format!("value for key {at} is not a map")))?;
        if fields.get(key) == Some(value) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Splits items into those that `by` has and those that it does not have.
pub(super) fn partition(
    items: Vec<Value>,
    by: &[Value],
    key: Option<&str>,
) -> Merged<(Vec<Value>, Vec<Value>)> {
    let (mut present, mut absent) = (Vec::new(), Vec::new());
    for item in items {
        let found = match key {
            None => by.contains(&item),
            Some(key) => {
                let fields = as_object(&item)?;
                let value = fields.get(key).ok_or_else(|| no_merge_key(fields, key))?;
                find(by, key, value)?.is_some()
            }
        };
        if found { present.push(item) } else { absent.push(item) }
    }
    Ok((present, absent))
}

/// Puts the items of others in the live order, those of the patch in the patch's order, and
/// interleaves them.
pub(super) fn merge_order(
    mut others: Vec<Value>,
    mut patched: Vec<Value>,
    patch_order: &[Value],
    live_order: &[Value],
    key: Option<&str>,
) -> Merged<Vec<Value>> {
    if let Some(key) = key {
        for item in patched.iter().chain(patch_order).chain(&others).chain(live_order) {
            let fields = as_object(item)?;
            fields.get(key).ok_or_else(|| no_merge_key(fields, key))?;
        }
    }
    patched.sort_by_key(|item| place(patch_order, item, key));
    others.sort_by_key(|item| place(live_order, item, key));
    Ok(interleave(others, patched, live_order, key))
}

fn place(order: &[Value], item: &Value, key: Option<&str>) -> Option<usize> {
    let identity = |item: &Value| match key {
        Some(key) => item.get(key).cloned(),
        None => Some(item.clone()),
    };
    let wanted = identity(item);
    order.iter().position(|item| identity(item) == wanted)
}

/// An item of others goes before an item of the patch only where the live list says so.
fn interleave(
    others: Vec<Value>,
    patched: Vec<Value>,
    live_order: &[Value],
    key: Option<&str>,
) -> Vec<Value> {
    let mut merged = Vec::with_capacity(others.len() + patched.len());
    let mut others = others.into_iter().peekable();
    for item in patched {
        let at = place(live_order, &item, key);
        while let Some(other) = others.peek() {
            let before = match (place(live_order, other, key), at) {
                (Some(other), Some(at)) => other < at,
                _ => false,
            };
            if !before {
                break;
            }
            merged.extend(others.next());
        }
        merged.push(item);
    }
    merged.extend(others);
    merged
}
