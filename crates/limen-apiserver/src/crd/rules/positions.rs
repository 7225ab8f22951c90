//! Where in its source a part of an expression is, for error messages.
//!
//! The parser does not tell, so the part is looked for: the first place in the source, outside of
//! quoted texts, where it is written.

/// A message about a place in a source, with the line and an arrow below it.
pub(super) fn report(source: &str, at: usize, message: &str) -> String {
    let start = source[..at].rfind('\n').map_or(0, |n| n + 1);
    let line = source[..at].matches('\n').count() + 1;
    let text = source[start..].lines().next().unwrap_or_default();
    let column = source[start..at].chars().count();
    let dots = ".".repeat(column);
    format!("ERROR: <input>:{line}:{}: {message}\n | {text}\n | {dots}^", column + 1)
}

/// Where a field is selected: its dot.
pub(super) fn selection(source: &str, field: &str) -> usize {
    find(source, |rest| {
        let after = rest.strip_prefix('.')?;
        let name = after.strip_prefix('?').unwrap_or(after).strip_prefix(field)?;
        (!continues(name)).then_some(0)
    })
}

/// Where a variable is used.
pub(super) fn variable(source: &str, name: &str) -> usize {
    let mut before = None;
    find(source, |rest| {
        let previous = before;
        before = rest.chars().next();
        let starts = !previous.is_some_and(|c: char| c.is_alphanumeric() || c == '_' || c == '.');
        (starts && rest.starts_with(name) && !continues(&rest[name.len()..])).then_some(0)
    })
}

/// Where a function is called: its bracket.
pub(super) fn call(source: &str, name: &str) -> usize {
    let mut before = None;
    find(source, |rest| {
        let previous = before;
        before = rest.chars().next();
        let starts = !previous.is_some_and(|c: char| c.is_alphanumeric() || c == '_');
        let after = rest.strip_prefix(name).filter(|_| starts)?;
        after.starts_with('(').then_some(name.len())
    })
}

/// Where an operator is.
pub(super) fn operator(source: &str, symbol: &str) -> usize {
    find(source, |rest| {
        let after = rest.strip_prefix(symbol)?;
        let longer = matches!(symbol, "<" | ">" | "!") && after.starts_with('=');
        (!longer).then_some(0)
    })
}

fn continues(rest: &str) -> bool {
    rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

fn find(source: &str, mut here: impl FnMut(&str) -> Option<usize>) -> usize {
    let mut quote = None;
    for (n, c) in source.char_indices() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, _) => {
                if let Some(offset) = here(&source[n..]) {
                    return n + offset;
                }
            }
        }
    }
    0
}
