//! Whether an expression makes sense for a schema: its variables are known, the fields that it
//! selects are there, and its operators fit what they stand between.
//!
//! Less is known than cel-go knows (functions are told apart by name only), so what cannot be told
//! passes here and is an error when it runs.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, SelectExpr, operators,
};
use serde_json::Value;

use super::positions::{self, report};
use super::types::Type;

const NAMESPACES: &[&str] = &["format", "ip", "lists", "optional", "sets", "strings"];
const GLOBALS: &[&str] = &[
    "bool",
    "bytes",
    "cidr",
    "double",
    "duration",
    "dyn",
    "int",
    "ip",
    "isCIDR",
    "isIP",
    "isQuantity",
    "isSemver",
    "isURL",
    "matches",
    "quantity",
    "semver",
    "size",
    "string",
    "timestamp",
    "type",
    "uint",
    "url",
];
const TYPE_NAMES: &[&str] =
    &["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];
/// Methods that only strings have.
const TEXT_METHODS: &[&str] = &[
    "charAt",
    "contains",
    "endsWith",
    "find",
    "findAll",
    "lowerAscii",
    "matches",
    "replace",
    "split",
    "startsWith",
    "substring",
    "trim",
    "upperAscii",
];
const TRUTHS: &[&str] = &[
    "containsCIDR",
    "containsIP",
    "contains",
    "endsWith",
    "hasValue",
    "isCIDR",
    "isGlobalUnicast",
    "isGreaterThan",
    "isIP",
    "isInteger",
    "isLessThan",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isLoopback",
    "isQuantity",
    "isSemver",
    "isSorted",
    "isURL",
    "isUnspecified",
    "matches",
    "startsWith",
    "bool",
];
const WHOLE_NUMBERS: &[&str] = &[
    "asInteger",
    "compareTo",
    "family",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "indexOf",
    "int",
    "lastIndexOf",
    "major",
    "minor",
    "patch",
    "prefixLength",
    "sign",
    "size",
];
const TEXTS: &[&str] = &[
    "charAt",
    "find",
    "format",
    "getEscapedPath",
    "getHost",
    "getHostname",
    "getPort",
    "getScheme",
    "join",
    "lowerAscii",
    "replace",
    "string",
    "substring",
    "trim",
    "upperAscii",
];

/// The type of an expression whose `self` is a value of the schema; or what is wrong with it.
pub(super) fn check<'a>(
    expression: &IdedExpr,
    source: &str,
    schema: &'a Value,
    whole_object: bool,
    optional_old_self: bool,
) -> Result<Type<'a>, String> {
    let own = Type::of(schema, whole_object).unwrap_or(Type::Dyn);
    let old = if optional_old_self { Type::Optional(Box::new(own.clone())) } else { own.clone() };
    let scope = vec![("self".to_owned(), own), ("oldSelf".to_owned(), old)];
    Checker { source, scope }.kind(expression)
}

struct Checker<'a, 's> {
    source: &'s str,
    scope: Vec<(String, Type<'a>)>,
}

type Kind<'a> = Result<Type<'a>, String>;

impl<'a> Checker<'a, '_> {
    fn kind(&mut self, expression: &IdedExpr) -> Kind<'a> {
        match &expression.expr {
            Expr::Literal(literal) => Ok(match literal {
                LiteralValue::Boolean(_) => Type::Bool,
                LiteralValue::Bytes(_) => Type::Bytes,
                LiteralValue::Double(_) => Type::Double,
                LiteralValue::Int(_) => Type::Int,
                LiteralValue::Null => Type::Null,
                LiteralValue::String(_) => Type::String,
                LiteralValue::UInt(_) => Type::Uint,
            }),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let mut item: Option<Type<'a>> = None;
                for element in &list.elements {
                    let kind = self.kind(element)?;
                    item = Some(match item {
                        None => kind,
                        Some(known) if known == kind => known,
                        Some(_) => Type::Dyn,
                    });
                }
                Ok(Type::List(Box::new(item.unwrap_or(Type::Dyn))))
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.kind(&entry.key)?;
                        self.kind(&entry.value)?;
                    }
                }
                Ok(Type::Map(Box::new(Type::Dyn), Box::new(Type::Dyn)))
            }
            Expr::Comprehension(loops) => self.comprehension(loops),
            Expr::Struct(_) | Expr::Unspecified => Ok(Type::Dyn),
        }
    }

    fn variable(&self, name: &str) -> Kind<'a> {
        if let Some((_, kind)) = self.scope.iter().rev().find(|(known, _)| known == name) {
            return Ok(kind.clone());
        }
        if TYPE_NAMES.contains(&name) {
            return Ok(Type::Dyn);
        }
        let message = format!("undeclared reference to '{name}' (in container '')");
        Err(report(self.source, positions::variable(self.source, name), &message))
    }

    fn select(&mut self, select: &SelectExpr) -> Kind<'a> {
        let operand = self.kind(&select.operand)?;
        let at = || match select.test {
            true => positions::call(self.source, "has"),
            false => positions::selection(self.source, &select.field),
        };
        let field = match (operand.field(&select.field), &operand) {
            (Some(field), _) => field,
            (None, Type::Object(..) | Type::Metadata | Type::Optional(_)) => {
                let message = format!("undefined field '{}'", select.field);
                return Err(report(self.source, at(), &message));
            }
            (None, other) => {
                let message = format!("type '{other}' does not support field selection");
                return Err(report(self.source, at(), &message));
            }
        };
        Ok(if select.test { Type::Bool } else { field })
    }

    fn no_overload(&self, name: &str, at: usize, applied: &str) -> String {
        let message = format!("found no matching overload for '{name}' applied to '{applied}'");
        report(self.source, at, &message)
    }

    fn call(&mut self, call: &CallExpr) -> Kind<'a> {
        let name = call.func_name.as_str();
        match (name, call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => {
                self.kind(condition)?;
                let (yes, no) = (self.kind(yes)?, self.kind(no)?);
                Ok(if yes == no { yes } else { Type::Dyn })
            }
            (operators::NOT_STRICTLY_FALSE, [value]) => self.kind(value).map(|_| Type::Bool),
            (operators::LOGICAL_NOT, [value]) => {
                let kind = self.kind(value)?;
                if kind.may_be(&Type::Bool) {
                    return Ok(Type::Bool);
                }
                let at = positions::operator(self.source, "!");
                Err(self.no_overload(name, at, &format!("({kind})")))
            }
            (operators::NEGATE, [value]) => self.kind(value),
            (operators::OPT_SELECT, [operand, field]) => {
                let operand = self.kind(operand)?;
                let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
                    return Ok(Type::Dyn);
                };
                match operand.field(field.inner()) {
                    Some(field @ Type::Optional(_)) => Ok(field),
                    Some(field) => Ok(Type::Optional(Box::new(field))),
                    None => {
                        let message = format!("undefined field '{}'", field.inner());
                        let at = positions::selection(self.source, field.inner());
                        Err(report(self.source, at, &message))
                    }
                }
            }
            (operators::INDEX | operators::OPT_INDEX, [operand, at]) => {
                let operand = self.kind(operand)?;
                self.kind(at)?;
                let optional = name == operators::OPT_INDEX;
                let item =
                    |kind: Type<'a>| if optional { Type::Optional(Box::new(kind)) } else { kind };
                Ok(match operand {
                    Type::List(kind) | Type::Map(_, kind) => item(*kind),
                    _ => Type::Dyn,
                })
            }
            (_, [left, right])
                if call.target.is_none() && name.contains('_') | name.starts_with('@') =>
            {
                let (left, right) = (self.kind(left)?, self.kind(right)?);
                self.binary(name, &left, &right)
            }
            _ => self.function(call),
        }
    }

    fn binary(&self, name: &str, left: &Type<'a>, right: &Type<'a>) -> Kind<'a> {
        let numeric = |kind: &Type<'_>| matches!(kind, Type::Int | Type::Uint | Type::Double);
        let either_dyn = *left == Type::Dyn || *right == Type::Dyn;
        let time = |kind: &Type<'_>| matches!(kind, Type::Duration | Type::Timestamp);
        let made = match name {
            operators::LOGICAL_AND | operators::LOGICAL_OR => {
                let fits = left.may_be(&Type::Bool) && right.may_be(&Type::Bool);
                fits.then_some(Type::Bool)
            }
            operators::EQUALS | operators::NOT_EQUALS => left.may_be(right).then_some(Type::Bool),
            operators::IN => {
                matches!(right, Type::List(_) | Type::Map(..) | Type::Dyn).then_some(Type::Bool)
            }
            operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS => {
                let compound = |kind: &Type<'_>| {
                    matches!(
                        kind,
                        Type::List(_)
                            | Type::Map(..)
                            | Type::Object(..)
                            | Type::Metadata
                            | Type::Null
                    )
                };
                let fits = !compound(left) && !compound(right) && left.may_be(right);
                (fits || numeric(left) && numeric(right)).then_some(Type::Bool)
            }
            _ if either_dyn => Some(if *left == Type::Dyn { right.clone() } else { left.clone() })
                .map(|kind| if time(&kind) { Type::Dyn } else { kind }),
            operators::ADD | operators::SUBSTRACT if time(left) && time(right) => Some(Type::Dyn),
            operators::ADD => {
                let adds =
                    numeric(left) || matches!(left, Type::String | Type::Bytes | Type::List(_));
                (adds && left.may_be(right)).then(|| left.clone())
            }
            operators::MODULO => {
                (matches!(left, Type::Int | Type::Uint) && left == right).then(|| left.clone())
            }
            _ => (numeric(left) && left == right).then(|| left.clone()),
        };
        made.ok_or_else(|| {
            let symbol = name.trim_matches(['_', '@']);
            let at = positions::operator(self.source, symbol);
            self.no_overload(name, at, &format!("({left}, {right})"))
        })
    }

    fn function(&mut self, call: &CallExpr) -> Kind<'a> {
        let name = call.func_name.as_str();
        let known = |name: &str| self.scope.iter().any(|(known, _)| known == name);
        let namespace = match call.target.as_deref().map(|target| &target.expr) {
            Some(Expr::Ident(prefix))
                if !known(prefix) && NAMESPACES.contains(&prefix.as_str()) =>
            {
                Some(prefix.as_str())
            }
            _ => None,
        };
        let target = match call.target.as_deref() {
            Some(target) if namespace.is_none() => Some(self.kind(target)?),
            Some(_) => None,
            None if !GLOBALS.contains(&name) => {
                let message = format!("undeclared reference to '{name}' (in container '')");
                return Err(report(self.source, positions::call(self.source, name), &message));
            }
            None => None,
        };
        let depth = self.scope.len();
        let binds = matches!(
            (name, call.args.len()),
            ("all" | "exists" | "existsOne" | "transformList", 3)
                | ("optMap" | "optFlatMap" | "sortBy", 2)
        );
        if binds {
            for arg in &call.args {
                if let Expr::Ident(variable) = &arg.expr {
                    self.scope.push((variable.clone(), Type::Dyn));
                }
            }
        }
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            args.push(self.kind(arg)?);
        }
        self.scope.truncate(depth);
        if let Some(target) = &target
            && TEXT_METHODS.contains(&name)
            && !target.may_be(&Type::String)
        {
            let shown: Vec<String> = args.iter().map(ToString::to_string).collect();
            let at = positions::call(self.source, name);
            return Err(self.no_overload(name, at, &format!("{target}.({})", shown.join(", "))));
        }
        Ok(result(name, namespace, target))
    }

    fn comprehension(&mut self, loops: &ComprehensionExpr) -> Kind<'a> {
        let item = match self.kind(&loops.iter_range)? {
            Type::List(item) => *item,
            Type::Map(key, _) => *key,
            Type::Dyn => Type::Dyn,
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                return Err(report(self.source, 0, &message));
            }
        };
        let first = self.kind(&loops.accu_init)?;
        let depth = self.scope.len();
        self.scope.push((loops.accu_var.clone(), first.clone()));
        self.scope.push((loops.iter_var.clone(), item));
        let stepped = self.kind(&loops.loop_step);
        if let (Type::List(_), Ok(kind @ Type::List(_))) = (&first, &stepped) {
            self.scope[depth].1 = kind.clone();
        }
        let result = stepped.and_then(|_| self.kind(&loops.result));
        self.scope.truncate(depth);
        result
    }
}

/// The type that a function makes, as far as its name tells.
fn result<'a>(name: &str, namespace: Option<&str>, target: Option<Type<'a>>) -> Type<'a> {
    match (namespace, name) {
        (Some("sets"), _) => Type::Bool,
        (Some("strings" | "jsonpatch"), _) => Type::String,
        (Some(_), _) => Type::Dyn,
        (None, "split" | "findAll") => Type::List(Box::new(Type::String)),
        (None, "duration") => Type::Duration,
        (None, "timestamp") => Type::Timestamp,
        (None, "double" | "asApproximateFloat") => Type::Double,
        (None, "uint") => Type::Uint,
        (None, "bytes") => Type::Bytes,
        (None, "orValue" | "value") => match target {
            Some(Type::Optional(inner)) => *inner,
            _ => Type::Dyn,
        },
        (None, "all" | "exists" | "existsOne") => Type::Bool,
        (None, name) if TRUTHS.contains(&name) => Type::Bool,
        (None, name) if WHOLE_NUMBERS.contains(&name) => Type::Int,
        (None, name) if TEXTS.contains(&name) => Type::String,
        _ => Type::Dyn,
    }
}
