//! What is wrong with a field, in the words that Kubernetes uses.

use std::fmt::{self, Write};

use serde_json::{Value, json};

/// The place of a field in an object, as in `spec.rules[0].host`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath(String);

impl FieldPath {
    /// The path of a top-level field.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The object itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// A field of this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self::new(name) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// An item of this list.
    #[must_use]
    pub fn index(&self, n: usize) -> Self {
        Self(format!("{}[{n}]", self.0))
    }

    /// A value of this map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    reason: &'static str,
    field: FieldPath,
    /// The message without the field.
    body: String,
}

impl FieldError {
    fn new(reason: &'static str, field: &FieldPath, body: String) -> Self {
        Self { reason, field: field.clone(), body }
    }

    /// The field must be there; `detail` may be empty.
    pub fn required(field: &FieldPath, detail: &str) -> Self {
        Self::new("FieldValueRequired", field, with_detail("Required value".to_owned(), detail))
    }

    /// The value is not one that the field takes.
    pub fn invalid(field: &FieldPath, value: &Value, detail: &str) -> Self {
        let body = with_detail(format!("Invalid value: {}", shown(value)), detail);
        Self::new("FieldValueInvalid", field, body)
    }

    /// The value is not one that the field takes, and too large or too private to be shown.
    pub fn invalid_hidden(field: &FieldPath, detail: &str) -> Self {
        let body = with_detail("Invalid value".to_owned(), detail);
        Self::new("FieldValueInvalid", field, body)
    }

    /// The value is not one that the field takes. `shown` is how to show it, for values whose
    /// fields have an order that [`Value`] does not keep.
    pub fn invalid_shown(field: &FieldPath, shown: &str, detail: &str) -> Self {
        let body = with_detail(format!("Invalid value: {shown}"), detail);
        Self::new("FieldValueInvalid", field, body)
    }

    /// The value has the wrong type.
    pub fn wrong_type(field: &FieldPath, value: &Value, detail: &str) -> Self {
        let body = with_detail(format!("Invalid value: {}", shown(value)), detail);
        Self::new("FieldValueTypeInvalid", field, body)
    }

    /// The value is none of those that the field takes.
    pub fn not_supported(field: &FieldPath, value: &Value, supported: &[&str]) -> Self {
        Self::not_supported_shown(field, &shown(value), supported)
    }

    /// The value is none of those that the field takes. `shown` is how to show it.
    pub fn not_supported_shown(field: &FieldPath, shown: &str, supported: &[&str]) -> Self {
        let mut body = format!("Unsupported value: {shown}");
        let supported: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        if !supported.is_empty() {
            let _ = write!(body, ": supported values: {}", supported.join(", "));
        }
        Self::new("FieldValueNotSupported", field, body)
    }

    /// The value occurs twice.
    pub fn duplicate(field: &FieldPath, value: &Value) -> Self {
        Self::new("FieldValueDuplicate", field, format!("Duplicate value: {}", shown(value)))
    }

    /// The value occurs twice. `shown` is how to show it.
    pub fn duplicate_shown(field: &FieldPath, shown: &str) -> Self {
        Self::new("FieldValueDuplicate", field, format!("Duplicate value: {shown}"))
    }

    /// The value occurs twice, and is too large to be shown.
    pub fn duplicate_hidden(field: &FieldPath) -> Self {
        Self::new("FieldValueDuplicate", field, "Duplicate value".to_owned())
    }

    /// The field may not be set, or not be changed.
    pub fn forbidden(field: &FieldPath, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, with_detail("Forbidden".to_owned(), detail))
    }

    /// What the value names is not there.
    pub fn not_found(field: &FieldPath, value: &Value) -> Self {
        Self::new("FieldValueNotFound", field, format!("Not found: {}", shown(value)))
    }

    /// The value has too many bytes.
    pub fn too_long(field: &FieldPath, limit: usize) -> Self {
        let unit = if limit == 1 { "byte" } else { "bytes" };
        let body = format!("Too long: may not be more than {limit} {unit}");
        Self::new("FieldValueTooLong", field, body)
    }

    /// The list or map has too many items.
    pub fn too_many(field: &FieldPath, count: usize, limit: usize) -> Self {
        let unit = if limit == 1 { "item" } else { "items" };
        let body = format!("Too many: {count}: must have at most {limit} {unit}");
        Self::new("FieldValueTooMany", field, body)
    }

    /// What is wrong, such as `FieldValueRequired`.
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// The entry of `Status.details.causes`.
    pub fn cause(&self) -> Value {
        json!({"reason": self.reason, "message": self.body, "field": self.field.to_string()})
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body)
    }
}

fn with_detail(mut body: String, detail: &str) -> String {
    if !detail.is_empty() {
        body.push_str(": ");
        body.push_str(detail);
    }
    body
}

/// A value as an error message shows it. Lists and maps are written the way Kubernetes writes JSON,
/// which escapes what HTML would trip over.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => value
            .to_string()
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026"),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_as_in_kubernetes() {
        let path = FieldPath::new("spec").child("rules").index(0).child("host");
        let cases = [
            (FieldError::required(&path, ""), "spec.rules[0].host: Required value"),
            (
                FieldError::invalid(&path, &json!("A"), "must be lower case"),
                "spec.rules[0].host: Invalid value: \"A\": must be lower case",
            ),
            (
                FieldError::not_supported(&path, &json!("x"), &["Exact", "Prefix"]),
                "spec.rules[0].host: Unsupported value: \"x\": supported values: \"Exact\", \"Prefix\"",
            ),
            (FieldError::duplicate(&path, &json!(80)), "spec.rules[0].host: Duplicate value: 80"),
            (FieldError::forbidden(&path, "no"), "spec.rules[0].host: Forbidden: no"),
            (
                FieldError::too_long(&path, 63),
                "spec.rules[0].host: Too long: may not be more than 63 bytes",
            ),
        ];
        for (error, message) in cases {
            assert_eq!(error.to_string(), message);
        }
        assert_eq!(FieldPath::new("data").key("a.b").to_string(), "data[a.b]");
    }
}
