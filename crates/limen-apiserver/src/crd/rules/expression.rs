//! Parsing expressions, and looking into them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{EntryExpr, Expr};
use kube_cel::cel::parser::Parser;

/// How long an expression may be.
const LONGEST: usize = 16 * 1024;
/// How deeply it may be nested. The parser needs much stack for each level.
const DEEPEST: u16 = 48;
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
    let parser = Parser::new().enable_optional_syntax(true).max_recursion_depth(DEEPEST);
    // The parser is made from a grammar and gives up on some texts by panicking.
    let parsed = catch_unwind(AssertUnwindSafe(|| parser.parse(source)));
    match parsed {
        Ok(Ok(expression)) if is_whole(&expression) => Ok(Rc::new(expression)),
        Ok(Ok(_)) | Err(_) => Err("ERROR: <input>:1:1: unsupported expression".to_owned()),
        Ok(Err(errors)) => Err(errors.to_string().trim_end().replace("\n| ", "\n | ")),
    }
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
