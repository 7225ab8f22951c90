//! A part of a schema that values are checked against: a node, or a value validation inside one.

use serde_json::Value;

use crate::crd::schema_json;
use crate::schema::Node;

/// A node of a schema, or the JSON of an `allOf`, `anyOf`, `oneOf` or `not` branch of one.
#[derive(Clone, Copy)]
pub(super) enum SchemaPart<'a> {
    Node(Node<'a>),
    Branch(&'a Value),
}

impl<'a> SchemaPart<'a> {
    /// Everything but the fields and items.
    pub(super) fn raw(self) -> &'a Value {
        match self {
            Self::Node(node) => node.raw(),
            Self::Branch(json) => json,
        }
    }

    pub(super) fn named_fields(self) -> Vec<(&'a str, Self)> {
        match self {
            Self::Node(node) => {
                node.named_fields().map(|(name, field)| (name, Self::Node(field))).collect()
            }
            Self::Branch(json) => schema_json::fields(json, "properties")
                .map(|(name, field)| (name, Self::Branch(field)))
                .collect(),
        }
    }

    pub(super) fn names(self, field: &str) -> bool {
        match self {
            Self::Node(node) => node.named_field(field).is_some(),
            Self::Branch(json) => {
                json.get("properties").and_then(|fields| fields.get(field)).is_some()
            }
        }
    }

    pub(super) fn additional(self) -> Option<Self> {
        match self {
            Self::Node(node) => node.additional().map(Self::Node),
            Self::Branch(json) => schema_json::additional(json).map(Self::Branch),
        }
    }

    pub(super) fn items(self) -> Option<Self> {
        match self {
            Self::Node(node) => node.items().map(Self::Node),
            Self::Branch(json) => schema_json::items(json).map(Self::Branch),
        }
    }

    pub(super) fn required(self) -> Vec<&'a str> {
        match self {
            Self::Node(node) => node.required().iter().map(String::as_str).collect(),
            Self::Branch(json) => schema_json::texts(json, "required").collect(),
        }
    }

    /// The types that a value may have; none if any will do.
    pub(super) fn types(self) -> Vec<&'a str> {
        if schema_json::flag(self.raw(), "x-kubernetes-int-or-string") {
            return vec!["integer", "string"];
        }
        Some(schema_json::text(self.raw(), "type"))
            .filter(|kind| !kind.is_empty())
            .into_iter()
            .collect()
    }

    /// The branches of a value validation.
    pub(super) fn branches(self, name: &str) -> impl Iterator<Item = Self> {
        schema_json::list(self.raw(), name).iter().map(Self::Branch)
    }

    pub(super) fn not(self) -> Option<Self> {
        schema_json::present(self.raw(), "not").map(Self::Branch)
    }

    pub(super) fn number(self, name: &str) -> Option<f64> {
        self.raw().get(name).and_then(Value::as_f64)
    }

    pub(super) fn count(self, name: &str) -> Option<usize> {
        let count = self.raw().get(name)?.as_i64()?;
        Some(usize::try_from(count).unwrap_or_default())
    }
}
