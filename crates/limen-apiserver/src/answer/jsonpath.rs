//! The part of JSONPath that printer columns and scale paths use.
//!
//! Fields (`.spec.replicas`, `['a.b']`, `\.` for a dot in a name), positions (`[0]`), all items
//! (`[*]`) and filters by equality (`[?(@.type=="Ready")]`).

use serde_json::Value;

/// The first value that the path leads to.
pub(crate) fn first(object: &Value, path: &str) -> Option<Value> {
    let steps = parse(path)?;
    walk(object, &steps)
}

#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Filter { path: Vec<Step>, value: String, equal: bool },
}

fn walk(value: &Value, steps: &[Step]) -> Option<Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value.clone()) };
    match step {
        Step::Field(name) => walk(value.get(name)?, rest),
        Step::Index(n) => {
            let items = value.as_array()?;
            let at = if *n < 0 { i64::try_from(items.len()).ok()? + n } else { *n };
            walk(items.get(usize::try_from(at).ok()?)?, rest)
        }
        Step::All => children(value).into_iter().find_map(|item| walk(item, rest)),
        Step::Filter { path, value: wanted, equal } => children(value)
            .into_iter()
            .filter(|item| {
                let found = walk(item, path).map(|found| match found {
                    Value::String(text) => text,
                    other => other.to_string(),
                });
                found.is_some_and(|found| (found == *wanted) == *equal)
            })
            .find_map(|item| walk(item, rest)),
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let path = path.strip_prefix('{').and_then(|path| path.strip_suffix('}')).unwrap_or(path);
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = closing(inner)?;
            steps.push(bracket(&inner[..end])?);
            rest = &inner[end + 1..];
        } else {
            let field = rest.strip_prefix('.').unwrap_or(rest);
            let (name, after) = field_name(field);
            if !name.is_empty() {
                steps.push(if name == "*" { Step::All } else { Step::Field(name) });
            } else if after.len() == rest.len() {
                return None;
            }
            rest = after;
        }
    }
    Some(steps)
}

/// A name up to the next dot or bracket, with backslashes taken off what they protect.
fn field_name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => name.extend(characters.next().map(|(_, c)| c)),
            '.' | '[' => return (name, &text[at..]),
            c => name.push(c),
        }
    }
    (name, "")
}

/// Where the bracket that is open ends, not counting brackets inside quotes and parentheses.
fn closing(text: &str) -> Option<usize> {
    let (mut quote, mut depth) = (None, 0);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[') => depth += 1,
            (None, ')') => depth -= 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(inner: &str) -> Option<Step> {
    if inner == "*" {
        return Some(Step::All);
    }
    if let Some(name) = unquote(inner) {
        return Some(Step::Field(name.to_owned()));
    }
    if let Ok(n) = inner.parse() {
        return Some(Step::Index(n));
    }
    let filter = inner.strip_prefix("?(")?.strip_suffix(')')?.trim();
    let (left, right, equal) = match (filter.split_once("=="), filter.split_once("!=")) {
        (Some((left, right)), _) => (left, right, true),
        (_, Some((left, right))) => (left, right, false),
        _ => return None,
    };
    let right = right.trim();
    let value = unquote(right).unwrap_or(right).to_owned();
    Some(Step::Filter { path: parse(left.trim().strip_prefix('@')?)?, value, equal })
}

fn unquote(text: &str) -> Option<&str> {
    let quoted = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    quoted('\'').or_else(|| quoted('"'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_values() {
        let object = json!({
            "metadata": {"annotations": {"a.b/c": "x"}},
            "spec": {"replicas": 3, "ports": [{"port": 80}, {"port": 443}]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "Done", "status": "False"},
            ]},
        });
        let cases = [
            (".spec.replicas", json!(3)),
            ("{.spec.replicas}", json!(3)),
            (".spec.ports[1].port", json!(443)),
            (".spec.ports[-1].port", json!(443)),
            (".spec.ports[*].port", json!(80)),
            (".metadata.annotations.a\\.b/c", json!("x")),
            (".metadata.annotations['a.b/c']", json!("x")),
            (".status.conditions[?(@.type==\"Done\")].status", json!("False")),
            (".status.conditions[?(@.type=='Ready')].status", json!("True")),
        ];
        for (path, expected) in cases {
            assert_eq!(first(&object, path), Some(expected), "{path}");
        }
        for path in [".spec.absent", ".spec.ports[7]", ".spec[", ".status.conditions[?(x)]", "[}"] {
            assert_eq!(first(&object, path), None, "{path}");
        }
    }
}
