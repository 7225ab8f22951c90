//! The names of field managers.

use serde_json::json;

use crate::field_error::{FieldError, FieldPath};

const MAX_LENGTH: usize = 128;

/// The manager that a request without one is counted for: its User-Agent up to the first slash.
pub(crate) fn from_user_agent(user_agent: &str) -> String {
    let mut name = String::new();
    let prefix = user_agent.split('/').next().unwrap_or_default();
    for c in prefix.chars().filter(|c| is_printable(*c)) {
        if name.len() + c.len_utf8() > MAX_LENGTH {
            break;
        }
        name.push(c);
    }
    name
}

/// What is wrong with a `fieldManager`. An empty one is none.
pub(crate) fn validate(name: &str) -> Vec<FieldError> {
    let field = FieldPath::new("fieldManager");
    let mut errors = Vec::new();
    if name.len() > MAX_LENGTH {
        errors.push(FieldError::too_long(&field, MAX_LENGTH));
    }
    for (at, c) in name.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
        errors.push(FieldError::invalid(&field, &json!(name), &detail));
    }
    errors
}

/// What is wrong with the options of a patch, besides what is wrong with those of every write.
pub(crate) fn validate_for_patch(
    name: &str,
    forced: Option<bool>,
    applies: bool,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if applies && name.is_empty() {
        let field = FieldPath::new("fieldManager");
        errors.push(FieldError::required(&field, "is required for apply patch"));
    }
    if !applies && forced.is_some() {
        let detail = "may not be specified for non-apply patch";
        errors.push(FieldError::forbidden(&FieldPath::new("force"), detail));
    }
    errors.extend(validate(name));
    errors
}

/// Go counts the space among what can be printed, and no other white space.
fn is_printable(c: char) -> bool {
    c == ' ' || !(c.is_control() || c.is_whitespace() || is_format(c))
}

/// Characters that only tell how others are shown.
fn is_format(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e000}'..='\u{f8ff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_agent_names_the_manager() {
        let long = "x".repeat(200);
        let cases = [
            ("kubectl/v1.36.3 (linux/amd64)", "kubectl"),
            ("Go-http-client", "Go-http-client"),
            ("a\u{1}b c/1", "ab c"),
            ("", ""),
            (long.as_str(), &long[..128]),
        ];
        for (user_agent, manager) in cases {
            assert_eq!(from_user_agent(user_agent), manager, "{user_agent}");
        }
    }

    #[test]
    fn who_applies_must_have_a_name_and_only_apply_is_forced() {
        let message = |name: &str, forced, applies| {
            validate_for_patch(name, forced, applies).first().map(ToString::to_string)
        };
        assert_eq!(message("m", Some(true), true), None);
        assert_eq!(message("", None, false), None);
        let required = "fieldManager: Required value: is required for apply patch";
        assert_eq!(message("", None, true).as_deref(), Some(required));
        let forbidden = "force: Forbidden: may not be specified for non-apply patch";
        assert_eq!(message("m", Some(false), false).as_deref(), Some(forbidden));
    }

    #[test]
    fn a_manager_must_be_short_and_printable() {
        let message = |name: &str| validate(name).first().map(ToString::to_string);
        assert_eq!(message("kube-controller-manager"), None);
        assert_eq!(message(""), None);
        let long = "fieldManager: Too long: may not be more than 128 bytes";
        assert_eq!(message(&"x".repeat(129)).as_deref(), Some(long));
        assert!(message("a\u{1}b").unwrap().ends_with("invalid character U+0001 (at position 1)"));
    }
}
