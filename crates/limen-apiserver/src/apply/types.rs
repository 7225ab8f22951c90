//! A schema as server-side apply sees it.
//!
//! Apply knows three shapes: maps, lists and scalars. Where a schema says nothing, the value
//! decides: its maps are owned field by field, its lists as a whole.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::path::PathElement;
use crate::schema::{ListType, Node, Scalar, Schema};

/// What a value may be.
#[derive(Clone, Copy)]
pub(super) enum Type<'a> {
    /// What a schema says.
    Declared {
        node: Node<'a>,
        /// Some schema further up lets unknown fields through.
        open: bool,
        /// This is a whole object with type and metadata, which its schema may leave out.
        whole: bool,
    },
    /// What the value is; its maps are owned field by field.
    Deduced,
    /// What the value is; its maps are owned as a whole.
    Opaque,
}

/// The shape of a value and how it is owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Map { atomic: bool },
    List { atomic: bool },
    Scalar,
}

impl<'a> Type<'a> {
    /// The type of a whole object.
    pub(super) fn of(schema: Node<'a>) -> Self {
        Self::Declared { node: schema, open: false, whole: true }
    }

    /// The shape of a value of this type. `None` stands for no value, which takes any shape.
    pub(super) fn shape(self, value: Option<&Value>) -> Shape {
        match self {
            Self::Declared { node, .. } if node.is_object() => {
                Shape::Map { atomic: node.is_atomic_map() }
            }
            Self::Declared { node, .. } if node.is_array() => {
                Shape::List { atomic: *node.list_type() == ListType::Atomic }
            }
            Self::Declared { node, .. } if node.scalar().is_some() => Shape::Scalar,
            Self::Declared { .. } | Self::Deduced => deduced(value, false),
            Self::Opaque => deduced(value, true),
        }
    }

    /// The shapes to look at two values in: usually one; both, the second's last, where nothing is
    /// declared and the values differ.
    pub(super) fn shapes(
        self,
        left: Option<&Value>,
        right: Option<&Value>,
    ) -> (Option<Shape>, Shape) {
        match (left, right) {
            (left, None) => (None, self.shape(left)),
            (None, right) => (None, self.shape(right)),
            (Some(left), Some(right)) => {
                let shapes = (self.shape(Some(left)), self.shape(Some(right)));
                // A null may be anything, which is not the same as being a map.
                let same = shapes.0 == shapes.1
                    && (self.is_declared() || left.is_null() == right.is_null());
                (if same { None } else { Some(shapes.0) }, shapes.1)
            }
        }
    }

    fn is_declared(self) -> bool {
        match self {
            Self::Declared { node, .. } => {
                node.is_object() || node.is_array() || node.scalar().is_some()
            }
            _ => false,
        }
    }

    /// Whether the schema names the field, rather than letting it be the key of a map.
    pub(super) fn names(self, field: &str) -> bool {
        self.named(field).is_some()
    }

    fn named(self, field: &str) -> Option<Node<'a>> {
        let Self::Declared { node, whole, .. } = self else { return None };
        let own = node.named_field(field);
        if !whole {
            return own;
        }
        match own {
            // Custom resources say of their metadata that it is an object, and no more.
            Some(own) if field == "metadata" && own.named_fields().next().is_none() => {
                WHOLE.root().named_field(field)
            }
            None => WHOLE.root().named_field(field),
            own => own,
        }
    }

    /// The type of a field. `None` if there cannot be such a field.
    pub(super) fn field(self, name: &str) -> Option<Self> {
        match self {
            Self::Deduced => Some(Self::Deduced),
            Self::Opaque => Some(Self::Opaque),
            Self::Declared { node, open, .. } => {
                let open = open || node.preserves_unknown();
                let declared = self.named(name).or_else(|| node.additional());
                if let Some(node) = declared {
                    return Some(Self::Declared { node, open, whole: node.is_embedded() });
                }
                let free = open || !node.is_object() || node.named_fields().next().is_none();
                free.then_some(Self::Deduced)
            }
        }
    }

    /// The type of a list's items.
    pub(super) fn items(self) -> Option<Self> {
        match self {
            Self::Deduced | Self::Opaque => Some(Self::Opaque),
            Self::Declared { node, open, .. } => Some(match node.items() {
                Some(items) => {
                    let open = open || node.preserves_unknown();
                    Self::Declared { node: items, open, whole: items.is_embedded() }
                }
                None => Self::Opaque,
            }),
        }
    }

    /// What a scalar must be. `None` where any will do.
    pub(super) fn scalar(self) -> Option<Scalar> {
        let Self::Declared { node, .. } = self else { return None };
        match node.scalar()? {
            Scalar::IntOrString => None,
            Scalar::String if !matches!(node.format(), None | Some("byte")) => None,
            scalar => Some(scalar),
        }
    }

    /// Whether this is a map of which the schema knows nothing.
    pub(super) fn is_free_form(self) -> bool {
        match self {
            Self::Declared { node, whole, .. } => {
                !whole && node.additional().is_none() && node.named_fields().next().is_none()
            }
            Self::Deduced | Self::Opaque => true,
        }
    }

    /// How the item of this list is told from the others.
    pub(super) fn item_element(self, item: &Value) -> Result<PathElement, String> {
        let Self::Declared { node, .. } = self else {
            return Err("invalid indexing of non-associative list".to_owned());
        };
        match node.list_type() {
            ListType::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            ListType::Set => set_element(item),
            ListType::Map(keys) => key_element(keys, node.items(), item),
        }
    }
}

fn deduced(value: Option<&Value>, atomic: bool) -> Shape {
    match value {
        None | Some(Value::Null | Value::Object(_)) => Shape::Map { atomic },
        Some(Value::Array(_)) => Shape::List { atomic: true },
        Some(_) => Shape::Scalar,
    }
}

fn set_element(item: &Value) -> Result<PathElement, String> {
    let wrong = match item {
        Value::Object(_) => "associative list without keys has an element that's a map type",
        Value::Array(_) => "not supported: associative list with lists as elements",
        Value::Null => "associative list without keys has an element that's an explicit null",
        value => return Ok(PathElement::Value(value.clone())),
    };
    Err(wrong.to_owned())
}

fn key_element(
    keys: &[String],
    items: Option<Node<'_>>,
    item: &Value,
) -> Result<PathElement, String> {
    let Value::Object(fields) = item else {
        let kind = if item.is_null() { "a null element" } else { "non-map elements" };
        return Err(format!("associative list with keys may not have {kind}"));
    };
    let mut values = Vec::new();
    for key in keys {
        let default = || items?.named_field(key)?.default().filter(|default| !default.is_null());
        // A key without a value is left out: it makes an item of its own.
        if let Some(value) = fields.get(key).or_else(default) {
            values.push((key.clone(), value.clone()));
        }
    }
    if values.is_empty() && !keys.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            keys.join(" ")
        ));
    }
    Ok(PathElement::key(values))
}

/// What every object has, for schemas that do not say it.
static WHOLE: LazyLock<Schema> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let time = json!({"type": "string", "format": "date-time"});
    let whole_number = json!({"type": "integer"});
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let json = json!({
        "type": "object",
        "properties": {
            "apiVersion": text,
            "kind": text,
            "metadata": {"type": "object", "properties": {
                "annotations": texts,
                "creationTimestamp": time,
                "deletionGracePeriodSeconds": whole_number,
                "deletionTimestamp": time,
                "finalizers": {
                    "type": "array", "items": text, "x-kubernetes-list-type": "set",
                },
                "generateName": text,
                "generation": whole_number,
                "labels": texts,
                "managedFields": {"type": "array", "items": {}, "x-kubernetes-list-type": "atomic"},
                "name": text,
                "namespace": text,
                "ownerReferences": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["uid"],
                    "items": {
                        "type": "object",
                        "x-kubernetes-map-type": "atomic",
                        "properties": {
                            "apiVersion": text,
                            "blockOwnerDeletion": {"type": "boolean"},
                            "controller": {"type": "boolean"},
                            "kind": text,
                            "name": text,
                            "uid": text,
                        },
                    },
                },
                "resourceVersion": text,
                "selfLink": text,
                "uid": text,
            }},
        },
    });
    // It has no references, so there is nothing that could be missing.
    Schema::from_json(&json, &|_| None).unwrap_or_else(|_| Schema::anything())
});
