//! JSON merge patch, RFC 7386.

use serde_json::{Map, Value};

/// Merges a patch into an object: null removes, objects merge, anything else replaces.
pub(super) fn apply(object: &Map<String, Value>, patch: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = object.clone();
    merge(&mut merged, patch);
    merged
}

fn merge(object: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        match (object.get_mut(name), value) {
            (_, Value::Null) => {
                object.remove(name);
            }
            (Some(Value::Object(current)), Value::Object(value)) => merge(current, value),
            (_, value) => {
                object.insert(name.clone(), without_nulls(value));
            }
        }
    }
}

/// A value without the fields that are null: those mean removal, and there is nothing to remove.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The table of RFC 7386, as far as it is about objects.
    #[test]
    fn patches_merge_as_in_the_rfc() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (object, patch, expected) in cases {
            let merged = apply(object.as_object().unwrap(), patch.as_object().unwrap());
            assert_eq!(Value::Object(merged), expected, "{object} with {patch}");
        }
    }
}
