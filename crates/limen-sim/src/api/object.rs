//! Objects as a simulated API stores them.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use super::fields::Ownership;

/// The identity of an object in one API.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The kind, as [`super::Resource::id`] names it.
    pub resource: Arc<str>,
    /// The namespace; empty for objects without one.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// An object in a namespace, or in none if that is empty.
    pub fn new(resource: &str, namespace: &str, name: &str) -> Self {
        Self { resource: resource.into(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// A Namespace.
    pub fn namespace(name: &str) -> Self {
        Self::new("namespaces", "", name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.resource, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.resource, self.name),
        }
    }
}

/// An object with the owners of its fields.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The object, without `metadata.managedFields`.
    pub object: Arc<Value>,
    /// The owners of its fields.
    pub owners: Ownership,
}

impl Stored {
    /// The object as clients see it.
    pub fn shown(&self) -> Value {
        let mut object = (*self.object).clone();
        let api_version = object["apiVersion"].as_str().unwrap_or_default().to_owned();
        object["metadata"]["managedFields"] = self.owners.shown(&api_version);
        object
    }
}

/// The uid of an object, empty if it has none.
pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// The resourceVersion of an object.
pub fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

/// A label of an object.
pub fn label<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["labels"][name].as_str()
}

/// An annotation of an object.
pub fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][name].as_str()
}

/// Whether an object has been marked as deleted.
pub fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// The finalizers of an object.
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The uids of the owners of an object.
pub fn owner_uids(object: &Value) -> Vec<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.filter_map(|owner| owner["uid"].as_str()).collect()
}

/// Whether an object has the labels of an equality selector.
pub(super) fn matches(object: &Value, selector: &str) -> bool {
    selector.split(',').filter(|term| !term.is_empty()).all(|term| match term.split_once('=') {
        Some((name, value)) => label(object, name) == Some(value.trim_start_matches('=')),
        None => label(object, term).is_some(),
    })
}

/// Fills in what an API server would.
pub(super) fn set_defaults(object: &mut Value) {
    if object["kind"] == "Deployment" && object["spec"]["replicas"].is_null() {
        object["spec"]["replicas"] = json!(1);
    }
}
