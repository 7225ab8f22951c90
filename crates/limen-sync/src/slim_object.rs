//! Objects as JSON, without `metadata.managedFields`, which is half of most objects and read for
//! few of them.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// An object, or a list of objects.
#[derive(Clone)]
pub(crate) struct SlimObject(pub(crate) Value);

impl<'de> Deserialize<'de> for SlimObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Object).map(|object| Self(Value::Object(object)))
    }
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let value = match name.as_str() {
                "metadata" => {
                    let metadata: Option<Metadata> = fields.next_value()?;
                    metadata.map_or(Value::Null, |metadata| Value::Object(metadata.0))
                }
                "items" => {
                    let items: Option<Vec<SlimObject>> = fields.next_value()?;
                    items.into_iter().flatten().map(|item| item.0).collect()
                }
                _ => fields.next_value()?,
            };
            object.insert(name, value);
        }
        Ok(object)
    }
}

struct Metadata(Map<String, Value>);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Unmanaged).map(Self)
    }
}

struct Unmanaged;

impl<'de> Visitor<'de> for Unmanaged {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut metadata = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if name == "managedFields" {
                fields.next_value::<IgnoredAny>()?;
            } else {
                metadata.insert(name, fields.next_value()?);
            }
        }
        Ok(metadata)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slim(value: &Value) -> Value {
        serde_json::from_str::<SlimObject>(&value.to_string()).unwrap().0
    }

    #[test]
    fn everything_is_kept_except_who_owns_fields() {
        let object = json!({"kind": "A", "metadata": {"name": "a", "labels": {"b": "c"}},
            "spec": {"managedFields": [1, {"metadata": {"managedFields": []}}]}, "other": null});
        assert_eq!(slim(&object), object);
        let mut managed = object.clone();
        managed["metadata"]["managedFields"] = json!([{"manager": "limen", "fieldsV1": {}}]);
        assert_eq!(slim(&managed), object);
        let list = json!({"metadata": {"resourceVersion": "5"}, "items": [managed, managed]});
        let listed = json!({"metadata": {"resourceVersion": "5"}, "items": [object, object]});
        assert_eq!(slim(&list), listed);
        assert_eq!(slim(&json!({"items": null}))["items"], json!([]));
        assert_eq!(slim(&json!({"metadata": null})), json!({"metadata": null}));
    }
}
