//! JSON patch, RFC 6902, as the library of kube-apiserver understands it.
//!
//! That library is more lenient than the RFC: an index may be negative, `replace` makes a missing
//! field, and a missing field tests equal to null. Whatever fails is answered with one and the
//! same sentence, so a failure has no message of its own here.

use serde_json::{Map, Value};

use super::{MAX_DEPTH, nodes_within};

/// How many operations one patch may have.
pub(super) const MAX_OPERATIONS: usize = 10_000;

/// How many bytes all the copies of one patch may make. Without it, a few copies of the document
/// into itself fill the memory.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// How many values may be looked at to see how deep they are. Moving is cheap, but a document that
/// is moved into itself gets deeper each time.
const MAX_MEASURED: usize = 10_000_000;

/// An operation could not be done, so none of the patch was.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DoesNotApply;

type Done = Result<(), DoesNotApply>;

/// Carries out all operations, or none.
pub(super) fn apply(document: &Value, operations: &[Value]) -> Result<Value, DoesNotApply> {
    let mut document = document.clone();
    let mut spent = Spent::default();
    for operation in operations {
        let operation = operation.as_object().ok_or(DoesNotApply)?;
        carry_out(&mut document, operation, &mut spent)?;
    }
    Ok(document)
}

/// What a patch has used of its limits.
#[derive(Default)]
struct Spent {
    copied: usize,
    measured: usize,
}

impl Spent {
    /// Whether a value may be put at a path: no document ever gets too deep.
    fn fits(&mut self, path: &str, value: &Value) -> Done {
        let room = MAX_DEPTH.checked_sub(path.matches('/').count()).ok_or(DoesNotApply)?;
        self.measured += nodes_within(value, room).ok_or(DoesNotApply)?;
        if self.measured > MAX_MEASURED { Err(DoesNotApply) } else { Ok(()) }
    }
}

fn carry_out(document: &mut Value, operation: &Map<String, Value>, spent: &mut Spent) -> Done {
    let text = |name: &str| operation.get(name).and_then(Value::as_str).ok_or(DoesNotApply);
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    match text("op")? {
        "add" => {
            let value = value();
            spent.fits(text("path")?, &value)?;
            add(document, text("path")?, value)
        }
        "remove" => remove(document, text("path")?).map(drop),
        "replace" => {
            spent.fits(text("path")?, &value())?;
            replace(document, text("path")?, operation.get("value"))
        }
        "move" => {
            let moved = remove(document, text("from")?)?;
            spent.fits(text("path")?, &moved)?;
            add(document, text("path")?, moved)
        }
        "copy" => {
            let copy = get(document, text("from")?)?.cloned().unwrap_or(Value::Null);
            spent.fits(text("path")?, &copy)?;
            spent.copied += copy.to_string().len();
            if spent.copied > MAX_COPIED_BYTES {
                return Err(DoesNotApply);
            }
            add(document, text("path")?, copy)
        }
        "test" => test(document, text("path")?, &value()),
        _ => Err(DoesNotApply),
    }
}

/// The container that a path ends in, and the last part of the path.
fn container<'a>(
    document: &'a mut Value,
    path: &str,
) -> Result<(&'a mut Value, String), DoesNotApply> {
    let mut parts = path.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"));
    let mut last = parts.next().ok_or(DoesNotApply)?;
    let mut container = document;
    for part in parts {
        container = match container {
            Value::Object(fields) => fields.get_mut(&last).ok_or(DoesNotApply)?,
            Value::Array(items) => {
                let at = position(&last, items.len()).ok_or(DoesNotApply)?;
                items.get_mut(at).ok_or(DoesNotApply)?
            }
            _ => return Err(DoesNotApply),
        };
        last = part;
    }
    Ok((container, last))
}

/// The position that an index means in a list of that length; a negative one counts from the end.
fn position(index: &str, length: usize) -> Option<usize> {
    let index: i64 = index.parse().ok()?;
    match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

fn get<'a>(document: &'a mut Value, path: &str) -> Result<Option<&'a Value>, DoesNotApply> {
    let (container, last) = container(document, path)?;
    match container {
        Value::Object(fields) => Ok(fields.get(&last)),
        Value::Array(items) => {
            let at = position(&last, items.len()).ok_or(DoesNotApply)?;
            items.get(at).map(Some).ok_or(DoesNotApply)
        }
        _ => Err(DoesNotApply),
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Done {
    let (container, last) = container(document, path)?;
    match container {
        Value::Object(fields) => {
            fields.insert(last, value);
        }
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let at = position(&last, items.len() + 1).ok_or(DoesNotApply)?;
            if at > items.len() {
                return Err(DoesNotApply);
            }
            items.insert(at, value);
        }
        _ => return Err(DoesNotApply),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Result<Value, DoesNotApply> {
    let (container, last) = container(document, path)?;
    match container {
        Value::Object(fields) => fields.remove(&last).ok_or(DoesNotApply),
        Value::Array(items) => {
            let at = position(&last, items.len()).ok_or(DoesNotApply)?;
            if at >= items.len() {
                return Err(DoesNotApply);
            }
            Ok(items.remove(at))
        }
        _ => Err(DoesNotApply),
    }
}

fn replace(document: &mut Value, path: &str, value: Option<&Value>) -> Done {
    if path.is_empty() {
        let whole = value.filter(|value| value.is_object() || value.is_array());
        *document = whole.ok_or(DoesNotApply)?.clone();
        return Ok(());
    }
    let value = value.cloned().unwrap_or(Value::Null);
    let (container, last) = container(document, path)?;
    match container {
        Value::Object(fields) => {
            fields.insert(last, value);
        }
        Value::Array(items) => {
            let at = position(&last, items.len()).ok_or(DoesNotApply)?;
            *items.get_mut(at).ok_or(DoesNotApply)? = value;
        }
        _ => return Err(DoesNotApply),
    }
    Ok(())
}

fn test(document: &mut Value, path: &str, value: &Value) -> Done {
    let equal = if path.is_empty() {
        document == value
    } else {
        get(document, path)?.unwrap_or(&Value::Null) == value
    };
    if equal { Ok(()) } else { Err(DoesNotApply) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_do_what_kube_apiserver_does() {
        let document = json!({"a": {"b": 1}, "l": [1, 2, 3], "x/y": 1});
        let cases = [
            (json!([{"op": "add", "path": "/l/-", "value": 4}]), "/l", json!([1, 2, 3, 4])),
            (json!([{"op": "add", "path": "/l/1", "value": 4}]), "/l", json!([1, 4, 2, 3])),
            (json!([{"op": "add", "path": "/l/-1", "value": 4}]), "/l", json!([1, 2, 3, 4])),
            (json!([{"op": "remove", "path": "/l/-1"}]), "/l", json!([1, 2])),
            (
                json!([{"op": "replace", "path": "/a/new", "value": 2}]),
                "/a",
                json!({"b": 1, "new": 2}),
            ),
            (json!([{"op": "move", "from": "/a/b", "path": "/l/0"}]), "/l", json!([1, 1, 2, 3])),
            (
                json!([{"op": "copy", "from": "/a", "path": "/a/c"}]),
                "/a",
                json!({"b": 1, "c": {"b": 1}}),
            ),
            (json!([{"op": "test", "path": "/a/none", "value": null}]), "/a", json!({"b": 1})),
            (json!([{"op": "remove", "path": "/x~1y"}]), "/a", json!({"b": 1})),
            (json!([{"op": "replace", "path": "", "value": {"z": 1}}]), "", json!({"z": 1})),
        ];
        for (patch, at, expected) in cases {
            let patched = apply(&document, patch.as_array().unwrap()).unwrap();
            assert_eq!(patched.pointer(at), Some(&expected), "{patch}");
        }
    }

    #[test]
    fn what_does_not_fit_the_document_fails() {
        let document = json!({"a": {"b": 1}, "l": [1]});
        let cases = [
            json!({"op": "test", "path": "/a/b", "value": 2}),
            json!({"op": "test", "path": "/a/b", "value": 1.0}),
            json!({"op": "remove", "path": "/a/none"}),
            json!({"op": "remove", "path": "/l/1"}),
            json!({"op": "remove", "path": "/l/-2"}),
            json!({"op": "add", "path": "/none/b", "value": 1}),
            json!({"op": "add", "path": "/a/b/c", "value": 1}),
            json!({"op": "add", "path": "/l/2", "value": 1}),
            json!({"op": "add", "path": "/l/x", "value": 1}),
            json!({"op": "add", "path": "", "value": {}}),
            json!({"op": "replace", "path": "", "value": 1}),
            json!({"op": "replace", "path": "/l/1", "value": 1}),
            json!({"op": "move", "from": "/none", "path": "/a/c"}),
            json!({"op": "dance", "path": "/a"}),
            json!({"path": "/a"}),
            json!({"op": "remove"}),
            json!(null),
        ];
        for operation in cases {
            let patch = std::slice::from_ref(&operation);
            assert_eq!(apply(&document, patch), Err(DoesNotApply), "{operation}");
        }
    }

    #[test]
    fn copies_cannot_fill_the_memory() {
        let document = json!({"a": "x".repeat(1000)});
        let doubling = json!({"op": "copy", "from": "/a", "path": "/a/"});
        assert!(apply(&document, &[doubling]).is_err());
        let start = json!({"op": "replace", "path": "/a", "value": ["0123456789"]});
        let mut operations = vec![start];
        for _ in 0..100 {
            operations.push(json!({"op": "copy", "from": "/a", "path": "/a/-"}));
        }
        assert_eq!(apply(&document, &operations), Err(DoesNotApply));
    }
}
