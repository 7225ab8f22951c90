//! Field selectors, in the text form of queries.

use crate::error::{ApiError, ApiResult};

/// Requirements on fields, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<FieldRequirement>);

/// A field, and the value that it must or must not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldRequirement {
    pub(crate) field: String,
    pub(crate) value: String,
    pub(crate) equal: bool,
}

impl FieldSelector {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn requirements(&self) -> &[FieldRequirement] {
        &self.0
    }

    /// These requirements and one more, on the name.
    pub(crate) fn and_name(mut self, name: &str) -> Self {
        let field = "metadata.name".to_owned();
        self.0.push(FieldRequirement { field, value: name.to_owned(), equal: true });
        self
    }

    /// The one name that objects must have, if the selector says so.
    pub(crate) fn name(&self) -> Option<&str> {
        let named = |requirement: &&FieldRequirement| {
            requirement.field == "metadata.name" && requirement.equal
        };
        self.0.iter().find(named).map(|requirement| requirement.value.as_str())
    }

    pub(crate) fn matches(&self, field: impl Fn(&str) -> Option<String>) -> bool {
        self.0.iter().all(|requirement| {
            let value = field(&requirement.field).unwrap_or_default();
            (value == requirement.value) == requirement.equal
        })
    }

    pub(crate) fn parse(text: &str) -> ApiResult<Self> {
        let mut requirements = Vec::new();
        for part in split_unescaped(text) {
            let part = part.trim();
            if part.is_empty() {
                continue;
            }
            let split = |separator: &str, equal| {
                let (field, value) = part.split_once(separator)?;
                Some(FieldRequirement {
                    field: field.trim().to_owned(),
                    value: unescape(value),
                    equal,
                })
            };
            let requirement =
                split("!=", false).or_else(|| split("==", true)).or_else(|| split("=", true));
            requirements.push(requirement.ok_or_else(|| {
                ApiError::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                ))
            })?);
        }
        Ok(Self(requirements))
    }
}

fn split_unescaped(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut escaped, mut start) = (false, 0);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn unescape(value: &str) -> String {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        plain.extend(if c == '\\' { characters.next() } else { Some(c) });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_selectors_compare_fields() {
        let selector = FieldSelector::parse("metadata.name=a,type!=Opaque").unwrap();
        let object = |name: &'static str, kind: &'static str| {
            move |field: &str| match field {
                "metadata.name" => Some(name.to_owned()),
                "type" => Some(kind.to_owned()),
                _ => None,
            }
        };
        assert!(selector.matches(object("a", "x")));
        assert!(!selector.matches(object("a", "Opaque")));
        assert!(!selector.matches(object("b", "x")));
        assert_eq!(selector.name(), Some("a"));
        assert_eq!(FieldSelector::parse("a=b\\,c").unwrap().requirements()[0].value, "b,c");
        assert_eq!(FieldSelector::parse("nonsense").unwrap_err().code, 400);
    }
}
