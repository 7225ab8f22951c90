//! Dropping the fields that a schema does not name.

use serde_json::{Map, Value};

use crate::crd::schema_json::flag;
use crate::schema::Node;

/// Drops what the schema does not name and tells where it was, as `spec.ports[0].colour`, in order.
///
/// Nulls that the schema has no place for go too, but quietly, and numbers such as `4.0` are written
/// as `4`, which is how they would be read back. `apiVersion`, `kind` and `metadata`
/// of the object and of embedded objects are kept; of metadata, the known fields are.
pub(crate) fn prune(object: &mut Value, node: Node<'_>) -> Vec<String> {
    let mut pruner = Pruner { path: String::new(), unknown: Vec::new() };
    pruner.value(object, Some(node), true);
    drop_nulls(object, Some(node));
    write_whole_numbers(object);
    pruner.unknown.sort();
    pruner.unknown
}

fn write_whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9.0e15);
            if let Some(whole) = whole {
                *value = (whole as i64).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(write_whole_numbers),
        _ => {}
    }
}

/// Drops nulls of fields that can be neither null nor defaulted.
pub(super) fn drop_nulls(value: &mut Value, node: Option<Node<'_>>) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| match node.and_then(|node| known_field(node, name)) {
                Some(field) => {
                    !value.is_null() || flag(field.raw(), "nullable") || default_of(field).is_some()
                }
                None => true,
            });
            for (name, value) in fields {
                drop_nulls(value, node.and_then(|node| known_field(node, name)));
            }
        }
        Value::Array(items) => {
            for item in items {
                drop_nulls(item, node.and_then(known_items));
            }
        }
        _ => {}
    }
}

/// A default that says something; `null` says nothing.
pub(super) fn default_of(node: Node<'_>) -> Option<&Value> {
    node.default().filter(|default| !default.is_null())
}

/// The schema of a field; none where the schema says only that there may be something.
pub(super) fn known_field<'a>(node: Node<'a>, name: &str) -> Option<Node<'a>> {
    node.field(name).filter(|field| says_something(*field))
}

/// The schema of a list's items.
pub(super) fn known_items(node: Node<'_>) -> Option<Node<'_>> {
    node.items().filter(|items| says_something(*items))
}

fn says_something(node: Node<'_>) -> bool {
    node.raw().as_object().is_some_and(|raw| !raw.is_empty())
}

struct Pruner {
    path: String,
    unknown: Vec<String>,
}

impl Pruner {
    fn value(&mut self, value: &mut Value, node: Option<Node<'_>>, whole_object: bool) {
        let keeps =
            node.is_some_and(|node| flag(node.raw(), "x-kubernetes-preserve-unknown-fields"));
        let whole_object = whole_object || node.is_some_and(Node::is_embedded);
        match value {
            Value::Object(fields) => self.object(fields, node, keeps, whole_object),
            Value::Array(items) => {
                let item_node = node.and_then(known_items);
                for (n, item) in items.iter_mut().enumerate() {
                    if keeps && item_node.is_none() {
                        continue;
                    }
                    self.at(&format!("[{n}]"), |pruner| pruner.value(item, item_node, false));
                }
            }
            _ => {}
        }
    }

    fn object(
        &mut self,
        fields: &mut Map<String, Value>,
        node: Option<Node<'_>>,
        keeps: bool,
        whole_object: bool,
    ) {
        let names: Vec<String> = fields.keys().cloned().collect();
        for name in names {
            if whole_object && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                if let Some(metadata) = fields.get_mut("metadata").filter(|_| name == "metadata") {
                    self.at(".metadata", |pruner| pruner.metadata(metadata));
                }
                continue;
            }
            let field = node.and_then(|node| node.field(&name));
            let Some(value) = fields.get_mut(&name) else { continue };
            let step = format!(".{name}");
            match field {
                Some(field) => self.at(&step, |pruner| {
                    pruner.value(value, Some(field).filter(|field| says_something(*field)), false);
                }),
                None if keeps => {}
                None => {
                    fields.remove(&name);
                    // The type and the metadata belong to every object, even where they are lost.
                    self.at(&step, |pruner| pruner.unknown.push(pruner.path.clone()));
                }
            }
        }
    }

    /// Metadata keeps the fields that metadata has.
    fn metadata(&mut self, metadata: &mut Value) {
        let Some(fields) = metadata.as_object_mut() else { return };
        self.keep(fields, METADATA);
        for (name, known) in [("ownerReferences", OWNER), ("managedFields", MANAGED)] {
            let entries = fields.get_mut(name).and_then(Value::as_array_mut);
            for (n, entry) in entries.into_iter().flatten().enumerate() {
                if let Some(entry) = entry.as_object_mut() {
                    self.at(&format!(".{name}[{n}]"), |pruner| pruner.keep(entry, known));
                }
            }
        }
    }

    fn keep(&mut self, fields: &mut Map<String, Value>, known: &[&str]) {
        fields.retain(|name, _| {
            let keeps = known.contains(&name.as_str());
            if !keeps {
                self.unknown.push(format!("{}.{name}", self.path));
            }
            keeps
        });
    }

    fn at(&mut self, step: &str, inner: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        let step = if length == 0 { step.strip_prefix('.').unwrap_or(step) } else { step };
        self.path.push_str(step);
        inner(self);
        self.path.truncate(length);
    }
}

const METADATA: &[&str] = &[
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];
const OWNER: &[&str] = &["apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"];
const MANAGED: &[&str] =
    &["apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "subresource", "time"];
