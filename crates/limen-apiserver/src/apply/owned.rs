//! Which fields an object sets: what somebody who applies it owns.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field_set::FieldSet;
use super::path::PathElement;
use super::types::{Shape, Type};

/// The fields that a value sets.
pub(super) fn fields_of(schema: Type<'_>, value: &Value) -> FieldSet {
    let mut walk = Walk { path: Vec::new(), set: FieldSet::default() };
    walk.value(schema, value);
    walk.set
}

struct Walk {
    path: Vec<PathElement>,
    set: FieldSet,
}

impl Walk {
    fn value(&mut self, schema: Type<'_>, value: &Value) {
        match schema.shape(Some(value)) {
            Shape::Scalar | Shape::Map { atomic: true } | Shape::List { atomic: true } => {
                self.set.insert(&self.path);
            }
            Shape::Map { atomic: false } => self.map(schema, value),
            Shape::List { atomic: false } => self.list(schema, value),
        }
    }

    fn map(&mut self, schema: Type<'_>, value: &Value) {
        for (name, value) in value.as_object().into_iter().flatten() {
            let field = schema.field(name).unwrap_or(Type::Deduced);
            self.path.push(PathElement::field(name));
            self.value(field, value);
            let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
            if empty || !schema.names(name) {
                self.set.insert(&self.path);
            }
            self.path.pop();
        }
    }

    /// Items that occur twice are owned as a whole, since their fields cannot be told apart.
    fn list(&mut self, schema: Type<'_>, value: &Value) {
        let Some(item_schema) = schema.items() else { return };
        let items = value.as_array().into_iter().flatten();
        let items: Vec<(PathElement, &Value)> =
            items.filter_map(|item| Some((schema.item_element(item).ok()?, item))).collect();
        let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
        for (element, _) in &items {
            if !seen.insert(element) {
                twice.insert(element);
            }
        }
        for (element, item) in &items {
            self.path.push(element.clone());
            if !twice.contains(element) {
                self.value(item_schema, item);
            }
            self.set.insert(&self.path);
            self.path.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::apply::fields_v1;
    use crate::schema::Schema;

    #[test]
    fn fields_are_owned_as_the_schema_says() {
        let port = json!({"type": "object", "properties": {
            "port": {"type": "integer"},
            "protocol": {"type": "string", "default": "TCP"},
            "name": {"type": "string"},
        }});
        let schema = json!({"type": "object", "properties": {
            "ports": {
                "type": "array",
                "items": port,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
            },
            "set": {
                "type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set",
            },
            "list": {"type": "array", "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "whole": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "x-kubernetes-map-type": "atomic",
            },
            "struct": {"type": "object", "properties": {"a": {"type": "string"}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        let schema = Schema::from_json(&schema, &|_| None).unwrap();
        let cases = [
            (
                json!({"ports": [{"port": 80, "name": "a"}]}),
                json!({"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {
                    ".": {}, "f:port": {}, "f:name": {},
                }}}),
            ),
            // Items that occur twice are owned as a whole.
            (
                json!({"ports": [{"port": 80}, {"port": 80, "protocol": "TCP", "name": "b"}]}),
                json!({"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {}}}),
            ),
            (json!({"set": ["a", "b", "a"]}), json!({"f:set": {"v:\"a\"": {}, "v:\"b\"": {}}})),
            (json!({"list": ["a", "b"]}), json!({"f:list": {}})),
            (json!({"map": {"a": "b"}}), json!({"f:map": {"f:a": {}}})),
            (json!({"map": {}}), json!({"f:map": {}})),
            (json!({"whole": {"a": "b"}}), json!({"f:whole": {}})),
            (json!({"struct": {"a": "b"}}), json!({"f:struct": {"f:a": {}}})),
            (json!({"struct": null}), json!({"f:struct": {}})),
            (json!({"free": {"a": {"b": [1]}}}), json!({"f:free": {"f:a": {".": {}, "f:b": {}}}})),
            (json!({"set": []}), json!({})),
        ];
        for (object, expected) in cases {
            let set = fields_of(Type::of(schema.root()), &object);
            assert_eq!(fields_v1::write(&set), expected, "{object}");
        }
    }
}
