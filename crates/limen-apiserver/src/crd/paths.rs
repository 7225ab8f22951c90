//! Paths that a definition names fields by: simple JSON paths, and paths that its schema knows.

use serde_json::Value;

use super::schema_json::{additional, has_additional};
use crate::field_error::FieldPath;

/// What is wrong with a path such as `.spec.replicas`.
pub(super) fn simple(path: &str) -> Option<&'static str> {
    match path.as_bytes() {
        [] => Some("must not be empty"),
        [b'.', ..] => None,
        _ => Some("must be a simple json path starting with ."),
    }
}

/// Where a path leads in a schema, with the path as messages write it; or why it leads nowhere.
pub(super) fn find<'a>(
    path: &str,
    schema: &'a Value,
    brackets: bool,
) -> Result<(FieldPath, &'a Value), String> {
    let mut tokens = tokens(path).into_iter();
    let mut found = FieldPath::root();
    let mut at = schema;
    while let Some(token) = tokens.next() {
        let name = match token {
            "." => tokens.next().ok_or("unexpected end of JSON path")?.to_owned(),
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or("unexpected end of JSON path")?;
                let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let inner = inner
                    .ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                let name = unescaped(inner)?;
                match tokens.next() {
                    Some("]") => name,
                    Some(other) => return Err(format!("expected ] but got {other}")),
                    None => return Err("unexpected end of JSON path".to_owned()),
                }
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        (found, at) = step(&found, at, &name).ok_or("does not refer to a valid field")?;
    }
    Ok((found, at))
}

/// The names that a path goes through; none if it is not a path.
pub(super) fn names(path: &str) -> Option<Vec<String>> {
    let mut tokens = tokens(path).into_iter();
    let mut names = Vec::new();
    while let Some(token) = tokens.next() {
        let name = tokens.next()?;
        match token {
            "." => names.push(name.to_owned()),
            "[" => {
                let inner = name.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''))?;
                names.push(unescaped(inner).ok()?);
                tokens.next().filter(|token| *token == "]")?;
            }
            _ => return None,
        }
    }
    Some(names)
}

fn step<'a>(found: &FieldPath, schema: &'a Value, name: &str) -> Option<(FieldPath, &'a Value)> {
    let named = schema.get("properties").and_then(Value::as_object).filter(|all| !all.is_empty());
    match named {
        Some(fields) => Some((found.child(name), fields.get(name)?)),
        None if has_additional(schema) => Some((found.key(name), additional(schema)?)),
        None => None,
    }
}

/// Splits at `.`, `[` and `]`, which are tokens themselves; a quoted text is one token.
fn tokens(path: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let length = if rest.starts_with('\'') {
            quoted_length(rest)
        } else if rest.starts_with(['.', '[', ']']) {
            1
        } else {
            rest.find(['.', '[', ']']).unwrap_or(rest.len())
        };
        tokens.push(&rest[..length]);
        rest = &rest[length..];
    }
    tokens
}

fn quoted_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let end = (1..bytes.len()).find(|n| bytes[*n] == b'\'' && bytes[n - 1] != b'\\');
    end.map_or(text.len(), |end| end + 1)
}

fn unescaped(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some(c @ ('\'' | '\\')) => c,
            Some(c) => return Err(format!("invalid string literal: invalid escape char \\{c}")),
            None => '\\',
        });
    }
    Ok(out)
}
