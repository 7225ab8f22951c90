//! Values as Go prints them, because error messages that clients see contain them.

use std::fmt::Write;

use serde_json::Value;

/// A value as `%v` prints it: `map[a:1 b:[x y]]`.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => plain_list(items),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name}:{}", plain(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        scalar => scalar.to_string(),
    }
}

/// A list as `%v` prints it: `[x y]`.
pub(crate) fn plain_list(items: &[Value]) -> String {
    let items: Vec<String> = items.iter().map(plain).collect();
    format!("[{}]", items.join(" "))
}

/// A value as `%#v` prints it: Go source.
pub(crate) fn source(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(source).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let mut out = String::from("map[string]interface {}{");
            for (n, (name, value)) in fields.iter().enumerate() {
                let comma = if n == 0 { "" } else { ", " };
                let _ = write!(out, "{comma}{name:?}:{}", source(value));
            }
            out.push('}');
            out
        }
        scalar => scalar.to_string(),
    }
}

/// The Go type that holds a decoded value.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// The JSON type, as Go's decoder names it.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_print_as_in_go() {
        let value = json!({"b": ["x", 1, null], "a": {"t": true}});
        assert_eq!(plain(&value), "map[a:map[t:true] b:[x 1 <nil>]]");
        assert_eq!(source(&json!(9)), "9");
        assert_eq!(
            source(&json!({"a": ["x"]})),
            "map[string]interface {}{\"a\":[]interface {}{\"x\"}}"
        );
        assert_eq!(type_name(&json!(1.5)), "float64");
        assert_eq!(json_type(&json!([])), "array");
    }
}
