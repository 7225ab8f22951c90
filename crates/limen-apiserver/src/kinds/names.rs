//! The forms that names, labels, keys and ports take, with what to say of one that is not so.
//!
//! Each function gives the reasons why a value is not of a form, in the words of Kubernetes; none
//! means that it is. The limit on a length is told in characters or in bytes depending on which
//! part of Kubernetes says it, so both are here.

use serde_json::Value;

use crate::field_error::{FieldError, FieldPath};

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
    alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const NAME_PART: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// Adds an error for each reason why a value is not of a form.
pub(super) fn check(
    errors: &mut Vec<FieldError>,
    field: &FieldPath,
    value: impl Into<Value>,
    reasons: Vec<String>,
) {
    let value = value.into();
    errors.extend(reasons.into_iter().map(|reason| FieldError::invalid(field, &value, &reason)));
}

/// A DNS subdomain, as most names are.
pub(super) fn subdomain(value: &str) -> Vec<String> {
    let mut reasons = too_long(value, 253, "characters");
    if !is_subdomain(value) {
        reasons.push(not_of_form(SUBDOMAIN_TEXT, SUBDOMAIN, &["example.com"]));
    }
    reasons
}

/// A DNS label, as namespace names are.
pub(super) fn label(value: &str) -> Vec<String> {
    let mut reasons = too_long(value, 63, "characters");
    if !is_label(value) {
        reasons.push(if is_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            let text = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
                characters or '-', and must start and end with an alphanumeric character";
            not_of_form(text, LABEL, &["my-name", "123-abc"])
        });
    }
    reasons
}

/// A DNS label that starts with a letter.
pub(super) fn rfc1035_label(value: &str) -> Vec<String> {
    let mut reasons = too_long(value, 63, "characters");
    if !is_label(value) || value.starts_with(|c: char| c.is_ascii_digit()) {
        let text = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', \
            start with an alphabetic character, and end with an alphanumeric character";
        reasons.push(not_of_form(text, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    reasons
}

/// A DNS subdomain whose first label is `*`.
pub(super) fn wildcard_subdomain(value: &str) -> Vec<String> {
    let mut reasons = too_long(value, 253, "characters");
    if !value.strip_prefix("*.").is_some_and(is_subdomain) {
        let text = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS \
            subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and \
            end with an alphanumeric character";
        reasons.push(not_of_form(text, &format!(r"\*\.{SUBDOMAIN}"), &["*.example.com"]));
    }
    reasons
}

/// Something that can be one segment of a URL's path.
pub(super) fn path_segment(value: &str) -> Vec<String> {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    path_segment_prefix(value)
}

/// Something that a segment of a URL's path can begin with.
pub(super) fn path_segment_prefix(value: &str) -> Vec<String> {
    let banned = ["/", "%"].into_iter().filter(|part| value.contains(part));
    banned.map(|part| format!("may not contain '{part}'")).collect()
}

/// A label's key: a name with or without a domain before it.
pub(crate) fn label_key(value: &str) -> Vec<String> {
    let text = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
        with an alphanumeric character";
    let examples = &["MyName", "my.name", "123-abc"];
    let mut reasons = Vec::new();
    let name = match value.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        ["", name] => {
            reasons.push("prefix part must be non-empty".to_owned());
            name
        }
        [prefix, name] => {
            let mut prefix_reasons = too_long(prefix, 253, "bytes");
            if !is_subdomain(prefix) {
                prefix_reasons.push(not_of_form(SUBDOMAIN_TEXT, SUBDOMAIN, &["example.com"]));
            }
            reasons.extend(prefix_reasons.iter().map(|reason| format!("prefix part {reason}")));
            name
        }
        _ => {
            let form = not_of_form(text, NAME_PART, examples);
            return vec![format!(
                "a valid label key {form} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        reasons.push("name part must be non-empty".to_owned());
    }
    reasons.extend(too_long(name, 63, "bytes").iter().map(|reason| format!("name part {reason}")));
    if !is_name_part(name) {
        reasons.push(format!("name part {}", not_of_form(text, NAME_PART, examples)));
    }
    reasons
}

/// A label's value.
pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut reasons = too_long(value, 63, "bytes");
    if !value.is_empty() && !is_name_part(value) {
        let text = "a valid label must be an empty string or consist of alphanumeric characters, \
            '-', '_' or '.', and must start and end with an alphanumeric character";
        let form = format!("({NAME_PART})?");
        reasons.push(not_of_form(text, &form, &["MyValue", "my_value", "12345"]));
    }
    reasons
}

/// A key in the data of a ConfigMap or a Secret.
pub(super) fn config_key(value: &str) -> Vec<String> {
    let mut reasons = too_long(value, 253, "characters");
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    if value.is_empty() || !value.bytes().all(allowed) {
        let text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        let examples = &["key.name", "KEY_NAME", "key-name"];
        reasons.push(not_of_form(text, "[-._a-zA-Z0-9]+", examples));
    }
    match value {
        "." => reasons.push("must not be '.'".to_owned()),
        ".." => reasons.push("must not be '..'".to_owned()),
        value if value.starts_with("..") => reasons.push("must not start with '..'".to_owned()),
        _ => {}
    }
    reasons
}

/// The name of an environment variable.
pub(super) fn variable_name(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if value.bytes().all(|b| (b == b' ' || b.is_ascii_graphic()) && b != b'=') {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other \
         than '='"
            .to_owned(),
    ]
}

/// A port's number.
pub(super) fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

/// A number between two others.
pub(super) fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) {
        return Vec::new();
    }
    vec![format!("must be between {low} and {high}, inclusive")]
}

/// A port's name.
pub(super) fn port_name(value: &str) -> Vec<String> {
    let rules = [
        (value.len() > 15, "must be no more than 15 characters"),
        (
            value.is_empty()
                || !value
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!value.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        (value.contains("--"), "must not contain consecutive hyphens"),
        (value.starts_with('-') || value.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    rules.iter().filter(|(broken, _)| *broken).map(|(_, reason)| (*reason).to_owned()).collect()
}

/// A percentage.
pub(super) fn percent(value: &str) -> Vec<String> {
    let digits = value.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Vec::new();
    }
    let text = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![not_of_form(text, "[0-9]+%", &["1%", "93%"])]
}

/// What says that a text does not match an expression.
pub(super) fn not_of_form(text: &str, expression: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    match examples.join(" or ").as_str() {
        "" => format!("{text} (regex used for validation is '{expression}')"),
        examples => format!("{text} (e.g. {examples}regex used for validation is '{expression}')"),
    }
}

fn too_long(value: &str, limit: usize, unit: &str) -> Vec<String> {
    if value.len() <= limit {
        return Vec::new();
    }
    vec![format!("must be no more than {limit} {unit}")]
}

fn is_label(value: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = value.as_bytes();
    bytes.first().is_some_and(|b| alphanumeric(*b))
        && bytes.last().is_some_and(|b| alphanumeric(*b))
        && bytes.iter().all(|b| alphanumeric(*b) || *b == b'-')
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

fn is_name_part(value: &str) -> bool {
    let bytes = value.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}
