//! YAML text, read as the JSON that it stands for.
//!
//! The first document counts. Keys that are not text become text, and a key that occurs twice is
//! told with its line, since that is how Kubernetes tells it. Depth and the growth by aliases are
//! bounded.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::MAX_STRICT_ERRORS;
use super::json::{self, MAX_DEPTH};
use super::patch::duplicates;
use super::raw::Raw;

/// A document, and what is wrong with it that need not be fatal.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) value: Raw,
    /// `line 5: key "name" already set in map`, ...
    pub(crate) duplicates: Vec<String>,
}

/// Reads the first document of a text.
pub(crate) fn parse(text: &[u8]) -> Result<Document, String> {
    if let Some(value) = plain_json(text) {
        return Ok(Document { value, duplicates: Vec::new() });
    }
    let text = String::from_utf8_lossy(text);
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_documents: 100,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let documents: Vec<Located> = serde_saphyr::from_multiple_with_options(&text, options)
        .map_err(|error| format!("yaml: {error}"))?;
    let mut duplicates = Vec::new();
    let value = documents.into_iter().next().map_or(Raw::Null, |first| first.raw(&mut duplicates));
    Ok(Document { value, duplicates })
}

/// JSON is YAML, and what most clients send; it is much quicker to read. Duplicate keys are left to
/// the reader that knows their lines.
fn plain_json(text: &[u8]) -> Option<Raw> {
    let value = text.starts_with(b"{").then(|| json::parse(text).ok()).flatten()?;
    let mut found = Vec::new();
    duplicates(&value, &mut String::new(), &mut found);
    found.is_empty().then_some(value)
}

/// A value whose keys know their lines.
enum Located {
    Scalar(Raw),
    List(Vec<Located>),
    Object(Vec<(Key, Located)>),
}

struct Key {
    line: u64,
    name: String,
}

impl Located {
    fn raw(self, duplicates: &mut Vec<String>) -> Raw {
        match self {
            Self::Scalar(scalar) => scalar,
            Self::List(items) => {
                Raw::List(items.into_iter().map(|item| item.raw(duplicates)).collect())
            }
            Self::Object(entries) => {
                let mut fields: Vec<(String, Raw)> = Vec::with_capacity(entries.len());
                let mut places = HashMap::with_capacity(entries.len());
                for (Key { line, name }, value) in entries {
                    let value = value.raw(duplicates);
                    match places.get(&name) {
                        Some(place) => {
                            if duplicates.len() < MAX_STRICT_ERRORS {
                                let problem =
                                    format!("line {line}: key {name:?} already set in map");
                                duplicates.push(problem);
                            }
                            let earlier: &mut (String, Raw) = &mut fields[*place];
                            earlier.1 = value;
                        }
                        None => {
                            places.insert(name.clone(), fields.len());
                            fields.push((name, value));
                        }
                    }
                }
                Raw::Object(fields)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Located {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyNode)
    }
}

struct AnyNode;

impl<'de> Visitor<'de> for AnyNode {
    type Value = Located;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML node")
    }

    fn visit_unit<E>(self) -> Result<Located, E> {
        Ok(Located::Scalar(Raw::Null))
    }

    fn visit_none<E>(self) -> Result<Located, E> {
        Ok(Located::Scalar(Raw::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Located, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Located, E> {
        Ok(Located::Scalar(Raw::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Located, E> {
        Ok(Located::Scalar(Raw::Number(value.to_string())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Located, E> {
        Ok(Located::Scalar(Raw::Number(value.to_string())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Located, E> {
        Ok(Located::Scalar(Raw::Number(value.to_string())))
    }

    fn visit_str<E>(self, value: &str) -> Result<Located, E> {
        Ok(Located::Scalar(Raw::String(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Located, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Located::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Located, A::Error> {
        let mut object = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<Located>>()? {
            let line = key.referenced.line();
            let name = match key.value {
                Located::Scalar(Raw::String(name) | Raw::Number(name)) => name,
                Located::Scalar(Raw::Bool(value)) => value.to_string(),
                Located::Scalar(_) => "null".to_owned(),
                Located::List(_) | Located::Object(_) => {
                    return Err(serde::de::Error::custom("a key is not a scalar"));
                }
            };
            object.push((Key { line, name }, entries.next_value()?));
        }
        Ok(Located::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn value(text: &str) -> Value {
        parse(text.as_bytes()).unwrap().value.into_value()
    }

    #[test]
    fn types_are_those_of_json() {
        let text = "a: 1\nb: 1.5\nc: yes\nd: 'yes'\ne: ~\nf: [x, 2024-01-01, \"0777\"]\n1: {}\nyes: z\n\
                    g: 0777\nh: |\n  text\n";
        let expected = json!({
            "a": 1, "b": 1.5, "c": true, "d": "yes", "e": null,
            "f": ["x", "2024-01-01", "0777"], "1": {}, "true": "z", "g": 511, "h": "text\n",
        });
        assert_eq!(value(text), expected);
        assert_eq!(value(r#"{"a": ["b", 1, {"c": null}]}"#), json!({"a": ["b", 1, {"c": null}]}));
    }

    #[test]
    fn the_first_document_counts() {
        assert_eq!(value("a: 1\n---\nb: 2\n"), json!({"a": 1}));
        assert_eq!(value(""), Value::Null);
    }

    #[test]
    fn a_key_that_occurs_twice_is_told_with_its_line() {
        let document = parse(b"metadata:\n  name: a\n  name: b\n").unwrap();
        assert_eq!(document.duplicates, ["line 3: key \"name\" already set in map"]);
        assert_eq!(document.value.into_value(), json!({"metadata": {"name": "b"}}));
    }

    #[test]
    fn bombs_are_refused() {
        let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let below = level - 1;
            let aliases = vec![format!("*a{below}"); 10].join(", ");
            laughs.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        assert!(parse(laughs.as_bytes()).is_err());
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
    }
}
