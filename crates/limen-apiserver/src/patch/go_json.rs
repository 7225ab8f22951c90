//! Objects as Go's JSON encoder writes them, for errors that quote them.
//!
//! Types are written in the order of their fields, maps by name. Of the types, this knows those
//! that every object has.

use std::fmt::Write;

use serde_json::{Map, Value};

const METADATA: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];
const OWNER_OF_FIELDS: &[&str] =
    &["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];

/// An object after a patch. Where the patch went, objects have become maps.
pub(crate) fn object(object: &Value, metadata_is_map: bool) -> String {
    let mut out = String::new();
    let Some(fields) = object.as_object() else { return object.to_string() };
    write_fields(&mut out, fields, &[], |out, name, value| match value {
        Value::Object(metadata) if name == "metadata" => {
            let order = if metadata_is_map { &[] } else { METADATA };
            write_fields(out, metadata, order, write_metadata_field);
        }
        value => write_value(out, value),
    });
    // Go makes JSON safe to be put into HTML.
    out.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn write_metadata_field(out: &mut String, name: &str, value: &Value) {
    let entries = value.as_array().filter(|_| name == "managedFields");
    let Some(entries) = entries else { return write_value(out, value) };
    out.push('[');
    for (n, entry) in entries.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        match entry.as_object() {
            Some(entry) => {
                write_fields(out, entry, OWNER_OF_FIELDS, |out, _, value| write_value(out, value));
            }
            None => write_value(out, entry),
        }
    }
    out.push(']');
}

/// Writes fields: first those of an order, then the others by name.
fn write_fields(
    out: &mut String,
    fields: &Map<String, Value>,
    order: &[&str],
    write_field: impl Fn(&mut String, &str, &Value),
) {
    let ordered = order.iter().filter_map(|name| fields.get_key_value(*name));
    let others = fields.iter().filter(|(name, _)| !order.contains(&name.as_str()));
    out.push('{');
    for (n, (name, value)) in ordered.chain(others).enumerate() {
        let comma = if n > 0 { "," } else { "" };
        let _ = write!(out, "{comma}{}:", Value::from(name.as_str()));
        write_field(out, name, value);
    }
    out.push('}');
}

fn write_value(out: &mut String, value: &Value) {
    let _ = write!(out, "{value}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_is_in_the_order_of_its_type_unless_a_patch_went_there() {
        let value = json!({
            "metadata": {
                "uid": "u",
                "name": "n",
                "managedFields": [{"time": "t", "manager": "m", "apiVersion": "v1"}],
            },
            "data": {"b": "<", "a": 1},
        });
        let expected = r#"{"data":{"a":1,"b":"\u003c"},"metadata":{"name":"n","uid":"u","managedFields":[{"manager":"m","apiVersion":"v1","time":"t"}]}}"#;
        assert_eq!(object(&value, false), expected);
        let expected = r#"{"data":{"a":1,"b":"\u003c"},"metadata":{"managedFields":[{"manager":"m","apiVersion":"v1","time":"t"}],"name":"n","uid":"u"}}"#;
        assert_eq!(object(&value, true), expected);
    }
}
