//! Validation rules: the expressions in `x-kubernetes-validations`.
//!
//! An expression is parsed by the `cel` crate and evaluated here, not there: evaluation is metered,
//! so that no rule and no object can keep the server busy, and what `cel` would panic on is an
//! error. The functions of Kubernetes come from `kube-cel`.
//!
//! ```text
//! definition: parse ──▶ check types against the schema
//! object:     for each part of it that has rules: self, oldSelf ──▶ evaluate ──▶ errors
//! ```

mod evaluate;
mod expression;
mod functions;
mod meter;
mod operators;
mod positions;
mod typecheck;
mod types;
mod values;

use kube_cel::cel::Value as CelValue;
use serde_json::Value;

use self::evaluate::{Fault, evaluate};
use self::meter::Meter;
use super::paths;
use super::schema_json::{flag, list, present, text};
use super::values::{counterpart, unchanged};
use crate::field_error::{FieldError, FieldPath};
use crate::schema::Node;

const LONGEST_MESSAGE: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// What came of compiling a rule.
pub(super) struct Checked {
    /// What is wrong with the rule.
    pub(super) rule: Result<(), String>,
    /// What is wrong with the expression that makes its message.
    pub(super) message: Result<(), String>,
    /// Whether it compares with the value before.
    pub(super) uses_old_self: bool,
}

/// Compiles a rule for the part of a schema that it stands in. A whole object also has a type and
/// metadata that its schema need not name.
pub(super) fn check(rule: &Value, schema: &Value, whole_object: bool) -> Checked {
    let source = text(rule, "rule");
    let mut checked = Checked { rule: Ok(()), message: Ok(()), uses_old_self: false };
    let optional = flag(rule, "optionalOldSelf");
    match expression::parse(source) {
        Err(why) => {
            checked.rule = Err(format!("compilation failed: {why}"));
            return checked;
        }
        Ok(expression) => {
            checked.uses_old_self = expression::mentions(&expression, "oldSelf");
            checked.rule =
                match typecheck::check(&expression, source, schema, whole_object, optional) {
                    Err(why) => Err(format!("compilation failed: {why}")),
                    Ok(kind) if kind.may_be(&types::Type::Bool) => Ok(()),
                    Ok(_) => Err("cel expression must evaluate to a bool".to_owned()),
                };
        }
    }
    let source = text(rule, "messageExpression");
    if checked.rule.is_err() || source.is_empty() {
        return checked;
    }
    let failed = |why: String| format!("messageExpression compilation failed: {why}");
    checked.message = expression::parse(source).map_err(failed).and_then(|expression| {
        match typecheck::check(&expression, source, schema, whole_object, optional) {
            Err(why) => Err(failed(why)),
            Ok(kind) if kind.may_be(&types::Type::String) => Ok(()),
            Ok(_) => Err("messageExpression must evaluate to a string".to_owned()),
        }
    });
    checked
}

/// Whether there are rules anywhere in a schema.
pub(super) fn are_in(node: Node<'_>) -> bool {
    !list(node.raw(), "x-kubernetes-validations").is_empty()
        || node.items().is_some_and(are_in)
        || node.additional().is_some_and(are_in)
        || node.named_fields().any(|(_, field)| are_in(field))
}

/// What the rules say of a value that has the types which its schema asks for.
pub(super) fn run(
    value: &Value,
    old: Option<&Value>,
    node: Node<'_>,
    path: &FieldPath,
) -> Vec<FieldError> {
    let mut run = Run { meter: Meter::new(), errors: Vec::new() };
    let place = Place { value, old, node, nearest: None };
    // Running out of budget has been reported by whatever ran out of it.
    let _ = run.walk(&place, path);
    run.errors
}

struct Run {
    meter: Meter,
    errors: Vec<FieldError>,
}

/// No more rules are run.
struct Stop;

#[derive(Clone, Copy)]
struct Place<'a> {
    value: &'a Value,
    /// What the value was, if the schema tells which old value belongs to it.
    old: Option<&'a Value>,
    node: Node<'a>,
    /// The closest part around this one of which that is known.
    nearest: Option<(&'a Value, &'a Value, Node<'a>)>,
}

impl Place<'_> {
    fn is_unchanged(&self) -> bool {
        match (self.old, self.nearest) {
            (Some(old), _) => unchanged(self.value, old, self.node),
            (None, Some((value, old, node))) => unchanged(value, old, node),
            (None, None) => false,
        }
    }

    fn child<'c>(&self, value: &'c Value, old: Option<&'c Value>, node: Node<'c>) -> Place<'c>
    where
        Self: 'c,
    {
        let own = self.old.map(|old| (self.value, old, self.node));
        Place { value, old, node, nearest: own.or(self.nearest) }
    }
}

impl Run {
    fn walk<'a>(&mut self, place: &Place<'a>, path: &FieldPath) -> Result<(), Stop> {
        if place.value.is_null() {
            return Ok(());
        }
        self.rules(place, path)?;
        match place.value {
            Value::Array(items) => {
                let Some(node) = place.node.items() else { return Ok(()) };
                for (n, item) in items.iter().enumerate() {
                    let old = place.old.and_then(|old| counterpart(item, old, place.node));
                    self.walk(&place.child(item, old, node), &path.index(n))?;
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let old = place.old.and_then(|old| old.get(name)).filter(|old| !old.is_null());
                    if let Some(node) = place.node.named_field(name) {
                        self.walk(&place.child(value, old, node), &path.child(name))?;
                    } else if let Some(node) = place.node.additional() {
                        self.walk(&place.child(value, old, node), &path.key(name))?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rules(&mut self, place: &Place<'_>, path: &FieldPath) -> Result<(), Stop> {
        let rules = list(place.node.raw(), "x-kubernetes-validations");
        if rules.is_empty() {
            return Ok(());
        }
        let own = values::from_json(place.value, Some(place.node));
        let old = place.old.map(|old| values::from_json(old, Some(place.node)));
        for rule in rules {
            self.rule(rule, place, &own, old.as_ref(), path)?;
        }
        Ok(())
    }

    fn rule(
        &mut self,
        rule: &Value,
        place: &Place<'_>,
        own: &CelValue,
        old: Option<&CelValue>,
        path: &FieldPath,
    ) -> Result<(), Stop> {
        let kind: Value = text(place.node.raw(), "type").into();
        let name = match text(rule, "message").trim() {
            "" => text(rule, "rule").trim(),
            message => message,
        };
        let expression = match expression::parse(text(rule, "rule")) {
            Ok(expression) => expression,
            Err(why) => {
                self.errors.push(FieldError::invalid(
                    path,
                    &kind,
                    &format!("rule compile error: {why}"),
                ));
                return Ok(());
            }
        };
        let optional = flag(rule, "optionalOldSelf");
        let uses_old = expression::mentions(&expression, "oldSelf");
        if uses_old && old.is_none() && !optional {
            return Ok(());
        }
        if self.meter.is_empty() {
            self.errors.push(FieldError::invalid(path, &kind, OUT_OF_BUDGET));
            return Err(Stop);
        }
        let mut variables = vec![("self".to_owned(), own.clone())];
        if optional {
            variables.push(("oldSelf".to_owned(), values::optional(old.cloned())));
        } else if let Some(old) = old {
            variables.push(("oldSelf".to_owned(), old.clone()));
        }
        self.meter.begin();
        let detail = match evaluate(&expression, variables.clone(), &mut self.meter) {
            Ok(CelValue::Bool(true)) => return Ok(()),
            Ok(_) => None,
            Err(Fault::Exhausted) => {
                let detail = if self.meter.is_empty() {
                    OUT_OF_BUDGET.to_owned()
                } else {
                    format!(
                        "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
                    )
                };
                self.errors.push(FieldError::invalid(path, &kind, &detail));
                return Err(Stop);
            }
            Err(Fault::Error(why)) if why.starts_with("no such overload") => Some(format!(
                "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
            )),
            Err(Fault::Error(why)) => Some(format!("{why} evaluating rule: {name}")),
        };
        if let Some(detail) = detail {
            self.errors.push(FieldError::invalid(path, &kind, &detail));
            return Ok(());
        }
        let detail = self.message(rule, variables, path, &kind)?;
        if uses_old || !place.is_unchanged() {
            self.errors.push(broken(rule, place, path, &detail));
        }
        Ok(())
    }

    /// What to say of a broken rule.
    fn message(
        &mut self,
        rule: &Value,
        variables: Vec<(String, CelValue)>,
        path: &FieldPath,
        kind: &Value,
    ) -> Result<String, Stop> {
        let plain = match text(rule, "message").trim() {
            "" => format!("failed rule: {}", text(rule, "rule").trim()),
            message => message.to_owned(),
        };
        let source = text(rule, "messageExpression");
        let Ok(expression) = expression::parse(source) else { return Ok(plain) };
        self.meter.begin();
        match evaluate(&expression, variables, &mut self.meter) {
            Ok(CelValue::String(message)) => {
                let message = message.trim();
                let usable = !message.is_empty()
                    && message.len() <= LONGEST_MESSAGE
                    && !message.contains('\n');
                Ok(if usable { message.to_owned() } else { plain })
            }
            Err(Fault::Exhausted) => {
                let detail = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
                self.errors.push(FieldError::invalid(path, kind, detail));
                Err(Stop)
            }
            Ok(_) | Err(Fault::Error(_)) => Ok(plain),
        }
    }
}

fn broken(rule: &Value, place: &Place<'_>, path: &FieldPath, detail: &str) -> FieldError {
    let field = text(rule, "fieldPath");
    let path = match field_path(field, place.node) {
        Some(inner) => path.child(&inner),
        None => path.clone(),
    };
    let hidden = matches!(text(place.node.raw(), "type"), "object" | "array");
    match present(rule, "reason").and_then(Value::as_str) {
        Some("FieldValueForbidden") => FieldError::forbidden(&path, detail),
        Some("FieldValueRequired") => FieldError::required(&path, detail),
        Some("FieldValueDuplicate") if hidden => FieldError::duplicate_hidden(&path),
        Some("FieldValueDuplicate") => FieldError::duplicate(&path, place.value),
        _ if hidden => FieldError::invalid_hidden(&path, detail),
        _ => FieldError::invalid(&path, place.value, detail),
    }
}

/// The field that a rule is about, relative to where the rule stands.
fn field_path(path: &str, node: Node<'_>) -> Option<String> {
    if path.is_empty() {
        return None;
    }
    let names = paths::names(path)?;
    let mut found = FieldPath::root();
    let mut at = node;
    for name in names {
        let named = at.named_field(&name);
        found = if named.is_some() { found.child(&name) } else { found.key(&name) };
        at = at.field(&name)?;
    }
    Some(found.to_string())
}
