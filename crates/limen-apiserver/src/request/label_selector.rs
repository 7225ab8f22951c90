//! Label selectors, in the text form of queries.
//!
//! ```text
//!   app in (web, api),tier!=back,!old,size>3
//! ```
//!
//! The grammar and its complaints are those of Kubernetes, which people see in kubectl.

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap};

use serde_json::json;

use crate::error::{ApiError, ApiResult};
use crate::field_error::{FieldError, FieldPath};
use crate::kinds::{label_key, label_value};

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
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
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
                Test::In(values) => value.is_some_and(|value| values.contains(value)),
                Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::Greater(bound) => number().is_some_and(|number| number > *bound),
                Test::Less(bound) => number().is_some_and(|number| number < *bound),
            }
        })
    }

    pub(crate) fn parse(text: &str) -> ApiResult<Self> {
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        parser.requirements().map(Self).map_err(ApiError::bad_request)
    }
}

const SYMBOLS: &[&str] = &["==", "!=", "=", "!", "<", ">", ",", "(", ")"];

/// Symbols and words; space only parts them.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
        let length = symbol.map_or_else(
            || {
                let ends = |c: char| c.is_whitespace() || "=!<>,()".contains(c);
                rest.find(ends).unwrap_or(rest.len())
            },
            |symbol| symbol.len(),
        );
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> Parser<'a> {
    /// The next token; empty at the end.
    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or_default()
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                "" => return Ok(requirements),
                token if token == "!" || is_word(token) => {}
                token => {
                    return Err(format!(
                        "found '{token}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
            let requirement = self.requirement();
            requirements
                .push(requirement.map_err(|it| format!("unable to parse requirement: {it}"))?);
            match self.next() {
                "" => return Ok(requirements),
                "," => {
                    let token = self.peek();
                    if token != "!" && !is_word(token) {
                        return Err(format!("found '{token}', expected: identifier after ','"));
                    }
                }
                token => return Err(format!("found '{token}', expected: ',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.peek() == "!";
        if absent {
            self.next();
        }
        let key = self.next();
        if !is_word(key) {
            return Err(format!("found '{key}', expected: identifier"));
        }
        // The real server knows no path here, and says so.
        check(&FieldPath::new("<nil>"), key, &label_key(key))?;
        let make = |test| Ok(Requirement { key: key.to_owned(), test });
        if absent {
            return make(Test::Absent);
        }
        if matches!(self.peek(), "" | ",") {
            return make(Test::Exists);
        }
        let operator = self.next();
        let values = match operator {
            "in" | "notin" => self.values()?,
            "=" | "==" | "!=" | "<" | ">" => self.value()?,
            found => {
                return Err(format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt"));
            }
        };
        let field = FieldPath::new("values");
        let bound = values.iter().next().and_then(|value| value.parse().ok());
        let test = match (operator, bound) {
            ("in" | "=" | "==", _) => Test::In(values.clone()),
            ("notin" | "!=", _) => Test::NotIn(values.clone()),
            (">", Some(bound)) => Test::Greater(bound),
            (_, Some(bound)) => Test::Less(bound),
            (_, None) => {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                let shown = json!(values.first());
                return Err(FieldError::invalid(&field.index(0), &shown, detail).to_string());
            }
        };
        for (n, value) in values.iter().enumerate() {
            check(&field.index(n).key(key), value, &label_value(value))?;
        }
        make(test)
    }

    /// `(a, b)`
    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let opening = self.next();
        if opening != "(" {
            return Err(format!("found '{opening}' expected: '('"));
        }
        let mut values = BTreeSet::new();
        loop {
            let value = if is_word(self.peek()) { self.next() } else { "" };
            values.insert(value.to_owned());
            match self.next() {
                "," => {}
                ")" => return Ok(values),
                found => return Err(format!("found '{found}', expected: ',' or ')'")),
            }
        }
    }

    /// What stands after a `=`: a value or nothing.
    fn value(&mut self) -> Result<BTreeSet<String>, String> {
        let value = match self.peek() {
            "" | "," => "",
            word if is_word(word) => self.next(),
            found => return Err(format!("found '{found}', expected: identifier")),
        };
        Ok(BTreeSet::from([value.to_owned()]))
    }
}

fn is_word(token: &str) -> bool {
    !token.is_empty() && !SYMBOLS.contains(&token)
}

fn check(field: &FieldPath, value: &str, reasons: &[String]) -> Result<(), String> {
    if reasons.is_empty() {
        return Ok(());
    }
    Err(FieldError::invalid(field, &json!(value), &reasons.join("; ")).to_string())
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
            ("app in ()", false),
            ("in in (x)", false),
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
        let cases = [
            ("app in web", "unable to parse requirement: found 'web' expected: '('"),
            ("app in", "unable to parse requirement: found '' expected: '('"),
            ("app in (a b)", "unable to parse requirement: found 'b', expected: ',' or ')'"),
            ("=x", "found '=', expected: !, identifier, or 'end of string'"),
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("app,,tier", "found ',', expected: identifier after ','"),
            ("app=a b", "found 'b', expected: ',' or 'end of string'"),
            (
                "a within (1)",
                "unable to parse requirement: found 'within', expected: in, notin, =, ==, !=, gt, lt",
            ),
            (
                "size>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            (
                "-n=1",
                "unable to parse requirement: <nil>: Invalid value: \"-n\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
            (
                "n=-x-",
                "unable to parse requirement: values[0][n]: Invalid value: \"-x-\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            ),
        ];
        for (selector, message) in cases {
            let error = LabelSelector::parse(selector).unwrap_err();
            assert_eq!((error.code.as_u16(), error.message.as_str()), (400, message), "{selector}");
        }
    }
}
