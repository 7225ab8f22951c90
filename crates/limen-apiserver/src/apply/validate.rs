//! Whether what a user applies fits the schema, in the words of Kubernetes.
//!
//! This is not the validation of the object, which comes later: only what merging relies on.

use std::collections::BTreeSet;

use serde_json::Value;

use super::path::PathElement;
use super::types::{Shape, Type};
use crate::patch::go_format;
use crate::schema::Scalar;

/// What is wrong, as one text; `None` if nothing is.
pub(super) fn problems(schema: Type<'_>, value: &Value) -> Option<String> {
    let mut walk = Walk { path: Vec::new(), problems: Vec::new() };
    walk.value(schema, value);
    match walk.problems.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        many => Some(format!("errors:\n  {}", many.join("\n  "))),
    }
}

struct Walk {
    path: Vec<PathElement>,
    problems: Vec<String>,
}

impl Walk {
    fn wrong(&mut self, message: &str) {
        let path = super::path::shown(&self.path);
        let separator = if path.is_empty() { "" } else { ": " };
        self.problems.push(format!("{path}{separator}{message}"));
    }

    fn below(&mut self, element: PathElement, schema: Type<'_>, value: &Value) {
        self.path.push(element);
        self.value(schema, value);
        self.path.pop();
    }

    fn value(&mut self, schema: Type<'_>, value: &Value) {
        if value.is_null() {
            return;
        }
        match (schema.shape(Some(value)), value) {
            (Shape::Map { .. }, Value::Object(fields)) => {
                for (name, value) in fields {
                    match schema.field(name) {
                        Some(schema) => self.below(PathElement::field(name), schema, value),
                        None => {
                            self.path.push(PathElement::field(name));
                            self.wrong("field not declared in schema");
                            self.path.pop();
                            return;
                        }
                    }
                }
            }
            (Shape::List { atomic }, Value::Array(items)) => self.items(schema, atomic, items),
            (Shape::Map { .. }, value) => {
                self.wrong(&format!("expected map, got &{{{}}}", go_format::plain(value)));
            }
            (Shape::List { .. }, value) => {
                self.wrong(&format!("expected list, got &{{{}}}", go_format::plain(value)));
            }
            (Shape::Scalar, value) => {
                if let Some(wrong) = wrong_scalar(schema.scalar(), value) {
                    self.wrong(&wrong);
                }
            }
        }
    }

    fn items(&mut self, schema: Type<'_>, atomic: bool, items: &[Value]) {
        let Some(item_schema) = schema.items() else { return };
        let mut seen = BTreeSet::new();
        for (at, item) in items.iter().enumerate() {
            let element = if atomic {
                PathElement::Index(i64::try_from(at).unwrap_or(i64::MAX))
            } else {
                match schema.item_element(item) {
                    Ok(element) => {
                        if !seen.insert(element.clone()) {
                            self.wrong(&format!("duplicate entries for key {element}"));
                        }
                        element
                    }
                    Err(wrong) => {
                        self.wrong(&format!("element {at}: {wrong}"));
                        return;
                    }
                }
            };
            self.below(element, item_schema, item);
        }
    }
}

fn wrong_scalar(wanted: Option<Scalar>, value: &Value) -> Option<String> {
    let fits = match wanted {
        Some(Scalar::Integer | Scalar::Number) => value.is_number(),
        Some(Scalar::String) => value.is_string(),
        Some(Scalar::Boolean) => value.is_boolean(),
        Some(Scalar::IntOrString) | None => !value.is_object() && !value.is_array(),
    };
    if fits {
        return None;
    }
    Some(match wanted {
        Some(Scalar::Integer | Scalar::Number) => {
            format!("expected numeric (int or float), got {}", go_format::type_name(value))
        }
        Some(Scalar::String) => {
            let value = go_format::source(value);
            format!("expected string, got &value.valueUnstructured{{Value:{value}}}")
        }
        Some(Scalar::Boolean) => {
            format!("expected boolean, got &{{{}}}", go_format::plain(value))
        }
        Some(Scalar::IntOrString) | None => {
            format!("expected any scalar, got &{{{}}}", go_format::plain(value))
        }
    })
}
