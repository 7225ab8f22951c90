//! What the objects of a kind look like, for built-in kinds and custom resources alike.
//!
//! A [`Schema`] is made once from JSON in OpenAPI form (with the `x-kubernetes-*` extensions) and
//! then walked beside an object with a [`Node`], a cheap cursor. Pruning, defaulting, validation,
//! strategic merge and server-side apply all walk it this way; none of them knows where a schema
//! came from.
//!
//! Built-in kinds refer to each other and to themselves, so a schema is a graph: nodes in a list,
//! edges as positions in it.

mod builtin;
pub(crate) mod types;

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

pub use builtin::builtin;

/// A whole schema. Cheap to keep, never changed.
#[derive(Debug)]
pub struct Schema {
    nodes: Vec<NodeData>,
    root: NodeId,
    has_defaults: bool,
}

type NodeId = usize;

#[derive(Debug)]
struct NodeData {
    shape: Shape,
    nullable: bool,
    /// The format of a string or number, as OpenAPI names it (`date-time`, `byte`, `int32`, ...).
    format: Option<String>,
    default: Option<Value>,
    /// Fields that the schema does not name are kept.
    preserve_unknown: bool,
    /// The value is a whole object with its own `apiVersion`, `kind` and `metadata`.
    embedded: bool,
    list: ListType,
    /// The whole map or object changes hands as one in server-side apply.
    atomic_map: bool,
    merge: PatchStrategy,
    /// The JSON that the node was made from, less its children: value validations and rules.
    raw: Value,
}

#[derive(Debug)]
enum Shape {
    Object {
        fields: BTreeMap<String, NodeId>,
        additional: Option<NodeId>,
        required: Vec<String>,
    },
    Array {
        items: NodeId,
    },
    Scalar(Scalar),
    /// Anything goes.
    Any,
}

/// What a single value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
    /// A whole number or text.
    IntOrString,
}

/// How the items of a list are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// They are not: the list is one value.
    #[default]
    Atomic,
    /// By their value.
    Set,
    /// By these fields of theirs.
    Map(Vec<String>),
}

/// What strategic merge does with a list or a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Merge a list's items rather than replace the list.
    pub merge: bool,
    /// The field that tells items apart in a merge; scalars are told apart by value.
    pub merge_key: Option<String>,
    /// Drop the fields that the patch does not list in `$retainKeys`.
    pub retain_keys: bool,
    /// Replace an object rather than merge its fields.
    pub replace: bool,
}

/// Why a schema could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// A reference leads nowhere.
    #[error("the schema refers to {0}, which is not defined")]
    UnknownReference(String),
}

impl Schema {
    /// Makes a schema from OpenAPI-like JSON. `definition` resolves what `$ref` names, by the last
    /// part of the reference's path.
    pub fn from_json<'a>(
        root: &'a Value,
        definition: &dyn Fn(&str) -> Option<&'a Value>,
    ) -> Result<Self, SchemaError> {
        let mut builder = Builder { nodes: Vec::new(), named: HashMap::new(), definition };
        let root = builder.node(root)?;
        Ok(Self::new(builder.nodes, root))
    }

    /// A schema that lets everything through and keeps it.
    pub fn anything() -> Self {
        Self::new(vec![NodeData::any()], 0)
    }

    fn new(nodes: Vec<NodeData>, root: NodeId) -> Self {
        let has_defaults = nodes.iter().any(|node| node.default.is_some());
        Self { nodes, root, has_defaults }
    }

    /// Whether anything in it has a default.
    pub fn has_defaults(&self) -> bool {
        self.has_defaults
    }

    /// The node that describes the whole object.
    pub fn root(&self) -> Node<'_> {
        Node { schema: self, id: self.root }
    }
}

/// A place in a schema.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    schema: &'a Schema,
    id: NodeId,
}

impl<'a> Node<'a> {
    fn data(self) -> &'a NodeData {
        &self.schema.nodes[self.id]
    }

    fn at(self, id: NodeId) -> Self {
        Self { id, ..self }
    }

    /// The schema of a named field, or of a map's value under that key. `None` if the schema does
    /// not know the field.
    pub fn field(self, name: &str) -> Option<Self> {
        self.named_field(name).or_else(|| self.additional())
    }

    /// The schema of a field that is named in the schema.
    pub fn named_field(self, name: &str) -> Option<Self> {
        match &self.data().shape {
            Shape::Object { fields, .. } => fields.get(name).map(|id| self.at(*id)),
            _ => None,
        }
    }

    /// The fields that are named in the schema, in order.
    pub fn named_fields(self) -> impl Iterator<Item = (&'a str, Self)> {
        let fields = match &self.data().shape {
            Shape::Object { fields, .. } => Some(fields),
            _ => None,
        };
        fields.into_iter().flatten().map(move |(name, id)| (name.as_str(), self.at(*id)))
    }

    /// The schema of a map's values.
    pub fn additional(self) -> Option<Self> {
        match &self.data().shape {
            Shape::Object { additional, .. } => additional.map(|id| self.at(id)),
            _ => None,
        }
    }

    /// The fields that must be there.
    pub fn required(self) -> &'a [String] {
        match &self.data().shape {
            Shape::Object { required, .. } => required,
            _ => &[],
        }
    }

    /// The schema of a list's items.
    pub fn items(self) -> Option<Self> {
        match &self.data().shape {
            Shape::Array { items } => Some(self.at(*items)),
            _ => None,
        }
    }

    /// Whether this describes an object or a map.
    pub fn is_object(self) -> bool {
        matches!(self.data().shape, Shape::Object { .. })
    }

    /// Whether this describes a list.
    pub fn is_array(self) -> bool {
        matches!(self.data().shape, Shape::Array { .. })
    }

    /// What a single value may be; `None` for objects, lists and anything.
    pub fn scalar(self) -> Option<Scalar> {
        match self.data().shape {
            Shape::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// How the items of the list are told apart.
    pub fn list_type(self) -> &'a ListType {
        &self.data().list
    }

    /// Whether the map or object changes hands as one in server-side apply.
    pub fn is_atomic_map(self) -> bool {
        self.data().atomic_map
    }

    /// What strategic merge does here.
    pub fn patch_strategy(self) -> &'a PatchStrategy {
        &self.data().merge
    }

    /// The value that stands in for an absent one.
    pub fn default(self) -> Option<&'a Value> {
        self.data().default.as_ref()
    }

    /// Whether `null` is a value.
    pub fn is_nullable(self) -> bool {
        self.data().nullable
    }

    /// Whether unknown fields are kept.
    pub fn preserves_unknown(self) -> bool {
        self.data().preserve_unknown || matches!(self.data().shape, Shape::Any)
    }

    /// Whether the value is a whole object with its own type and metadata.
    pub fn is_embedded(self) -> bool {
        self.data().embedded
    }

    /// The format of a string or number.
    pub fn format(self) -> Option<&'a str> {
        self.data().format.as_deref()
    }

    /// The JSON that the node was made from, less its children.
    pub fn raw(self) -> &'a Value {
        &self.data().raw
    }
}

impl NodeData {
    fn any() -> Self {
        Self {
            shape: Shape::Any,
            nullable: true,
            format: None,
            default: None,
            preserve_unknown: true,
            embedded: false,
            list: ListType::Atomic,
            atomic_map: false,
            merge: PatchStrategy::default(),
            raw: Value::Null,
        }
    }
}

struct Builder<'a, 'd> {
    nodes: Vec<NodeData>,
    named: HashMap<String, NodeId>,
    definition: &'d dyn Fn(&str) -> Option<&'a Value>,
}

impl<'a> Builder<'a, '_> {
    fn node(&mut self, json: &'a Value) -> Result<NodeId, SchemaError> {
        match reference(json) {
            // A reference with nothing of its own beside it is the definition itself, which may
            // be under way further up.
            Some(name) if is_plain_reference(json) => self.named(name),
            _ => {
                let id = self.reserve();
                self.fill(id, json)?;
                Ok(id)
            }
        }
    }

    fn named(&mut self, name: &str) -> Result<NodeId, SchemaError> {
        if let Some(id) = self.named.get(name) {
            return Ok(*id);
        }
        let json = self.resolve(name)?;
        let id = self.reserve();
        self.named.insert(name.to_owned(), id);
        self.fill(id, json)?;
        Ok(id)
    }

    fn resolve(&self, name: &str) -> Result<&'a Value, SchemaError> {
        (self.definition)(name).ok_or_else(|| SchemaError::UnknownReference(name.to_owned()))
    }

    fn reserve(&mut self) -> NodeId {
        self.nodes.push(NodeData::any());
        self.nodes.len() - 1
    }

    fn fill(&mut self, id: NodeId, json: &'a Value) -> Result<(), SchemaError> {
        // Extensions beside a reference add to what the definition says.
        let base = match reference(json) {
            Some(name) => self.resolve(name)?,
            None => json,
        };
        let get = |name: &str| json.get(name).or_else(|| base.get(name));
        let flag = |name: &str| get(name).and_then(Value::as_bool).unwrap_or(false);
        let text = |name: &str| get(name).and_then(Value::as_str);
        let strategy = text("x-kubernetes-patch-strategy").unwrap_or_default();

        let shape = if flag("x-kubernetes-int-or-string") {
            Shape::Scalar(Scalar::IntOrString)
        } else {
            match text("type") {
                Some("object") => self.object(base)?,
                Some("array") => {
                    let items = base.get("items").unwrap_or(&Value::Null);
                    Shape::Array { items: self.node(items)? }
                }
                Some("string") => Shape::Scalar(Scalar::String),
                Some("integer") => Shape::Scalar(Scalar::Integer),
                Some("number") => Shape::Scalar(Scalar::Number),
                Some("boolean") => Shape::Scalar(Scalar::Boolean),
                _ if base.get("properties").is_some() => self.object(base)?,
                _ => Shape::Any,
            }
        };
        let keys = || {
            let keys = get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            keys.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let list = match text("x-kubernetes-list-type") {
            Some("map") => ListType::Map(keys()),
            Some("set") => ListType::Set,
            _ => ListType::Atomic,
        };
        let any = matches!(shape, Shape::Any);
        self.nodes[id] = NodeData {
            shape,
            nullable: flag("nullable") || any,
            format: text("format").map(str::to_owned),
            default: get("default").cloned(),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            list,
            atomic_map: text("x-kubernetes-map-type") == Some("atomic"),
            merge: PatchStrategy {
                merge: strategy.split(',').any(|part| part == "merge"),
                merge_key: text("x-kubernetes-patch-merge-key").map(str::to_owned),
                retain_keys: strategy.split(',').any(|part| part == "retainKeys"),
                replace: strategy.split(',').any(|part| part == "replace"),
            },
            raw: without_children(base),
        };
        Ok(())
    }

    fn object(&mut self, json: &'a Value) -> Result<Shape, SchemaError> {
        let mut fields = BTreeMap::new();
        for (name, field) in json.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            fields.insert(name.clone(), self.node(field)?);
        }
        let additional = match json.get("additionalProperties") {
            Some(schema @ Value::Object(_)) => Some(self.node(schema)?),
            Some(Value::Bool(true)) => Some(self.node(&Value::Null)?),
            _ => None,
        };
        let required = json.get("required").and_then(Value::as_array);
        let required = required.into_iter().flatten().filter_map(Value::as_str);
        Ok(Shape::Object { fields, additional, required: required.map(str::to_owned).collect() })
    }
}

/// What a node refers to: by itself, or through the one-armed `allOf` that OpenAPI needs when
/// something stands beside a reference.
fn reference(json: &Value) -> Option<&str> {
    let direct = json.get("$ref");
    let wrapped = || match json.get("allOf")?.as_array()?.as_slice() {
        [only] => only.get("$ref"),
        _ => None,
    };
    direct.or_else(wrapped)?.as_str()?.rsplit('/').next()
}

fn is_plain_reference(json: &Value) -> bool {
    json.as_object().is_some_and(|fields| {
        fields.keys().all(|name| matches!(name.as_str(), "$ref" | "allOf" | "description"))
    })
}

fn without_children(json: &Value) -> Value {
    let kept = json.as_object().into_iter().flatten().filter(|(name, _)| {
        !matches!(name.as_str(), "properties" | "items" | "additionalProperties" | "description")
    });
    Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_walked_beside_an_object() {
        let json = json!({
            "type": "object",
            "required": ["spec"],
            "properties": {
                "spec": {"type": "object", "properties": {
                    "ports": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                        "x-kubernetes-patch-merge-key": "port",
                        "x-kubernetes-patch-strategy": "merge",
                        "items": {"type": "object", "properties": {
                            "port": {"type": "integer", "format": "int32"},
                            "protocol": {"type": "string", "default": "TCP"},
                            "targetPort": {"x-kubernetes-int-or-string": true},
                        }},
                    },
                    "selector": {
                        "type": "object",
                        "x-kubernetes-map-type": "atomic",
                        "additionalProperties": {"type": "string"},
                    },
                }},
            },
        });
        let schema = Schema::from_json(&json, &|_| None).unwrap();
        let spec = schema.root().field("spec").unwrap();
        let ports = spec.field("ports").unwrap();
        assert_eq!(schema.root().required(), ["spec"]);
        assert_eq!(ports.list_type(), &ListType::Map(vec!["port".into(), "protocol".into()]));
        assert_eq!(ports.patch_strategy().merge_key.as_deref(), Some("port"));
        let port = ports.items().unwrap();
        assert_eq!(port.field("port").unwrap().scalar(), Some(Scalar::Integer));
        assert_eq!(port.field("protocol").unwrap().default(), Some(&json!("TCP")));
        assert_eq!(port.field("targetPort").unwrap().scalar(), Some(Scalar::IntOrString));
        assert!(port.field("unknown").is_none());
        let selector = spec.field("selector").unwrap();
        assert!(selector.is_atomic_map());
        assert_eq!(selector.field("any").unwrap().scalar(), Some(Scalar::String));
    }

    #[test]
    fn a_schema_may_refer_to_itself() {
        let root = json!({"allOf": [{"$ref": "#/components/schemas/Tree"}], "nullable": true});
        let tree = json!({"type": "object", "properties": {
            "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
        }});
        let schema = Schema::from_json(&root, &|name| (name == "Tree").then_some(&tree)).unwrap();
        let mut node = schema.root();
        assert!(node.is_nullable());
        for _ in 0..10 {
            node = node.field("children").unwrap().items().unwrap();
        }
        assert!(node.is_object() && !node.is_nullable());
    }

    #[test]
    fn an_unknown_reference_is_an_error() {
        let root = json!({"$ref": "#/components/schemas/Nobody"});
        let error = Schema::from_json(&root, &|_| None).unwrap_err();
        assert_eq!(error, SchemaError::UnknownReference("Nobody".to_owned()));
    }
}
