//! What a leaf looks like: the template without what belongs to the hub or to the member, with
//! the marks by which Limen knows its own.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::federated::{Federated, Kind, ObjectId};
use crate::json_text::JsonText;

/// Marks a leaf with the hub it belongs to; members are watched by it.
pub const HUB_LABEL: &str = "limen.dev/hub";
/// Marks a leaf with the uid of its root.
pub const ROOT_LABEL: &str = "limen.dev/root-uid";
/// Marks an object that was there before and became a leaf by adoption: it is never deleted.
pub const ADOPTED_ANNOTATION: &str = "limen.dev/adopted";
/// The [`Mark`](crate::mark::Mark) of the hub state that a leaf was last written from.
pub const EPOCH_ANNOTATION: &str = "limen.dev/epoch";
/// Marks the ConfigMap by which one hub instance claims a member; it is no leaf.
pub const CLAIM_LABEL: &str = "limen.dev/claim";
/// What the leaf was made to look like, so that a change is seen without the old template.
pub const HASH_ANNOTATION: &str = "limen.dev/applied";

/// Labels and annotations under these prefixes speak to Limen and mean nothing in a member.
const HUB_ONLY: [&str; 3] =
    ["limen.dev/", "federation.kubernetes.io/", "federation.alpha.kubernetes.io/"];
/// What kubectl keeps for itself: the hub's copy says nothing about the leaf.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A leaf as it shall be.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// The object to apply.
    pub object: JsonText,
    /// A hash of it.
    pub hash: Arc<str>,
    /// Fields that another controller in the member is to own, as JSON pointers; the object does
    /// not have them.
    pub handed_over: Vec<String>,
}

/// By their hashes, which are long enough: leaves are compared for every news of every member.
impl PartialEq for Leaf {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

/// The object for members, before overrides.
pub(crate) fn shape(federated: &Federated) -> Value {
    let template = federated.template.value();
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), json!(federated.leaf.kind.api_version));
    object.insert("kind".to_owned(), json!(federated.leaf.kind.kind));
    object.insert("metadata".to_owned(), metadata(&template["metadata"], &federated.leaf));
    for (field, value) in template.as_object().into_iter().flatten() {
        if !["apiVersion", "kind", "metadata", "status"].contains(&field.as_str()) {
            object.insert(field.clone(), value.clone());
        }
    }
    let mut object = Value::Object(object);
    drop_allocated(&federated.leaf.kind, &mut object);
    object
}

/// The finished leaf: an object after overrides, without the fields that are handed over, with the
/// marks of its owner.
pub(crate) fn finish(
    mut object: Value,
    federated: &Federated,
    hub: &str,
    handed_over: &[String],
) -> Leaf {
    for pointer in handed_over {
        remove(&mut object, pointer);
    }
    let metadata = &mut object["metadata"];
    set(metadata, "labels", HUB_LABEL, hub);
    set(metadata, "labels", ROOT_LABEL, &federated.root_uid);
    let hash: Arc<str> = hash(&object).into();
    set(&mut object["metadata"], "annotations", HASH_ANNOTATION, &hash);
    Leaf { object: (&object).into(), hash, handed_over: handed_over.to_vec() }
}

fn metadata(template: &Value, leaf: &ObjectId) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(leaf.name));
    if let Some(namespace) = &leaf.namespace {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    for field in ["labels", "annotations"] {
        let kept: Map<_, _> = template[field]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| !hub_only(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if !kept.is_empty() {
            metadata.insert(field.to_owned(), Value::Object(kept));
        }
    }
    Value::Object(metadata)
}

/// Whether a label or annotation speaks to the hub only.
fn hub_only(key: &str) -> bool {
    key == LAST_APPLIED || HUB_ONLY.iter().any(|prefix| key.starts_with(prefix))
}

/// What an API server has filled in for its own cluster: each member fills in its own.
fn drop_allocated(kind: &Kind, object: &mut Value) {
    match (kind.group(), kind.kind.as_str()) {
        ("", "Service") => {
            if object["spec"]["clusterIP"] != "None" {
                remove(object, "/spec/clusterIP");
                remove(object, "/spec/clusterIPs");
            }
            for field in ["healthCheckNodePort", "ipFamilies", "ipFamilyPolicy"] {
                remove(object, &format!("/spec/{field}"));
            }
            let ports = object.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten() {
                remove(port, "/nodePort");
            }
        }
        ("", "Namespace") => {
            remove(object, "/spec");
            remove(object, "/metadata/labels/kubernetes.io~1metadata.name");
        }
        ("apps", "Deployment") => {
            remove(object, "/metadata/annotations/deployment.kubernetes.io~1revision");
        }
        ("batch", "Job") if object["spec"]["manualSelector"] != true => {
            remove(object, "/spec/selector");
            for label in [
                "controller-uid",
                "job-name",
                "batch.kubernetes.io~1controller-uid",
                "batch.kubernetes.io~1job-name",
            ] {
                remove(object, &format!("/spec/template/metadata/labels/{label}"));
            }
        }
        _ => {}
    }
    remove(object, "/spec/template/metadata/creationTimestamp");
}

/// Takes away what a JSON pointer names, and parents that it leaves empty.
fn remove(object: &mut Value, pointer: &str) {
    let Some((parent, field)) = pointer.rsplit_once('/') else { return };
    let field = field.replace("~1", "/").replace("~0", "~");
    let Some(Value::Object(map)) = object.pointer_mut(parent) else { return };
    if map.remove(&field).is_some() && map.is_empty() && parent.starts_with("/metadata/") {
        remove(object, parent);
    }
}

fn set(metadata: &mut Value, field: &str, key: &str, value: &str) {
    if !metadata[field].is_object() {
        metadata[field] = json!({});
    }
    metadata[field][key] = json!(value);
}

/// FNV-1a over the canonical text: maps are ordered, so equal objects have equal hashes.
fn hash(object: &Value) -> String {
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in object.to_string().bytes() {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    format!("{hash:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pointer_names_is_taken_away_with_empty_maps_of_metadata() {
        let mut object = json!({"metadata": {"labels": {"a/b": "1"}}, "spec": {"x": 1}});
        remove(&mut object, "/metadata/labels/a~1b");
        remove(&mut object, "/spec/x");
        remove(&mut object, "/spec/missing/deep");
        assert_eq!(object, json!({"metadata": {}, "spec": {}}));
    }
}
