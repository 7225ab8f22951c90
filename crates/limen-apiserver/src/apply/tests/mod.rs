//! Tests against what a real kube-apiserver did, and of the laws that hold for every object.

mod laws;
mod recorded;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::Value;

use super::{FieldSet, Scope};
use crate::schema::{Node, Schema};

/// The parts of a kind's schema that the tests need, with the markers of the real one.
pub(super) struct Kind {
    name: String,
    api_version: String,
    custom: bool,
    schema: Schema,
}

pub(super) static KINDS: LazyLock<BTreeMap<String, Kind>> = LazyLock::new(|| {
    let kinds: Value = serde_json::from_str(include_str!("../testdata/schemas.json")).unwrap();
    let kinds = kinds.as_object().unwrap().iter().map(|(name, kind)| {
        let kind = Kind {
            name: name.clone(),
            api_version: kind["apiVersion"].as_str().unwrap().to_owned(),
            custom: kind["custom"] == true,
            schema: Schema::from_json(&kind["schema"], &|_| None).unwrap(),
        };
        (name.clone(), kind)
    });
    kinds.collect()
});

impl Kind {
    /// The fields that a write to the object or its status leaves alone.
    fn ignored(&self, subresource: &str) -> FieldSet {
        match (subresource, self.name.as_str()) {
            ("status", _) if self.custom => FieldSet::of_fields(&[&["metadata"], &["spec"]]),
            ("status", "Deployment") => FieldSet::of_fields(&[&["spec"], &["metadata", "labels"]]),
            ("status", _) => FieldSet::of_fields(&[&["spec"]]),
            (_, "ConfigMap") => FieldSet::default(),
            _ => FieldSet::of_fields(&[&["status"]]),
        }
    }

    fn scope<'a>(&'a self, subresource: &'a str, ignored: &'a FieldSet, now: &str) -> Scope<'a> {
        Scope {
            schema: self.schema.root(),
            api_version: &self.api_version,
            kind: &self.name,
            subresource,
            custom: self.custom,
            ignored,
            schema_at: if self.custom { &any_gadget } else { &no_other_version },
            now: now.parse::<Timestamp>().unwrap(),
        }
    }
}

/// Gadgets look the same in all their versions.
fn any_gadget<'a>(api_version: &str) -> Option<Node<'a>> {
    api_version.starts_with("limen.test/").then(|| KINDS["Gadget"].schema.root())
}

fn no_other_version<'a>(_: &str) -> Option<Node<'a>> {
    None
}

#[test]
fn a_field_is_owned_only_itself() {
    let object = serde_json::json!({"metadata": {"managedFields": [{
        "manager": "m", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}, "f:template": {"f:spec": {}}}},
    }]}});
    assert!(super::is_owned(&object, &["spec", "replicas"]));
    assert!(!super::is_owned(&object, &["spec"]));
    assert!(!super::is_owned(&object, &["spec", "template"]));
    assert!(!super::is_owned(&Value::Null, &["spec", "replicas"]));
}
