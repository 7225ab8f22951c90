//! What an object becomes when something is applied to it. Nothing is removed here.
//!
//! ```text
//! maps     field by field
//! lists    item by item, in the live order, except where the applied order contradicts it
//! atomics  as applied
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::path::PathElement;
use super::types::{Shape, Type};

/// Merges an applied object into a live one.
pub(super) fn merge(schema: Type<'_>, live: &Value, applied: &Value) -> Result<Value, String> {
    Ok(value(schema, Some(live), Some(applied))?.unwrap_or(Value::Null))
}

type Sides<'v> = (Option<&'v Value>, Option<&'v Value>);

fn value(
    schema: Type<'_>,
    live: Option<&Value>,
    applied: Option<&Value>,
) -> Result<Option<Value>, String> {
    let (_, shape) = schema.shapes(live, applied);
    shaped(schema, shape, (live, applied))
}

fn shaped(schema: Type<'_>, shape: Shape, sides: Sides<'_>) -> Result<Option<Value>, String> {
    match shape {
        Shape::Map { atomic: false } => {
            let live = sides.0.and_then(Value::as_object).filter(|fields| !fields.is_empty());
            let applied = sides.1.and_then(Value::as_object).filter(|fields| !fields.is_empty());
            if live.is_some() || applied.is_some() {
                return fields(schema, live, applied);
            }
        }
        Shape::List { atomic: false } => {
            let live = sides.0.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let applied = sides.1.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            if !(live.is_empty() && applied.is_empty()) {
                return items(schema, live, applied);
            }
        }
        _ => {}
    }
    Ok(sides.1.or(sides.0).cloned())
}

fn fields(
    schema: Type<'_>,
    live: Option<&Map<String, Value>>,
    applied: Option<&Map<String, Value>>,
) -> Result<Option<Value>, String> {
    let names = live.into_iter().flatten().chain(applied.into_iter().flatten());
    let names: BTreeSet<&String> = names.map(|(name, _)| name).collect();
    let mut merged = Map::new();
    for name in names {
        let field = schema.field(name).unwrap_or(Type::Deduced);
        let sides =
            (live.and_then(|live| live.get(name)), applied.and_then(|applied| applied.get(name)));
        if let Some(value) = value(field, sides.0, sides.1)? {
            merged.insert(name.clone(), value);
        }
    }
    Ok((!merged.is_empty()).then_some(Value::Object(merged)))
}

fn items(schema: Type<'_>, live: &[Value], applied: &[Value]) -> Result<Option<Value>, String> {
    let merged = ItemMerge::new(schema, live, applied)?.run()?;
    Ok((!merged.is_empty()).then_some(Value::Array(merged)))
}

/// The merge of two lists whose items have identities.
struct ItemMerge<'v, 's> {
    schema: Type<'s>,
    live: Vec<(PathElement, &'v Value)>,
    applied: Vec<(PathElement, &'v Value)>,
    /// Live items by identity; null for those that occur twice, which are not merged with.
    live_by_element: BTreeMap<PathElement, &'v Value>,
    applied_elements: BTreeSet<PathElement>,
}

const NULL: &Value = &Value::Null;

impl<'v, 's> ItemMerge<'v, 's> {
    fn new(schema: Type<'s>, live: &'v [Value], applied: &'v [Value]) -> Result<Self, String> {
        let identified = |items: &'v [Value]| {
            let items = items.iter().enumerate().map(|(at, item)| {
                let element = schema.item_element(item);
                Ok((element.map_err(|wrong| format!("element {at}: {wrong}"))?, item))
            });
            items.collect::<Result<Vec<_>, String>>()
        };
        let (live, applied) = (identified(live)?, identified(applied)?);
        let mut live_by_element = BTreeMap::new();
        for (element, item) in &live {
            live_by_element
                .entry(element.clone())
                .and_modify(|known| *known = NULL)
                .or_insert(*item);
        }
        let applied_elements = applied.iter().map(|(element, _)| element.clone()).collect();
        Ok(Self { schema, live, applied, live_by_element, applied_elements })
    }

    fn item(&self, live: Option<&Value>, applied: Option<&Value>) -> Result<Option<Value>, String> {
        value(self.schema.items().unwrap_or(Type::Deduced), live, applied)
    }

    fn run(self) -> Result<Vec<Value>, String> {
        let mut merged = Vec::new();
        let mut done: BTreeSet<&PathElement> = BTreeSet::new();
        // The items that both have, in the applied order: which of them is due next.
        let mut shared: VecDeque<&PathElement> = self
            .applied
            .iter()
            .map(|(element, _)| element)
            .filter(|element| self.live_by_element.contains_key(element))
            .collect();
        let (mut l, mut a) = (0, 0);
        while l < self.live.len() || a < self.applied.len() {
            if let (Some((live, _)), Some((applied, item))) =
                (self.live.get(l), self.applied.get(a))
            {
                if live == applied {
                    done.insert(applied);
                    let live = self.live_by_element.get(applied).copied();
                    merged.extend(self.item(live, Some(item))?);
                    l += 1;
                    a += 1;
                    shared.pop_front();
                    continue;
                }
                // A shared item that is not due yet comes with its applied one.
                if self.applied_elements.contains(live)
                    && shared.front().is_some_and(|next| *next != live)
                {
                    l += 1;
                    continue;
                }
            }
            if let Some((element, item)) = self.live.get(l) {
                if !self.applied_elements.contains(element) {
                    merged.extend(self.item(Some(item), None)?);
                    l += 1;
                    continue;
                }
                if done.contains(element) {
                    l += 1;
                }
            }
            if let Some((element, item)) = self.applied.get(a) {
                done.insert(element);
                let live = self.live_by_element.get(element).copied();
                merged.extend(self.item(live, Some(item))?);
                a += 1;
                if shared.front() == Some(&element) {
                    shared.pop_front();
                }
            }
        }
        Ok(merged)
    }
}
