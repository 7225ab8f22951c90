//! The body of a server-side apply, written without a copy of the leaf: every member gets one.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// A leaf with the version that it is applied over, and annotations of its own.
pub(crate) struct Applied<'a> {
    pub(crate) object: &'a Value,
    pub(crate) uid: Option<&'a str>,
    pub(crate) resource_version: &'a str,
    pub(crate) annotations: &'a [(&'a str, String)],
}

impl Serialize for Applied<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        for (field, value) in self.object.as_object().into_iter().flatten() {
            match field.as_str() {
                "metadata" => {
                    object.serialize_entry(field, &Metadata { of: self, given: value })?;
                }
                _ => object.serialize_entry(field, value)?,
            }
        }
        object.end()
    }
}

struct Metadata<'a> {
    of: &'a Applied<'a>,
    given: &'a Value,
}

impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut metadata = serializer.serialize_map(None)?;
        for (field, value) in self.given.as_object().into_iter().flatten() {
            if !matches!(field.as_str(), "uid" | "resourceVersion" | "annotations") {
                metadata.serialize_entry(field, value)?;
            }
        }
        if let Some(uid) = self.of.uid {
            metadata.serialize_entry("uid", uid)?;
        }
        metadata.serialize_entry("resourceVersion", self.of.resource_version)?;
        let given = &self.given["annotations"];
        if given.is_object() || !self.of.annotations.is_empty() {
            metadata.serialize_entry("annotations", &Annotations { of: self.of, given })?;
        }
        metadata.end()
    }
}

struct Annotations<'a> {
    of: &'a Applied<'a>,
    given: &'a Value,
}

impl Serialize for Annotations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut annotations = serializer.serialize_map(None)?;
        let replaced = |key: &str| self.of.annotations.iter().any(|(added, _)| *added == key);
        for (key, value) in self.given.as_object().into_iter().flatten() {
            if !replaced(key) {
                annotations.serialize_entry(key, value)?;
            }
        }
        for (key, value) in self.of.annotations {
            annotations.serialize_entry(key, value)?;
        }
        annotations.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_applied_object_is_the_leaf_with_its_precondition_and_annotations() {
        let object = json!({
            "metadata": {"name": "a", "resourceVersion": "5", "annotations": {"b": "c", "m": "0"}},
            "spec": {"x": 1}});
        let annotations = [("m", "1.2".to_owned())];
        let applied = Applied {
            object: &object,
            uid: Some("u"),
            resource_version: "7",
            annotations: &annotations,
        };
        let text = serde_json::to_string(&applied).unwrap();
        let expected = json!({
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7",
                "annotations": {"b": "c", "m": "1.2"}},
            "spec": {"x": 1}});
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
        for field in ["resourceVersion", "\"m\""] {
            assert_eq!(text.matches(field).count(), 1, "{text}");
        }
        let plain = json!({"metadata": {"name": "a"}});
        let applied =
            Applied { object: &plain, uid: None, resource_version: "9", annotations: &[] };
        let expected = json!({"metadata": {"name": "a", "resourceVersion": "9"}});
        assert_eq!(serde_json::to_value(&applied).unwrap(), expected);
    }
}
