//! JSON values that are kept for long and read seldom.

use std::sync::Arc;

use serde_json::Value;

/// A JSON value, kept as its text, which takes far less memory. A copy shares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonText(Arc<str>);

impl JsonText {
    /// The value again.
    pub fn value(&self) -> Value {
        // Only values are written into it.
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl From<&Value> for JsonText {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into())
    }
}
