//! What changed from one object to another.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::field_set::FieldSet;
use super::path::{PathElement, equal};
use super::types::{Shape, Type};

/// The fields in which two objects differ. No field is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Comparison {
    /// Leaves fields out, and what is below them.
    pub(super) fn without(self, ignored: &FieldSet) -> Self {
        Self {
            added: self.added.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            removed: self.removed.recursive_difference(ignored),
        }
    }

    /// What is in the new object and was not there, or not so, before.
    pub(super) fn set(&self) -> FieldSet {
        self.modified.union(&self.added)
    }
}

/// Compares two objects of one type. Fails on lists whose items cannot be told apart.
pub(super) fn compare(schema: Type<'_>, old: &Value, new: &Value) -> Result<Comparison, String> {
    let mut walk = Walk { path: Vec::new(), found: Comparison::default() };
    walk.value(schema, Some(old), Some(new))?;
    Ok(walk.found)
}

struct Walk {
    path: Vec<PathElement>,
    found: Comparison,
}

type Sides<'v> = (Option<&'v Value>, Option<&'v Value>);

impl Walk {
    fn value(
        &mut self,
        schema: Type<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Result<(), String> {
        let (first, shape) = schema.shapes(old, new);
        if let Some(first) = first {
            self.shaped(schema, first, (old, new))?;
        }
        let is_leaf = self.shaped(schema, shape, (old, new))?;
        if !is_leaf {
            match (old, new) {
                (None, _) => self.found.added.insert(&self.path),
                (_, None) => self.found.removed.insert(&self.path),
                _ => {}
            }
        }
        Ok(())
    }

    /// Compares in a shape; returns whether the value is owned as a whole there.
    fn shaped(&mut self, schema: Type<'_>, shape: Shape, sides: Sides<'_>) -> Result<bool, String> {
        match shape {
            Shape::Map { atomic } => {
                let old = sides.0.and_then(Value::as_object).filter(|fields| !fields.is_empty());
                let new = sides.1.and_then(Value::as_object).filter(|fields| !fields.is_empty());
                // An empty map is one value, so that empty and absent are told apart.
                if !atomic && (old.is_some() || new.is_some()) {
                    self.fields(schema, old, new)?;
                    return Ok(false);
                }
            }
            Shape::List { atomic } => {
                let old = sides.0.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let new = sides.1.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                if !atomic && (!old.is_empty() || !new.is_empty()) {
                    self.items(schema, old, new)?;
                    return Ok(false);
                }
            }
            Shape::Scalar => {}
        }
        match sides {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if !equal(old, new) => self.found.modified.insert(&self.path),
            _ => {}
        }
        Ok(true)
    }

    fn fields(
        &mut self,
        schema: Type<'_>,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
    ) -> Result<(), String> {
        let get = |fields: Option<&Map<String, Value>>| -> BTreeSet<String> {
            fields.into_iter().flatten().map(|(name, _)| name.clone()).collect()
        };
        for name in get(old).union(&get(new)) {
            let field = schema.field(name).unwrap_or(Type::Deduced);
            self.path.push(PathElement::field(name));
            let sides = (old.and_then(|old| old.get(name)), new.and_then(|new| new.get(name)));
            self.value(field, sides.0, sides.1)?;
            self.path.pop();
        }
        Ok(())
    }

    fn items(&mut self, schema: Type<'_>, old: &[Value], new: &[Value]) -> Result<(), String> {
        let (old, new) = (by_element(schema, old)?, by_element(schema, new)?);
        let item_schema = schema.items().unwrap_or(Type::Deduced);
        let elements: BTreeSet<&PathElement> = old.keys().chain(new.keys()).collect();
        for element in elements {
            let before = old.get(element).map_or(&[][..], Vec::as_slice);
            let after = new.get(element).map_or(&[][..], Vec::as_slice);
            self.path.push(element.clone());
            match (before, after) {
                (before @ ([] | [_]), after @ ([] | [_])) => {
                    self.value(item_schema, before.first().copied(), after.first().copied())?;
                }
                // Items that occur twice are one value: all of them together.
                ([_, _, ..], [_, _, ..]) => {
                    let same = before.len() == after.len()
                        && before.iter().zip(after).all(|(before, after)| equal(before, after));
                    if !same {
                        self.found.modified.insert(&self.path);
                    }
                }
                ([_, _, ..], after) => {
                    if let Some(after) = after.first() {
                        self.value(item_schema, None, Some(after))?;
                    }
                    self.found.removed.insert(&self.path);
                }
                (before, _) => {
                    if let Some(before) = before.first() {
                        self.value(item_schema, Some(before), None)?;
                    }
                    self.found.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
        Ok(())
    }
}

fn by_element<'v>(
    schema: Type<'_>,
    items: &'v [Value],
) -> Result<BTreeMap<PathElement, Vec<&'v Value>>, String> {
    let mut found: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        let element =
            schema.item_element(item).map_err(|wrong| format!("element {at}: {wrong}"))?;
        found.entry(element).or_default().push(item);
    }
    Ok(found)
}
