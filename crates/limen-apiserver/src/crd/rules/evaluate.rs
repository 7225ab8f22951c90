//! Evaluating expressions, with a meter running.
//!
//! Values are shared rather than copied, so looking at a field of a large object costs one unit
//! however large it is. Errors are values, as CEL has it: `false && 1/0 > 0` is false.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, SelectExpr, operators,
};
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{IdedExpr, Value};

use super::functions::{self, call, cost, size};
use super::meter::Meter;
use super::operators::{arithmetic, compare, equal, index, inside, is_binary, key};
use super::values::optional;
use crate::crd::go_regex;

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It makes no sense for these values.
    Error(String),
    /// It would be too much work.
    Exhausted,
}

pub(super) type Evaluated = Result<Value, Fault>;

/// What an expression is for these variables.
pub(super) fn evaluate(
    expression: &IdedExpr,
    variables: Vec<(String, Value)>,
    meter: &mut Meter,
) -> Evaluated {
    let scope = variables.into_iter().map(|(name, value)| (name, Ok(value))).collect();
    let mut evaluator = Evaluator { scope, meter };
    // The functions called are not ours, and some give up on odd values by panicking.
    catch_unwind(AssertUnwindSafe(|| evaluator.value(expression)))
        .unwrap_or_else(|_| error("no such overload"))
}

pub(super) fn error(message: impl Into<String>) -> Evaluated {
    Err(Fault::Error(message.into()))
}

pub(super) fn no_overload() -> Evaluated {
    error("no such overload")
}

struct Evaluator<'m> {
    scope: Vec<(String, Evaluated)>,
    meter: &'m mut Meter,
}

impl Evaluator<'_> {
    fn take(&mut self, cost: u64) -> Result<(), Fault> {
        if self.meter.take(cost) { Ok(()) } else { Err(Fault::Exhausted) }
    }

    fn variable(&self, name: &str) -> Option<&Evaluated> {
        self.scope.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn value(&mut self, expression: &IdedExpr) -> Evaluated {
        self.take(1)?;
        match &expression.expr {
            Expr::Literal(literal) => Ok(match literal {
                LiteralValue::Boolean(value) => Value::Bool(*value.inner()),
                LiteralValue::Bytes(value) => Value::Bytes(Arc::new(value.inner().to_vec())),
                LiteralValue::Double(value) => Value::Float(*value.inner()),
                LiteralValue::Int(value) => Value::Int(*value.inner()),
                LiteralValue::Null => Value::Null,
                LiteralValue::String(value) => functions::text(value.inner()),
                LiteralValue::UInt(value) => Value::UInt(*value.inner()),
            }),
            Expr::Ident(name) => match self.variable(name) {
                Some(value) => value.clone(),
                None => functions::type_named(name)
                    .map_or_else(|| error(format!("no such attribute(s): {name}")), Ok),
            },
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let mut items = Vec::with_capacity(list.elements.len());
                for (n, element) in list.elements.iter().enumerate() {
                    let value = self.value(element)?;
                    match inside(&value).filter(|_| list.optional_indices.contains(&n)) {
                        Some(inner) => items.extend(inner.cloned()),
                        None => items.push(value),
                    }
                }
                Ok(Value::List(Arc::new(items)))
            }
            Expr::Map(map) => {
                let mut made = HashMap::with_capacity(map.entries.len());
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { return no_overload() };
                    let key = key(&self.value(&entry.key)?)?;
                    let value = self.value(&entry.value)?;
                    match inside(&value).filter(|_| entry.optional) {
                        Some(Some(inner)) => drop(made.insert(key, inner.clone())),
                        Some(None) => {}
                        None => drop(made.insert(key, value)),
                    }
                }
                Ok(Value::Map(Map { map: Arc::new(made) }))
            }
            Expr::Comprehension(loops) => self.comprehension(loops),
            Expr::Struct(_) | Expr::Unspecified => no_overload(),
        }
    }

    fn truth(&mut self, expression: &IdedExpr) -> Result<bool, Fault> {
        match self.value(expression)? {
            Value::Bool(value) => Ok(value),
            _ => Err(Fault::Error("no such overload".to_owned())),
        }
    }

    fn select(&mut self, select: &SelectExpr) -> Evaluated {
        let operand = self.value(&select.operand)?;
        let name = Key::String(Arc::new(select.field.clone()));
        if let Some(inner) = inside(&operand) {
            let found = match inner {
                Some(Value::Map(map)) => map.map.get(&name).cloned(),
                _ => None,
            };
            return Ok(if select.test { Value::Bool(found.is_some()) } else { optional(found) });
        }
        let Value::Map(map) = operand else { return no_overload() };
        match map.map.get(&name) {
            found if select.test => Ok(Value::Bool(found.is_some())),
            Some(found) => Ok(found.clone()),
            None => error(format!("no such key: {}", select.field)),
        }
    }

    fn call(&mut self, call: &CallExpr) -> Evaluated {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => {
                if self.truth(condition)? {
                    self.value(yes)
                } else {
                    self.value(no)
                }
            }
            (operators::LOGICAL_AND, [left, right]) => self.logical(left, right, false),
            (operators::LOGICAL_OR, [left, right]) => self.logical(left, right, true),
            (operators::LOGICAL_NOT, [value]) => Ok(Value::Bool(!self.truth(value)?)),
            (operators::NOT_STRICTLY_FALSE, [value]) => match self.truth(value) {
                Err(Fault::Exhausted) => Err(Fault::Exhausted),
                truth => Ok(Value::Bool(truth.unwrap_or(true))),
            },
            (operators::NEGATE, [value]) => match self.value(value)? {
                Value::Int(value) => value
                    .checked_neg()
                    .map(Value::Int)
                    .map_or_else(|| error("integer overflow"), Ok),
                Value::Float(value) => Ok(Value::Float(-value)),
                _ => no_overload(),
            },
            (operators::OPT_SELECT, [operand, field]) => {
                let operand = self.value(operand)?;
                let field = self.value(field)?;
                let operand =
                    inside(&operand).map_or(Some(operand.clone()), Option::<&Value>::cloned);
                Ok(optional(operand.and_then(|operand| index(&operand, &field).ok())))
            }
            (name @ (operators::INDEX | operators::OPT_INDEX), [operand, at]) => {
                let operand = self.value(operand)?;
                let at = self.value(at)?;
                match inside(&operand) {
                    Some(inner) => Ok(optional(inner.and_then(|inner| index(inner, &at).ok()))),
                    None if name == operators::OPT_INDEX => Ok(optional(index(&operand, &at).ok())),
                    None => index(&operand, &at),
                }
            }
            (name, [left, right]) if is_binary(name) => {
                let left = self.value(left)?;
                let right = self.value(right)?;
                self.binary(name, left, right)
            }
            _ => self.function(call),
        }
    }

    /// `decisive` is the value that decides, whatever is on the other side.
    fn logical(&mut self, left: &IdedExpr, right: &IdedExpr, decisive: bool) -> Evaluated {
        let left = self.truth(left);
        if left == Ok(decisive) {
            return Ok(Value::Bool(decisive));
        }
        if left == Err(Fault::Exhausted) {
            return Err(Fault::Exhausted);
        }
        match self.truth(right) {
            Ok(value) if value == decisive => Ok(Value::Bool(decisive)),
            Err(Fault::Exhausted) => Err(Fault::Exhausted),
            right => left.and(right).map(Value::Bool),
        }
    }

    fn binary(&mut self, name: &str, left: Value, right: Value) -> Evaluated {
        let copies = matches!(
            (&left, name),
            (Value::String(_) | Value::Bytes(_) | Value::List(_), operators::ADD)
        );
        let compares = matches!(name, operators::EQUALS | operators::NOT_EQUALS | operators::IN);
        if copies || compares || matches!(left, Value::String(_) | Value::Bytes(_)) {
            let both = if compares { size(&left).min(size(&right)).max(1) } else { size(&left) };
            self.take(if name == operators::IN { size(&right) } else { both })?;
        }
        match name {
            operators::EQUALS => Ok(Value::Bool(equal(&left, &right))),
            operators::NOT_EQUALS => Ok(Value::Bool(!equal(&left, &right))),
            operators::IN => match &right {
                Value::List(items) => Ok(Value::Bool(items.iter().any(|item| equal(item, &left)))),
                Value::Map(map) => {
                    Ok(Value::Bool(key(&left).is_ok_and(|key| map.map.contains_key(&key))))
                }
                _ => no_overload(),
            },
            operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS => {
                let Some(order) = compare(&left, &right) else { return no_overload() };
                Ok(Value::Bool(match name {
                    operators::LESS => order == Ordering::Less,
                    operators::LESS_EQUALS => order != Ordering::Greater,
                    operators::GREATER => order == Ordering::Greater,
                    _ => order != Ordering::Less,
                }))
            }
            name => arithmetic(name, left, right),
        }
    }

    fn function(&mut self, called: &CallExpr) -> Evaluated {
        let name = called.func_name.as_str();
        if let Some(result) = self.macros(called) {
            return result;
        }
        let namespace = match called.target.as_deref().map(|target| &target.expr) {
            Some(Expr::Ident(prefix)) if self.variable(prefix).is_none() => Some(prefix.as_str()),
            _ => None,
        };
        let target = match called.target.as_deref() {
            Some(target) if namespace.is_none() => Some(self.value(target)?),
            _ => None,
        };
        let mut args = Vec::with_capacity(called.args.len());
        for arg in &called.args {
            args.push(self.value(arg)?);
        }
        match (name, target.as_ref().or(args.first()), args.last()) {
            ("size", Some(Value::List(items)), _) => return Ok(Value::Int(items.len() as i64)),
            ("size", Some(Value::Map(map)), _) => return Ok(Value::Int(map.map.len() as i64)),
            _ => {}
        }
        self.take(cost(name, namespace, target.as_ref(), &args))?;
        match (name, &target, args.as_slice()) {
            ("matches", Some(Value::String(text)), [Value::String(pattern)])
            | ("matches", None, [Value::String(text), Value::String(pattern)]) => {
                match go_regex::compile(pattern) {
                    Ok(regex) => Ok(Value::Bool(regex.is_match(text))),
                    Err(why) => error(why),
                }
            }
            ("dyn", None, [value]) => Ok(value.clone()),
            ("type", None, [value]) => Ok(functions::type_of(value)),
            ("bool", None, [value @ Value::Bool(_)]) => Ok(value.clone()),
            ("bool", None, [Value::String(text)]) => match text.as_str() {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
                _ => error("type conversion error from 'string' to 'bool'"),
            },
            _ => call(name, namespace, target.as_ref(), &args).map_err(Fault::Error),
        }
    }

    /// What looks like a call but binds variables, beyond what the parser knows.
    fn macros(&mut self, called: &CallExpr) -> Option<Evaluated> {
        let ident = |n: usize| match called.args.get(n).map(|arg| &arg.expr) {
            Some(Expr::Ident(name)) => Some(name.clone()),
            _ => None,
        };
        let target = called.target.as_deref()?;
        match (called.func_name.as_str(), called.args.len()) {
            ("sortBy", 2) => {
                let name = ident(0)?;
                Some(self.sorted(target, &name, &called.args[1]))
            }
            (name @ ("all" | "exists" | "existsOne" | "transformList"), 3) => {
                let names = (ident(0)?, ident(1)?);
                Some(self.pairs(name, target, (&names.0, &names.1), &called.args[2]))
            }
            (name @ ("optMap" | "optFlatMap"), 2) => {
                let variable = ident(0)?;
                let value = match self.value(target) {
                    Ok(value) => value,
                    Err(fault) => return Some(Err(fault)),
                };
                let inner = inside(&value)?.cloned();
                Some(match inner {
                    None => Ok(optional(None)),
                    Some(inner) => {
                        let body = &called.args[1];
                        let made =
                            self.with(vec![(variable, Ok(inner))], |inner| inner.value(body));
                        if name == "optMap" { made.map(|made| optional(Some(made))) } else { made }
                    }
                })
            }
            _ => None,
        }
    }

    fn with(
        &mut self,
        variables: Vec<(String, Evaluated)>,
        inner: impl FnOnce(&mut Self) -> Evaluated,
    ) -> Evaluated {
        let depth = self.scope.len();
        self.scope.extend(variables);
        let value = inner(self);
        self.scope.truncate(depth);
        value
    }

    /// A list in the order of what an expression makes of its items.
    fn sorted(&mut self, target: &IdedExpr, name: &str, by: &IdedExpr) -> Evaluated {
        let Value::List(items) = self.value(target)? else { return no_overload() };
        let mut keyed = Vec::with_capacity(items.len());
        for item in items.iter() {
            let key =
                self.with(vec![(name.to_owned(), Ok(item.clone()))], |inner| inner.value(by))?;
            self.take(size(&key).saturating_mul(u64::from(items.len().ilog2()) + 1))?;
            keyed.push((key, item.clone()));
        }
        if keyed.windows(2).any(|pair| compare(&pair[0].0, &pair[1].0).is_none()) {
            return no_overload();
        }
        keyed.sort_by(|left, right| compare(&left.0, &right.0).unwrap_or(Ordering::Equal));
        Ok(Value::List(Arc::new(keyed.into_iter().map(|(_, item)| item).collect())))
    }

    /// The loops over keys and values, or positions and items.
    fn pairs(
        &mut self,
        name: &str,
        target: &IdedExpr,
        (key_name, value_name): (&str, &str),
        body: &IdedExpr,
    ) -> Evaluated {
        let pairs: Vec<(Value, Value)> = match self.value(target)? {
            Value::List(items) => items
                .iter()
                .enumerate()
                .map(|(n, item)| (Value::Int(n as i64), item.clone()))
                .collect(),
            Value::Map(map) => {
                map.map.iter().map(|(key, value)| (Value::from(key), value.clone())).collect()
            }
            _ => return no_overload(),
        };
        let mut made = Vec::new();
        let mut hits = 0;
        let mut fault = None;
        for (key, value) in pairs {
            let variables =
                vec![(key_name.to_owned(), Ok(key)), (value_name.to_owned(), Ok(value))];
            match (name, self.with(variables, |inner| inner.value(body))) {
                (_, Err(Fault::Exhausted)) => return Err(Fault::Exhausted),
                ("all", Ok(Value::Bool(false))) => return Ok(Value::Bool(false)),
                ("exists", Ok(Value::Bool(true))) => return Ok(Value::Bool(true)),
                ("transformList", Ok(value)) => made.push(value),
                (_, Ok(Value::Bool(hit))) => hits += usize::from(hit),
                (_, Ok(_)) => return no_overload(),
                ("all" | "exists", Err(why)) => fault = Some(why),
                (_, Err(why)) => return Err(why),
            }
        }
        match (name, fault) {
            (_, Some(fault)) => Err(fault),
            ("transformList", None) => Ok(Value::List(Arc::new(made))),
            ("all", None) => Ok(Value::Bool(true)),
            ("exists", None) => Ok(Value::Bool(false)),
            (_, None) => Ok(Value::Bool(hits == 1)),
        }
    }

    fn comprehension(&mut self, loops: &ComprehensionExpr) -> Evaluated {
        let range = match self.value(&loops.iter_range)? {
            Value::List(items) => items,
            Value::Map(map) => Arc::new(map.map.keys().map(Value::from).collect()),
            _ => return no_overload(),
        };
        let depth = self.scope.len();
        let first = self.value(&loops.accu_init)?;
        self.scope.push((loops.accu_var.clone(), Ok(first)));
        self.scope.push((loops.iter_var.clone(), Ok(Value::Null)));
        let result = self.rounds(loops, &range, depth);
        self.scope.truncate(depth);
        result
    }

    fn rounds(&mut self, loops: &ComprehensionExpr, range: &[Value], depth: usize) -> Evaluated {
        for item in range {
            self.scope[depth + 1].1 = Ok(item.clone());
            if !self.truth(&loops.loop_cond)? {
                break;
            }
            self.step(&loops.loop_step, &loops.accu_var, depth)?;
        }
        self.value(&loops.result)
    }

    /// One round. Lists that a loop makes grow in place, since copying them would make long loops
    /// slow.
    fn step(&mut self, step: &IdedExpr, accumulated: &str, at: usize) -> Result<(), Fault> {
        let is_accumulated =
            |part: &IdedExpr| matches!(&part.expr, Expr::Ident(name) if name == accumulated);
        if is_accumulated(step) {
            return Ok(());
        }
        if let Expr::Call(call) = &step.expr {
            match (call.func_name.as_str(), call.args.as_slice()) {
                (operators::CONDITIONAL, [condition, yes, no]) => {
                    let chosen = match self.truth(condition) {
                        Ok(true) => yes,
                        Ok(false) => no,
                        Err(Fault::Exhausted) => return Err(Fault::Exhausted),
                        Err(fault) => {
                            self.scope[at].1 = Err(fault);
                            return Ok(());
                        }
                    };
                    return self.step(chosen, accumulated, at);
                }
                (operators::ADD, [left, right])
                    if is_accumulated(left) && matches!(right.expr, Expr::List(_)) =>
                {
                    match self.value(right) {
                        Err(Fault::Exhausted) => return Err(Fault::Exhausted),
                        Err(fault) => self.scope[at].1 = Err(fault),
                        Ok(Value::List(added)) => {
                            if let Ok(Value::List(items)) = &mut self.scope[at].1 {
                                Arc::make_mut(items).extend(added.iter().cloned());
                            }
                        }
                        Ok(_) => {}
                    }
                    return Ok(());
                }
                _ => {}
            }
        }
        let value = self.value(step);
        if value == Err(Fault::Exhausted) {
            return Err(Fault::Exhausted);
        }
        self.scope[at].1 = value;
        Ok(())
    }
}
