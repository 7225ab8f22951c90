//! `FieldsV1`: how a set of fields is written in `metadata.managedFields`.
//!
//! ```text
//! {"f:data": {".": {}, "f:a": {}}}     .data and .data.a
//! {"f:data": {"f:a": {}}}              .data.a
//! ```

use serde_json::{Map, Value, json};

use super::field_set::FieldSet;
use super::path::PathElement;

/// Why something is not a set of fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FieldsError {
    /// A set is not written as an object.
    #[error("a set of fields must be an object")]
    NotAnObject,
    /// A name does not say what it is about.
    #[error("missing colon: {0}")]
    MissingColon(String),
    /// What comes after the colon cannot be read.
    #[error("unreadable path element {0}")]
    Unreadable(String),
}

/// The set as it is written.
pub(crate) fn write(set: &FieldSet) -> Value {
    let mut fields = Map::new();
    for member in &set.members {
        fields.insert(written(member), json!({}));
    }
    for (element, child) in &set.children {
        let mut below = write(child);
        if set.members.contains(element) {
            below["."] = json!({});
        }
        fields.insert(written(element), below);
    }
    Value::Object(fields)
}

/// Reads a set. Kinds of path elements that are not known yet are ignored.
pub(crate) fn read(fields: &Value) -> Result<FieldSet, FieldsError> {
    let mut set = FieldSet::default();
    let fields = match fields {
        Value::Object(fields) => fields,
        Value::Null => return Ok(set),
        _ => return Err(FieldsError::NotAnObject),
    };
    for (name, below) in fields {
        if name == "." {
            continue;
        }
        let Some(element) = element(name)? else { continue };
        let child = read(below)?;
        if child.is_empty() || below.get(".").is_some() {
            set.members.insert(element.clone());
        }
        if !child.is_empty() {
            set.children.insert(element, child);
        }
    }
    Ok(set)
}

fn written(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => format!("f:{name}"),
        PathElement::Key(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| {
                    format!("{}:{}", escaped(&Value::from(name.as_str())), escaped(value))
                })
                .collect();
            format!("k:{{{}}}", fields.join(","))
        }
        PathElement::Value(value) => format!("v:{}", escaped(value)),
        PathElement::Index(index) => format!("i:{index}"),
    }
}

/// JSON as Go writes it, which is safe to put into HTML.
pub(super) fn escaped(value: &Value) -> String {
    let mut out = String::new();
    for c in value.to_string().chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}

fn element(name: &str) -> Result<Option<PathElement>, FieldsError> {
    let missing = || FieldsError::MissingColon(name.to_owned());
    let unreadable = |_| FieldsError::Unreadable(name.to_owned());
    if name.as_bytes().get(1) != Some(&b':') {
        return Err(missing());
    }
    let (kind, rest) = name.split_once(':').ok_or_else(missing)?;
    Ok(Some(match kind {
        "f" => PathElement::field(rest),
        "v" => PathElement::Value(serde_json::from_str(rest).map_err(unreadable)?),
        "k" => {
            let fields: Map<String, Value> = serde_json::from_str(rest).map_err(unreadable)?;
            PathElement::key(fields.into_iter().collect())
        }
        "i" => {
            let index = rest.parse().map_err(|_| FieldsError::Unreadable(name.to_owned()))?;
            PathElement::Index(index)
        }
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_and_written() {
        let cases = [
            json!({}),
            json!({"f:data": {".": {}, "f:a": {}, "f:b:c": {}}}),
            json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}}),
            json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"a/b\"": {}}}}),
            json!({"f:x": {"i:3": {}, "v:1": {}, "v:true": {}}}),
            json!({"f:x": {"v:\"a\\u003cb\"": {}}}),
        ];
        for fields in cases {
            assert_eq!(write(&read(&fields).unwrap()), fields);
        }
    }

    #[test]
    fn what_is_not_a_set_is_refused() {
        let cases = [
            (json!([]), FieldsError::NotAnObject),
            (json!({"f:a": 1}), FieldsError::NotAnObject),
            (json!({"a": {}}), FieldsError::MissingColon("a".into())),
            (json!({"data": {}}), FieldsError::MissingColon("data".into())),
            (json!({"v:{": {}}), FieldsError::Unreadable("v:{".into())),
            (json!({"k:1": {}}), FieldsError::Unreadable("k:1".into())),
            (json!({"i:x": {}}), FieldsError::Unreadable("i:x".into())),
        ];
        for (fields, error) in cases {
            assert_eq!(read(&fields), Err(error), "{fields}");
        }
        assert_eq!(read(&json!({"z:new": {}, "f:a": {}})).unwrap(), FieldSet::of_fields(&[&["a"]]));
    }
}
