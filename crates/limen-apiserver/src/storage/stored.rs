//! One object as it is kept, and the ways to read it.

use bytes::Bytes;
use limen_store::{Entry, Revision};
use serde::Deserialize;
use serde_json::Value;

use crate::request::{LabelSelector, Labels};

const START: &[u8] = b"{\"metadata\":{";

/// An object as it came from the store.
#[derive(Clone, Debug)]
pub(crate) struct StoredObject {
    json: Bytes,
    pub(crate) revision: Revision,
}

/// The bytes to keep of an object: without its type and resourceVersion, metadata first.
pub(crate) fn encode(object: &Value) -> Bytes {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(START);
    let metadata = object.get("metadata").and_then(Value::as_object);
    let metadata = metadata.into_iter().flatten().filter(|(name, _)| *name != "resourceVersion");
    for (n, (name, value)) in metadata.enumerate() {
        write_field(&mut out, n > 0, name, value);
    }
    out.push(b'}');
    for (name, value) in object.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "metadata" | "apiVersion" | "kind") {
            write_field(&mut out, true, name, value);
        }
    }
    out.push(b'}');
    out.into()
}

fn write_field(out: &mut Vec<u8>, comma: bool, name: &str, value: &Value) {
    if comma {
        out.push(b',');
    }
    // Writing JSON to memory does not fail.
    let _ = serde_json::to_writer(&mut *out, name);
    out.push(b':');
    let _ = serde_json::to_writer(&mut *out, value);
}

impl StoredObject {
    pub(crate) fn new(entry: Entry) -> Self {
        Self { json: entry.value, revision: entry.modified }
    }

    /// The object as of another revision: what a deletion event shows.
    pub(crate) fn at(entry: Entry, revision: Revision) -> Self {
        Self { json: entry.value, revision }
    }

    /// An object that is not in the store, or not yet.
    pub(crate) fn unsaved(json: Bytes) -> Self {
        Self { json, revision: Revision::default() }
    }

    /// The same object with other contents.
    pub(crate) fn with(&self, json: Bytes) -> Self {
        Self { json, revision: self.revision }
    }

    pub(crate) fn at_revision(self, revision: Revision) -> Self {
        Self { revision, ..self }
    }

    /// Appends the object as JSON, with its type if one is given.
    pub(crate) fn write_json(&self, out: &mut Vec<u8>, type_of: Option<(&str, &str)>) {
        out.push(b'{');
        if let Some((api_version, kind)) = type_of {
            out.extend_from_slice(b"\"kind\":\"");
            out.extend_from_slice(kind.as_bytes());
            out.extend_from_slice(b"\",\"apiVersion\":\"");
            out.extend_from_slice(api_version.as_bytes());
            out.extend_from_slice(b"\",");
        }
        out.extend_from_slice(b"\"metadata\":{");
        let rest = &self.json[START.len()..];
        if self.is_saved() {
            out.extend_from_slice(b"\"resourceVersion\":\"");
            out.extend_from_slice(self.revision.to_string().as_bytes());
            out.push(b'"');
            // Metadata of a stored object always has fields; an empty one would need no comma.
            if rest.first() != Some(&b'}') {
                out.push(b',');
            }
        }
        out.extend_from_slice(rest);
    }

    /// The object with its type and resourceVersion.
    pub(crate) fn object(&self, api_version: &str, kind: &str) -> Value {
        let mut object: Value = serde_json::from_slice(&self.json).unwrap_or_default();
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        if self.is_saved() {
            object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        }
        object
    }

    /// Whether the object is, or was, in the store: a dry run shows one that is not.
    fn is_saved(&self) -> bool {
        self.revision != Revision::default()
    }

    /// Whether the labels of the object match.
    pub(crate) fn has_labels(&self, selector: &LabelSelector) -> bool {
        if selector.is_empty() {
            return true;
        }
        #[derive(Deserialize)]
        struct Labelled<'a> {
            #[serde(borrow)]
            metadata: Metadata<'a>,
        }
        #[derive(Deserialize)]
        struct Metadata<'a> {
            #[serde(borrow, default)]
            labels: Labels<'a>,
        }
        let Ok(object) = serde_json::from_slice::<Labelled<'_>>(&self.json) else { return false };
        selector.matches(|key| object.metadata.labels.get(key).map(AsRef::as_ref))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(object: &Value) -> StoredObject {
        let value = encode(object);
        let revision = Revision(42);
        StoredObject::new(Entry { key: "k".into(), value, created: revision, modified: revision })
    }

    #[test]
    fn an_object_comes_back_with_type_and_version() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "resourceVersion": "7", "labels": {"app": "web"}},
            "data": {"b": "\"quoted\"", "a": "1"},
        });
        let mut expected = object.clone();
        expected["metadata"]["resourceVersion"] = "42".into();
        let stored = stored(&object);
        assert_eq!(stored.object("v1", "ConfigMap"), expected);

        let mut json = Vec::new();
        stored.write_json(&mut json, Some(("v1", "ConfigMap")));
        assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), expected);

        json.clear();
        stored.write_json(&mut json, None);
        expected.as_object_mut().unwrap().retain(|name, _| name != "kind" && name != "apiVersion");
        assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), expected);
    }

    #[test]
    fn labels_are_read_without_the_rest() {
        let object = json!({"metadata": {"name": "a", "labels": {"a\"b": "x", "app": "web"}}});
        let selector = |text| LabelSelector::parse(text).unwrap();
        assert!(stored(&object).has_labels(&selector("app=web")));
        assert!(!stored(&object).has_labels(&selector("app=api")));
        let unlabelled = stored(&json!({"metadata": {"name": "a"}}));
        assert!(unlabelled.has_labels(&selector("!app")));
    }
}
