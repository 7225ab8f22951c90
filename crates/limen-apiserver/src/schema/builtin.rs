//! The schemas of the built-in kinds, made from the table of types on first use.
//!
//! A schema is made without a detour through JSON: nodes for scalars that say nothing of their own
//! are shared, and definitions are entered once, so that even a Pod's takes a few hundred nodes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

use super::types::{self, Definition, Field, List};
use super::{ListType, NodeData, NodeId, PatchStrategy, Scalar, Schema, Shape};

/// The schema of an OpenAPI definition such as `io.k8s.api.networking.v1.Ingress`; a schema that
/// lets everything through for a name that nobody knows.
pub fn builtin(definition: &str) -> Arc<Schema> {
    static MADE: LazyLock<Mutex<HashMap<String, Arc<Schema>>>> = LazyLock::new(Mutex::default);
    let mut made = MADE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(schema) = made.get(definition) {
        return Arc::clone(schema);
    }
    let schema = Arc::new(make(definition).unwrap_or_else(Schema::anything));
    made.insert(definition.to_owned(), Arc::clone(&schema));
    schema
}

fn make(definition: &str) -> Option<Schema> {
    let definition = types::definition(definition)?;
    let mut graph = Graph::default();
    let root = graph.definition(definition);
    Some(Schema { nodes: graph.nodes, root })
}

#[derive(Default)]
struct Graph {
    nodes: Vec<NodeData>,
    definitions: HashMap<&'static str, NodeId>,
    /// Nodes of scalars that have nothing but a type and a format.
    scalars: HashMap<(&'static str, &'static str), NodeId>,
}

impl Graph {
    fn add(&mut self, node: NodeData) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn definition(&mut self, definition: &'static Definition) -> NodeId {
        if let Some(id) = self.definitions.get(definition.name.as_str()) {
            return *id;
        }
        // Entered before its fields are, which may lead back to it.
        let id = self.add(NodeData::any());
        self.definitions.insert(&definition.name, id);
        let mut fields = BTreeMap::new();
        let mut required = Vec::new();
        for field in &definition.fields {
            fields.insert(field.name.to_owned(), self.field(field));
            if field.required {
                required.push(field.name.to_owned());
            }
        }
        self.nodes[id] = NodeData {
            atomic_map: definition.atomic,
            ..of_shape(Shape::Object { fields, additional: None, required })
        };
        id
    }

    fn field(&mut self, field: &'static Field) -> NodeId {
        let default = field.default();
        let plain = self.shape(&field.shape);
        let says_more = default.is_some()
            || field.list.is_some()
            || field.map_type.is_some()
            || field.patch.is_some();
        if !says_more {
            return plain;
        }
        let strategy = field.patch.map_or("", |(strategy, _)| strategy);
        let own = NodeData {
            default,
            list: match field.list {
                Some(List::Map(keys)) => {
                    ListType::Map(keys.split(',').map(str::to_owned).collect())
                }
                Some(List::Set) => ListType::Set,
                Some(List::Atomic) | None => ListType::Atomic,
            },
            atomic_map: self.nodes[plain].atomic_map || field.map_type == Some("atomic"),
            merge: PatchStrategy {
                merge: strategy.split(',').any(|part| part == "merge"),
                merge_key: field.patch.and_then(|(_, key)| key).map(str::to_owned),
                retain_keys: strategy.split(',').any(|part| part == "retainKeys"),
                replace: strategy.split(',').any(|part| part == "replace"),
            },
            ..same_shape(&self.nodes[plain])
        };
        self.add(own)
    }

    fn shape(&mut self, shape: &'static types::Shape) -> NodeId {
        use types::Shape as Type;
        match shape {
            Type::String | Type::Quantity => self.scalar(Scalar::String, "string", ""),
            Type::Bool => self.scalar(Scalar::Boolean, "boolean", ""),
            Type::Int32 => self.scalar(Scalar::Integer, "integer", "int32"),
            Type::Int64 => self.scalar(Scalar::Integer, "integer", "int64"),
            Type::Float => self.scalar(Scalar::Number, "number", "double"),
            Type::Bytes => self.scalar(Scalar::String, "string", "byte"),
            Type::Time | Type::MicroTime => self.scalar(Scalar::String, "string", "date-time"),
            Type::IntOrString => self.scalar(Scalar::IntOrString, "int-or-string", ""),
            Type::Any(_) | Type::SchemaOr(_) => self.add(NodeData::any()),
            Type::List(item) => {
                let items = self.shape(item);
                self.add(of_shape(Shape::Array { items }))
            }
            Type::Map(value) => {
                let additional = Some(self.shape(value));
                let fields = BTreeMap::new();
                self.add(of_shape(Shape::Object { fields, additional, required: Vec::new() }))
            }
            Type::Struct(name) => match types::by_short_name(name) {
                Some(definition) => self.definition(definition),
                None => self.add(NodeData::any()),
            },
        }
    }

    fn scalar(&mut self, scalar: Scalar, kind: &'static str, format: &'static str) -> NodeId {
        if let Some(id) = self.scalars.get(&(kind, format)) {
            return *id;
        }
        let node = of_shape(Shape::Scalar(scalar));
        let format_of_node = (!format.is_empty()).then(|| format.to_owned());
        let id = self.add(NodeData { format: format_of_node, ..node });
        self.scalars.insert((kind, format), id);
        id
    }
}

fn of_shape(shape: Shape) -> NodeData {
    NodeData { shape, nullable: false, preserve_unknown: false, ..NodeData::any() }
}

/// A node of the same shape and format. Its children are the same nodes.
fn same_shape(node: &NodeData) -> NodeData {
    let shape = match &node.shape {
        Shape::Object { fields, additional, required } => Shape::Object {
            fields: fields.clone(),
            additional: *additional,
            required: required.clone(),
        },
        Shape::Array { items } => Shape::Array { items: *items },
        Shape::Scalar(scalar) => Shape::Scalar(*scalar),
        Shape::Any => return NodeData::any(),
    };
    NodeData { format: node.format.clone(), ..of_shape(shape) }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::Value;

    use super::*;

    #[test]
    fn a_built_in_schema_has_the_markers() {
        let schema = builtin("io.k8s.api.core.v1.Service");
        let spec = schema.root().field("spec").unwrap();
        let ports = spec.field("ports").unwrap();
        assert_eq!(ports.list_type(), &ListType::Map(vec!["port".into(), "protocol".into()]));
        assert_eq!(ports.patch_strategy().merge_key.as_deref(), Some("port"));
        let port = ports.items().unwrap();
        assert_eq!(port.required(), ["port"]);
        assert_eq!(port.field("protocol").unwrap().default(), Some(&Value::from("TCP")));
        assert_eq!(port.field("targetPort").unwrap().scalar(), Some(Scalar::IntOrString));
        assert!(spec.field("selector").unwrap().is_atomic_map());
        assert!(schema.root().required().is_empty());
        let time = schema.root().field("metadata").unwrap().field("creationTimestamp").unwrap();
        assert_eq!(time.format(), Some("date-time"));

        let deployment = builtin("io.k8s.api.apps.v1.Deployment");
        let strategy = deployment.root().field("spec").unwrap().field("strategy").unwrap();
        assert!(strategy.patch_strategy().retain_keys && !strategy.patch_strategy().merge);
        assert!(strategy.field("rollingUpdate").is_some());
        // A struct is there even in an empty object, what is behind a pointer is not.
        assert_eq!(strategy.default(), Some(&serde_json::json!({})));
        assert_eq!(strategy.field("rollingUpdate").unwrap().default(), None);
    }

    #[test]
    fn a_schema_of_schemas_ends() {
        let schema = builtin(
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        );
        let versions = schema.root().field("spec").unwrap().field("versions").unwrap();
        let mut node = versions.items().unwrap().field("schema").unwrap();
        node = node.field("openAPIV3Schema").unwrap();
        for _ in 0..10 {
            node = node.field("properties").unwrap().field("any").unwrap();
        }
        assert!(node.field("items").unwrap().preserves_unknown());
    }

    #[test]
    fn a_schema_is_made_once_and_quickly() {
        let started = Instant::now();
        let pod = make("io.k8s.api.core.v1.Pod").unwrap();
        let took = started.elapsed();
        assert!(pod.nodes.len() < 1_000, "{} nodes", pod.nodes.len());
        // Generous, for machines that are busy; it is well under a millisecond when idle.
        assert!(took.as_millis() < 500, "{took:?}");
        let name = "io.k8s.api.core.v1.ConfigMap";
        assert!(Arc::ptr_eq(&builtin(name), &builtin(name)));
    }
}
