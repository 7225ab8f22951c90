//! Whether the numbers that the scale subresource shows are numbers.

use serde_json::Value;

use crate::field_error::{FieldError, FieldPath};
use crate::resource::ScalePaths;

/// What is wrong with the fields of an object that its scale shows. A change of the status alone
/// does not look at the spec.
pub(crate) fn validate_scale(
    object: &Value,
    scale: &ScalePaths,
    status_only: bool,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !status_only {
        replicas(object, &scale.spec, &mut errors);
    }
    replicas(object, &scale.status, &mut errors);
    if let Some(path) = &scale.selector {
        let stray = match find(object, path) {
            Ok(None | Some(Value::String(_))) => None,
            Ok(Some(other)) => Some(accessor(path, other, "string")),
            Err((got, at)) => Some(accessor(&at, got, "map[string]interface{}")),
        };
        let wrong =
            stray.map(|detail| FieldError::invalid(&FieldPath::new(path), &"".into(), &detail));
        errors.extend(wrong);
    }
    errors
}

fn replicas(object: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut wrong = |shown: i64, detail: &str| {
        errors.push(FieldError::invalid(&FieldPath::new(path), &shown.into(), detail));
    };
    match find(object, path) {
        Ok(None) => {}
        Ok(Some(value)) => match value.as_i64() {
            None => wrong(0, &accessor(path, value, "int64")),
            Some(n) if n < 0 => wrong(n, "should be a non-negative integer"),
            Some(n) if n > i64::from(i32::MAX) => {
                wrong(n, &format!("should be less than or equal to {}", i32::MAX));
            }
            Some(_) => {}
        },
        Err((got, at)) => wrong(0, &accessor(&at, got, "map[string]interface{}")),
    }
}

/// What a path leads to; or what stands in its way, and where.
fn find<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, (&'a Value, String)> {
    let mut at = object;
    let mut walked = String::new();
    for name in path.trim_start_matches('.').split('.') {
        walked = format!("{walked}.{name}");
        match at {
            Value::Object(fields) => match fields.get(name) {
                Some(next) => at = next,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => return Err((other, walked)),
        }
    }
    Ok(Some(at))
}

fn accessor(path: &str, got: &Value, wanted: &str) -> String {
    let (shown, kind) = match got {
        Value::Null => ("<nil>".to_owned(), "<nil>"),
        Value::Bool(value) => (value.to_string(), "bool"),
        Value::Number(number) if number.is_i64() => (number.to_string(), "int64"),
        Value::Number(number) => (number.to_string(), "float64"),
        Value::String(text) => (text.clone(), "string"),
        Value::Array(_) => (got.to_string(), "[]interface {}"),
        Value::Object(_) => (got.to_string(), "map[string]interface {}"),
    };
    format!("{path} accessor error: {shown} is of the type {kind}, expected {wanted}")
}
