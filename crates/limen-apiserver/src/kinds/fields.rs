//! Reading and filling in the fields of an object.
//!
//! Rules are written against the typed view that Kubernetes has of its objects: an absent field, a
//! `null` and (for text) an empty string are one and the same. Paths are dotted field names.
//! Reading something that is not there, or is of another type, gives the empty value of the type
//! asked for; that the types are right has been seen to when the object was decoded.

use serde_json::{Map, Value};

static NOTHING: Value = Value::Null;

/// The value at a path; null if there is none.
pub(super) fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').try_fold(object, |value, name| value.get(name)).unwrap_or(&NOTHING)
}

/// Whether there is a value at a path, be it an empty one.
pub(super) fn is_set(object: &Value, path: &str) -> bool {
    !at(object, path).is_null()
}

/// The text at a path.
pub(super) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).as_str().unwrap_or_default()
}

/// The whole number at a path.
pub(super) fn number(object: &Value, path: &str) -> i64 {
    at(object, path).as_i64().unwrap_or_default()
}

/// The truth value at a path.
pub(super) fn flag(object: &Value, path: &str) -> bool {
    at(object, path).as_bool().unwrap_or_default()
}

/// The items of the list at a path.
pub(super) fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path).as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The texts of the list at a path.
pub(super) fn texts<'a>(object: &'a Value, path: &str) -> Vec<&'a str> {
    list(object, path).iter().filter_map(Value::as_str).collect()
}

/// The entries of the map at a path, in the order of their keys.
pub(super) fn entries<'a>(
    object: &'a Value,
    path: &str,
) -> impl Iterator<Item = (&'a str, &'a Value)> {
    at(object, path).as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

/// Whether the list, map or text at a path has nothing in it.
pub(super) fn is_empty(object: &Value, path: &str) -> bool {
    match at(object, path) {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// An annotation of an object.
pub(super) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    at(object, "metadata.annotations").get(name).and_then(Value::as_str)
}

/// The value at a path, to be changed, with objects made along the way. `None` if something on the
/// way is there and is no object.
pub(super) fn at_mut<'a>(object: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('.').try_fold(object, |value, name| {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        value.as_object_mut().map(|fields| fields.entry(name).or_insert(Value::Null))
    })
}

/// Sets the value at a path.
pub(super) fn set(object: &mut Value, path: &str, value: impl Into<Value>) {
    if let Some(place) = at_mut(object, path) {
        *place = value.into();
    }
}

/// Sets the value at a path if there is none, or an empty text.
pub(super) fn fill(object: &mut Value, path: &str, value: impl Into<Value>) {
    if let Some(place) = at_mut(object, path)
        && (place.is_null() || place.as_str() == Some(""))
    {
        *place = value.into();
    }
}

/// Sets the number at a path if there is none, or zero.
pub(super) fn fill_zero(object: &mut Value, path: &str, value: i64) {
    if let Some(place) = at_mut(object, path)
        && (place.is_null() || place.as_i64() == Some(0))
    {
        *place = value.into();
    }
}

/// Makes sure that there is an object at a path, as a field has that is shown even when empty.
pub(super) fn fill_object(object: &mut Value, path: &str) {
    fill(object, path, Map::new());
}

/// Takes away the value at a path.
pub(super) fn remove(object: &mut Value, path: &str) {
    let (parent, name) = match path.rsplit_once('.') {
        Some((parent, name)) => (existing_mut(object, parent), name),
        None => (Some(object), path),
    };
    if let Some(fields) = parent.and_then(Value::as_object_mut) {
        fields.remove(name);
    }
}

/// The value at a path, to be changed, if there is one.
pub(super) fn existing_mut<'a>(object: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('.').try_fold(object, |value, name| value.get_mut(name)).filter(|it| !it.is_null())
}

/// The items of the list at a path, to be changed.
pub(super) fn items_mut<'a>(object: &'a mut Value, path: &str) -> &'a mut [Value] {
    existing_mut(object, path)
        .and_then(Value::as_array_mut)
        .map(Vec::as_mut_slice)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_absent_reads_as_empty() {
        let object = json!({"spec": {"host": "", "port": "x", "list": [1]}});
        assert_eq!(text(&object, "spec.host"), "");
        assert_eq!(text(&object, "spec.none.deeper"), "");
        assert_eq!(number(&object, "spec.port"), 0);
        assert!(is_set(&object, "spec.host") && is_empty(&object, "spec.host"));
        assert!(!is_empty(&object, "spec.list"));
    }

    #[test]
    fn only_what_is_absent_is_filled_in() {
        let mut object = json!({"type": "", "kept": "a", "odd": 5});
        fill(&mut object, "type", "ClusterIP");
        fill(&mut object, "kept", "b");
        fill(&mut object, "deep.er", 1);
        fill(&mut object, "odd.child", 1);
        fill_zero(&mut object, "odd", 1);
        let filled = json!({"type": "ClusterIP", "kept": "a", "odd": 5, "deep": {"er": 1}});
        assert_eq!(object, filled);
        remove(&mut object, "deep.er");
        remove(&mut object, "no.where");
        assert_eq!(object["deep"], json!({}));
    }
}
