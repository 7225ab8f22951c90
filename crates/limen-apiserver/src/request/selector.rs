//! Label and field selectors, in the text form of queries.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;

use crate::error::{ApiError, ApiResult};

/// Labels as they are borrowed from an object.
pub(crate) type Labels<'a> = HashMap<Cow<'a, str>, Cow<'a, str>, RandomState>;

/// Requirements on labels, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| {
            let value = label(&requirement.key);
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match &requirement.test {
                Test::In(values) => value.is_some_and(|value| values.iter().any(|v| v == value)),
                Test::NotIn(values) => value.is_none_or(|value| values.iter().all(|v| v != value)),
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::Greater(bound) => number().is_some_and(|number| number > *bound),
                Test::Less(bound) => number().is_some_and(|number| number < *bound),
            }
        })
    }

    pub(crate) fn parse(text: &str) -> ApiResult<Self> {
        let mut requirements = Vec::new();
        for part in split_outside_parentheses(text) {
            let part = part.trim();
            if part.is_empty() {
                if text.trim().is_empty() {
                    break;
                }
                return Err(unparsable("found '', expected: identifier"));
            }
            requirements.push(Requirement::parse(part)?);
        }
        Ok(Self(requirements))
    }
}

impl Requirement {
    fn parse(part: &str) -> ApiResult<Self> {
        let make = |key: &str, test| {
            let key = key.trim();
            if key.is_empty() || key.contains(|c: char| c.is_whitespace() || "(),=!<>".contains(c))
            {
                return Err(unparsable(&format!("found '{part}', expected: identifier")));
            }
            Ok(Self { key: key.to_owned(), test })
        };
        if let Some(key) = part.strip_prefix('!') {
            return make(key, Test::Absent);
        }
        if let Some((key, value)) = part.split_once("!=") {
            return make(key, Test::NotIn(vec![value.trim().to_owned()]));
        }
        if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            return make(key, Test::In(vec![value.trim().to_owned()]));
        }
        if let Some((key, value)) = part.split_once('>') {
            return make(key, Test::Greater(bound(value)?));
        }
        if let Some((key, value)) = part.split_once('<') {
            return make(key, Test::Less(bound(value)?));
        }
        let Some((key, set)) = part.split_once(char::is_whitespace) else {
            return make(part, Test::Exists);
        };
        let set = set.trim();
        let (exclude, list) = match (set.strip_prefix("notin"), set.strip_prefix("in")) {
            (Some(list), _) => (true, list),
            (_, Some(list)) => (false, list),
            _ => {
                return Err(unparsable(&format!(
                    "found '{set}', expected: in, notin, =, ==, !=, gt, lt"
                )));
            }
        };
        let list = list.trim().strip_prefix('(').and_then(|list| list.strip_suffix(')'));
        let list = list.ok_or_else(|| unparsable(&format!("found '{set}', expected: '('")))?;
        let values = list.split(',').map(|value| value.trim().to_owned()).collect();
        make(key, if exclude { Test::NotIn(values) } else { Test::In(values) })
    }
}

fn bound(value: &str) -> ApiResult<i64> {
    let value = value.trim();
    value.parse().map_err(|_| {
        unparsable(&format!("for 'Gt', 'Lt' operators, the value must be an integer: {value}"))
    })
}

fn unparsable(detail: &str) -> ApiError {
    ApiError::bad_request(format!("unable to parse requirement: {detail}"))
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

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

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let selector = LabelSelector::parse(selector).unwrap();
        selector
            .matches(|key| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value))
    }

    #[test]
    fn label_selectors_match_as_in_kubernetes() {
        let labels = [("app", "web"), ("tier", "front"), ("size", "10")];
        let cases = [
            ("", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("app=web", true),
            ("app==web,tier=front", true),
            ("app=web,tier=back", false),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (web, api)", true),
            ("app notin (web)", false),
            ("other notin (web)", true),
            ("other in (web)", false),
            ("size>9,size<11", true),
            ("size>10", false),
            ("app>1", false),
            ("app=", false),
        ];
        for (selector, expected) in cases {
            assert_eq!(matches(selector, &labels), expected, "{selector}");
        }
    }

    #[test]
    fn senseless_label_selectors_are_refused() {
        for selector in ["app in web", "app in", "=x", ",", "app,,tier", "a b c", "size>x", "(a)"] {
            assert_eq!(LabelSelector::parse(selector).unwrap_err().code, 400, "{selector}");
        }
    }

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
