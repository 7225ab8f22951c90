//! What a body says, before anybody asks what it means.
//!
//! Unlike a [`Value`], it keeps duplicate fields, the order of fields, and numbers as they were
//! written: errors speak of all three.

use serde_json::{Map, Number, Value};

/// A parsed but uninterpreted value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Raw {
    Null,
    Bool(bool),
    /// The number as it was written.
    Number(String),
    String(String),
    List(Vec<Raw>),
    Object(Vec<(String, Raw)>),
}

impl Raw {
    /// What Go calls such a value in errors.
    pub(crate) fn go_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::List(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// The value, with the last of duplicate fields.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => value.into(),
            Self::Number(text) => number(&text),
            Self::String(text) => text.into(),
            Self::List(items) => items.into_iter().map(Self::into_value).collect(),
            Self::Object(fields) => {
                let fields = fields.into_iter().map(|(name, value)| (name, value.into_value()));
                Value::Object(fields.collect::<Map<_, _>>())
            }
        }
    }
}

impl From<Value> for Raw {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(number.to_string()),
            Value::String(text) => Self::String(text),
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Object(fields) => {
                Self::Object(fields.into_iter().map(|(name, value)| (name, value.into())).collect())
            }
        }
    }
}

/// A whole number if it is written as one and fits, else a float. One that is out of a float's
/// range is as large as a float gets.
fn number(text: &str) -> Value {
    if let Ok(whole) = text.parse::<i64>() {
        return whole.into();
    }
    let float = text.parse::<f64>().unwrap_or_default().clamp(f64::MIN, f64::MAX);
    Number::from_f64(float).map_or(Value::Null, Value::Number)
}
