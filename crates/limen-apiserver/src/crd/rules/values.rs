//! JSON as rules see it.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use kube_cel::cel::Value as CelValue;
use kube_cel::cel::objects::{Key, Map, OptionalValue};
use serde_json::Value;

use super::functions;
use crate::crd::schema_json::{flag, text};
use crate::schema::Node;

/// A value with the type that its schema gives it: dates are timestamps, numbers are doubles.
pub(super) fn from_json(value: &Value, node: Option<Node<'_>>) -> CelValue {
    let raw = node.map(Node::raw);
    let kind = raw.map_or("", |raw| text(raw, "type"));
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(value) => CelValue::Bool(*value),
        Value::Number(number) if kind == "number" => {
            CelValue::Float(number.as_f64().unwrap_or_default())
        }
        Value::Number(number) => match number.as_i64() {
            Some(whole) => CelValue::Int(whole),
            None if kind == "integer" => CelValue::Int(number.as_f64().unwrap_or_default() as i64),
            None => CelValue::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(value) => from_text(value, raw),
        Value::Array(items) => {
            let node = node.and_then(Node::items);
            CelValue::List(Arc::new(items.iter().map(|item| from_json(item, node)).collect()))
        }
        Value::Object(fields) => {
            let fields = fields.iter().filter_map(|(name, value)| {
                let named = node.and_then(|node| node.named_field(name));
                // To rules, a field that is null is not there.
                if named.is_some() && value.is_null() {
                    return None;
                }
                let field = named.or_else(|| node.and_then(Node::additional));
                let key = if named.is_some() { escape(name) } else { name.clone() };
                Some((Key::String(Arc::new(key)), from_json(value, field)))
            });
            CelValue::Map(Map { map: Arc::new(fields.collect::<HashMap<_, _>>()) })
        }
    }
}

fn from_text(value: &str, raw: Option<&Value>) -> CelValue {
    let plain = || CelValue::String(Arc::new(value.to_owned()));
    let Some(raw) = raw.filter(|raw| !flag(raw, "x-kubernetes-int-or-string")) else {
        return plain();
    };
    let made = match text(raw, "format") {
        "date-time" => functions::convert("timestamp", plain()),
        "date" => {
            let midnight = CelValue::String(Arc::new(format!("{value}T00:00:00Z")));
            functions::convert("timestamp", midnight)
        }
        "duration" => functions::convert("duration", plain()),
        "byte" => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(value);
            bytes.ok().map(|bytes| CelValue::Bytes(Arc::new(bytes)))
        }
        _ => None,
    };
    made.unwrap_or_else(plain)
}

/// A value that may be absent.
pub(super) fn optional(value: Option<CelValue>) -> CelValue {
    CelValue::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name of a field the way expressions write it.
pub(super) fn escape(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        match c {
            '_' if rest.starts_with("__") => {
                out.push_str("__underscores__");
                length = 2;
            }
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c => out.push(c),
        }
        rest = &rest[length..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn field_names_are_escaped_as_in_kubernetes() {
        let cases = [
            ("plain", "plain"),
            ("namespace", "__namespace__"),
            ("x-prop", "x__dash__prop"),
            ("redact__d", "redact__underscores__d"),
            ("a.b/c", "a__dot__b__slash__c"),
        ];
        for (name, escaped) in cases {
            assert_eq!(escape(name), escaped);
        }
    }
}
