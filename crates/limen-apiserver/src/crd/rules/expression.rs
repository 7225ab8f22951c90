//! Parsing expressions, and looking into them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::thread;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{EntryExpr, Expr};
use kube_cel::cel::parser::Parser;

/// How long an expression may be.
const LONGEST: usize = 16 * 1024;
/// How deeply brackets may be nested in it.
const DEEPEST: u16 = 48;
/// How many operations may wait for each other, which is more: in `a + b + c`, each waits for the
/// one before. Whatever walks an expression relies on this.
const LONGEST_CHAIN: usize = 250;
/// What the parser may use of the stack. Made from a grammar, it calls itself a dozen times for each
/// level, which is more than the threads of a server are made for if it is not optimised.
const STACK: usize = 32 * 1024 * 1024;
/// How many expressions a thread remembers before it forgets them all.
const REMEMBERED: usize = 1024;

type Parsed = Result<Rc<IdedExpr>, String>;

thread_local! {
    static PARSED: RefCell<HashMap<String, Parsed>> = RefCell::default();
}

/// The expression that a text is, or what is wrong with it.
pub(super) fn parse(source: &str) -> Parsed {
    if source.len() > LONGEST {
        let size = source.chars().count();
        return Err(format!(
            "ERROR: <input>:-1:0: expression code point size exceeds limit: size: {size}, limit {LONGEST}"
        ));
    }
    if let Some(known) = PARSED.with_borrow(|parsed| parsed.get(source).cloned()) {
        return known;
    }
    let parsed = parse_anew(source);
    PARSED.with_borrow_mut(|remembered| {
        if remembered.len() >= REMEMBERED {
            remembered.clear();
        }
        remembered.insert(source.to_owned(), parsed.clone());
    });
    parsed
}

fn parse_anew(source: &str) -> Parsed {
    if bracket_depth(source) > usize::from(DEEPEST) {
        return Err(too_deep(usize::from(DEEPEST)));
    }
    let roomy = thread::Builder::new().name("expression parser".to_owned()).stack_size(STACK);
    let parsed = thread::scope(|threads| {
        let parsing = roomy.spawn_scoped(threads, || parse_here(source));
        parsing.map(thread::ScopedJoinHandle::join)
    });
    match parsed {
        Ok(Ok(parsed)) => parsed.map(Rc::new),
        // The parser gives up on some texts by panicking.
        Ok(Err(_)) => Err(UNSUPPORTED.to_owned()),
        Err(error) => Err(format!("ERROR: <input>:1:1: the parser could not be started: {error}")),
    }
}

const UNSUPPORTED: &str = "ERROR: <input>:1:1: unsupported expression";

fn too_deep(limit: usize) -> String {
    format!("ERROR: <input>:-1:0: expression recursion limit exceeded: {limit}")
}

/// Parses on this thread, and drops here what is too deep to be dropped elsewhere.
fn parse_here(source: &str) -> Result<IdedExpr, String> {
    let parser = Parser::new().enable_optional_syntax(true).max_recursion_depth(DEEPEST);
    let parsed = parser.parse(source);
    let expression =
        parsed.map_err(|errors| errors.to_string().trim_end().replace("\n| ", "\n | "))?;
    if chain_length(&expression) > LONGEST_CHAIN {
        return Err(too_deep(LONGEST_CHAIN));
    }
    if is_whole(&expression) { Ok(expression) } else { Err(UNSUPPORTED.to_owned()) }
}

/// How deeply brackets are nested, outside of quoted texts. The parser has a limit of its own, but
/// takes very long to make sense of what is beyond it.
fn bracket_depth(source: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut quote = None;
    let mut characters = source.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(_), '\\') => drop(characters.next()),
            (Some(open), character) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// How many operations wait for each other at most. It is counted without recursion, since it is
/// what bounds recursion.
fn chain_length(expression: &IdedExpr) -> usize {
    let mut longest = 0;
    let mut pending = vec![(expression, 1)];
    while let Some((expression, length)) = pending.pop() {
        longest = longest.max(length);
        pending.extend(parts(expression).into_iter().map(|part| (part, length + 1)));
    }
    longest
}

/// Whether an expression has nothing in it that cannot be evaluated.
fn is_whole(expression: &IdedExpr) -> bool {
    !matches!(expression.expr, Expr::Unspecified | Expr::Struct(_))
        && parts(expression).into_iter().all(is_whole)
}

/// The expressions right inside of one.
pub(super) fn parts(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map
            .entries
            .iter()
            .flat_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
                EntryExpr::StructField(field) => vec![&field.value],
            })
            .collect(),
        Expr::Comprehension(loops) => vec![
            &loops.iter_range,
            &loops.accu_init,
            &loops.loop_cond,
            &loops.loop_step,
            &loops.result,
        ],
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) => Vec::new(),
    }
}

/// Whether an expression uses a variable.
pub(super) fn mentions(expression: &IdedExpr, variable: &str) -> bool {
    matches!(&expression.expr, Expr::Ident(name) if name == variable)
        || parts(expression).into_iter().any(|part| mentions(part, variable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_texts_do_not_count() {
        let cases = [
            ("self", 0),
            ("f(a[0])", 2),
            ("(a) + (b)", 1),
            ("'((('", 0),
            (r"'\'(((' + (a)", 1),
            (r#""'(" + '"(' + {1: [2]}"#, 2),
            ("))(", 1),
        ];
        for (source, expected) in cases {
            assert_eq!(bracket_depth(source), expected, "{source}");
        }
    }

    #[test]
    fn long_chains_are_refused() {
        let sum = |terms: usize| vec!["1"; terms].join(" + ");
        assert!(parse(&sum(200)).is_ok());
        let expected = "ERROR: <input>:-1:0: expression recursion limit exceeded: 250";
        assert_eq!(parse(&sum(300)).unwrap_err(), expected);
    }
}
