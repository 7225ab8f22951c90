//! The definitions that there are, as far as the server must remember them.
//!
//! A definition is mostly schema, and a server may have hundreds of them. What is kept is an
//! outline of each, and the types that it makes; one that has not changed is not read again.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use limen_store::{Entry, Revision};
use serde_json::Value;

use super::resource_types::resource_types;
use crate::resource::ResourceType;

/// The definitions that there are, by their keys in the store.
#[derive(Default)]
pub(crate) struct Definitions {
    known: BTreeMap<Bytes, Known>,
    /// Whether what follows from them has yet to be done, or was cut short.
    unsettled: bool,
}

struct Known {
    revision: Revision,
    /// The definition without its schemas and without who wrote what.
    outline: Value,
    /// The types that it makes, if it is established.
    types: Vec<Arc<ResourceType>>,
}

impl Definitions {
    /// Takes what is in the store now, and reads what has changed; whether anything has.
    pub(crate) fn renew(&mut self, entries: Vec<Entry>, read: impl Fn(Entry) -> Value) -> bool {
        let mut before = std::mem::take(&mut self.known);
        let mut changed = false;
        for entry in entries {
            let (key, revision) = (entry.key.clone(), entry.modified);
            let known = match before.remove(&key) {
                Some(known) if known.revision == revision => known,
                _ => {
                    changed = true;
                    Known::new(revision, read(entry))
                }
            };
            self.known.insert(key, known);
        }
        changed || !before.is_empty()
    }

    /// Whether all that follows from the definitions was done.
    pub(crate) fn is_settled(&self) -> bool {
        !self.unsettled
    }

    /// Remembers that something is to be done until [`finish`](Self::finish) is called; whether
    /// nothing was left to do before.
    pub(crate) fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.unsettled, true)
    }

    /// All is done.
    pub(crate) fn finish(&mut self) {
        self.unsettled = false;
    }

    /// The definitions, without their schemas.
    pub(crate) fn outlines(&self) -> impl Iterator<Item = &Value> {
        self.known.values().map(|known| &known.outline)
    }

    /// The types of all that are established.
    pub(crate) fn served(&self) -> impl Iterator<Item = Arc<ResourceType>> {
        self.known.values().flat_map(|known| known.types.iter().cloned())
    }
}

impl Known {
    fn new(revision: Revision, definition: Value) -> Self {
        let types = match is_established(&definition) {
            true => resource_types(&definition).into_iter().map(Arc::new).collect(),
            false => Vec::new(),
        };
        Self { revision, outline: outline(definition), types }
    }
}

fn outline(mut definition: Value) -> Value {
    if let Some(metadata) = definition["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        metadata.remove("annotations");
    }
    for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
        if let Some(version) = version.as_object_mut() {
            version.remove("schema");
            version.remove("additionalPrinterColumns");
        }
    }
    definition
}

/// Whether a definition is being deleted.
pub(crate) fn is_leaving(definition: &Value) -> bool {
    definition["metadata"]["deletionTimestamp"].is_string()
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(key: &'static str, revision: u64) -> Entry {
        let revision = Revision(revision);
        Entry { key: key.into(), value: Bytes::new(), created: revision, modified: revision }
    }

    fn definition(plural: &str) -> Value {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        json!({
            "metadata": {"name": format!("{plural}.g"), "managedFields": [{"manager": "a"}]},
            "spec": {
                "group": "g", "scope": "Namespaced", "names": {"plural": plural, "kind": "K"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
            "status": {"conditions": [{"type": "Established", "status": "True"}]}})
    }

    #[test]
    fn only_what_has_changed_is_read() {
        let mut definitions = Definitions::default();
        assert!(definitions.renew(vec![entry("a", 1), entry("b", 2)], |_| definition("as")));
        let first: Vec<_> = definitions.served().collect();
        assert_eq!(first.len(), 2);

        let unread = |_| panic!("nothing has changed");
        assert!(!definitions.renew(vec![entry("a", 1), entry("b", 2)], unread));

        let read = |changed: Entry| {
            assert_eq!(&changed.key[..], b"b");
            definition("bs")
        };
        assert!(definitions.renew(vec![entry("a", 1), entry("b", 3)], read));
        let second: Vec<_> = definitions.served().collect();
        assert!(Arc::ptr_eq(&first[0], &second[0]));
        assert_eq!(second[1].plural, "bs");
        assert!(definitions.renew(vec![entry("b", 3)], unread));
        assert_eq!(definitions.served().count(), 1);
    }

    #[test]
    fn outlines_have_no_schemas() {
        let mut definitions = Definitions::default();
        definitions.renew(vec![entry("a", 1)], |_| definition("as"));
        let outline = definitions.outlines().next().unwrap();
        assert!(outline["spec"]["versions"][0].get("schema").is_none());
        assert!(outline["metadata"].get("managedFields").is_none());
        assert_eq!(outline["spec"]["versions"][0]["storage"], true);
    }
}
