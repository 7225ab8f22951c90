//! Calling the functions of CEL and of Kubernetes, and what a call costs.

use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, Expr};
use kube_cel::cel::objects::{Key, Opaque};
use kube_cel::cel::{Context, ExecutionError, IdedExpr, Value};

thread_local! {
    static CONTEXT: Context<'static> = Context::default().with_all();
}

/// Widest number that a format may pad or round to.
const WIDEST: u64 = 1000;

/// Calls a function on values; `namespace` is what stands before the dot of `math.greatest`.
pub(super) fn call(
    name: &str,
    namespace: Option<&str>,
    target: Option<&Value>,
    args: &[Value],
) -> Result<Value, String> {
    CONTEXT.with(|context| {
        let mut scope = context.new_inner_scope();
        let mut bind = |position: usize, value: Value| {
            let variable = format!("@{position}");
            scope.add_variable_from_value(variable.clone(), value);
            IdedExpr { id: 0, expr: Expr::Ident(variable) }
        };
        let bound_target = match (target, namespace) {
            (Some(target), _) => Some(Box::new(bind(0, target.clone()))),
            (None, Some(namespace)) => {
                Some(Box::new(IdedExpr { id: 0, expr: Expr::Ident(namespace.to_owned()) }))
            }
            (None, None) => None,
        };
        let bound = args.iter().enumerate().map(|(n, arg)| bind(n + 1, arg.clone())).collect();
        let call =
            Expr::Call(CallExpr { func_name: name.to_owned(), target: bound_target, args: bound });
        let made = scope.resolve(&IdedExpr { id: 0, expr: call });
        made.map_err(|error| reworded(name, target, args).unwrap_or_else(|| describe(error)))
    })
}

/// What cel-go says where `kube-cel` says something else.
fn reworded(name: &str, target: Option<&Value>, args: &[Value]) -> Option<String> {
    let converts_to = match name {
        "int" | "uint" | "double" => Some(name),
        "duration" => Some("google.protobuf.Duration"),
        "timestamp" => Some("google.protobuf.Timestamp"),
        _ => None,
    };
    match (name, target, args) {
        (_, None, [Value::String(_)]) if converts_to.is_some() => {
            Some(format!("type conversion error from 'string' to '{}'", converts_to?))
        }
        ("quantity", None, [Value::String(_)]) => Some(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                .to_owned(),
        ),
        ("url", None, [Value::String(text)]) => Some(format!(
            "URL parse error during conversion from string: parse {text:?}: invalid URI for request"
        )),
        ("min" | "max", Some(Value::List(items)), []) if items.is_empty() => {
            Some(format!("{name} called on empty list"))
        }
        ("slice", Some(Value::List(items)), [Value::Int(start), Value::Int(end)]) => {
            Some(format!("cannot slice({start}, {end}), list is length {}", items.len()))
        }
        ("substring" | "charAt", Some(Value::String(text)), indices) => {
            let length = text.chars().count() as i64;
            indices.iter().find_map(|index| match index {
                Value::Int(n) if *n < 0 || *n > length => Some(format!("index out of range: {n}")),
                _ => None,
            })
        }
        _ => None,
    }
}

/// What a function of one value makes of it.
pub(super) fn convert(name: &str, value: Value) -> Option<Value> {
    call(name, None, None, &[value]).ok()
}

/// An error the way cel-go says it.
fn describe(error: ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(Value::Int(n)) => format!("index out of bounds: {n}"),
        ExecutionError::FunctionError { message, .. } => message,
        ExecutionError::UndeclaredReference(name) => format!("no such overload: {name}"),
        _ => "no such overload".to_owned(),
    }
}

/// What it costs to look at all of a value.
pub(super) fn size(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64 / 10 + 1,
        Value::Bytes(bytes) => bytes.len() as u64 / 10 + 1,
        Value::List(items) => items.iter().fold(1u64, |sum, item| sum.saturating_add(size(item))),
        Value::Map(map) => map.map.iter().fold(1u64, |sum, (key, value)| {
            let key = match key {
                Key::String(text) => text.len() as u64 / 10,
                _ => 0,
            };
            sum.saturating_add(key + 1).saturating_add(size(value))
        }),
        _ => 1,
    }
}

/// What a call costs at most, from what it is called with.
pub(super) fn cost(
    name: &str,
    namespace: Option<&str>,
    target: Option<&Value>,
    args: &[Value],
) -> u64 {
    let all: Vec<&Value> = target.into_iter().chain(args).collect();
    let sum = all.iter().fold(1u64, |sum, value| sum.saturating_add(size(value)));
    let product = all.iter().fold(1u64, |product, value| product.saturating_mul(size(value)));
    let length = |position: usize| match all.get(position) {
        Some(Value::String(text)) => text.len() as u64,
        _ => 0,
    };
    match (namespace, name) {
        (Some("sets"), _)
        | (_, "distinct" | "sort" | "indexOf" | "lastIndexOf" | "find" | "findAll" | "matches") => {
            let square = if name == "distinct" || name == "sort" { sum } else { 1 };
            product.saturating_mul(square).saturating_add(sum)
        }
        (_, "replace") => {
            let places = length(0) / length(1).max(1) + 1;
            sum.saturating_add(places.saturating_mul(length(2)) / 10)
        }
        (_, "join") => {
            let items = match all.first() {
                Some(Value::List(items)) => items.len() as u64,
                _ => 0,
            };
            sum.saturating_add(items.saturating_mul(length(1)) / 10)
        }
        (_, "format") => match all.first() {
            Some(Value::String(format)) if asks_too_wide(format) => u64::MAX,
            _ => sum.saturating_mul(2),
        },
        (Some("lists"), "range") => match args {
            [Value::Int(count)] => u64::try_from(*count).unwrap_or(1),
            _ => 1,
        },
        _ => sum,
    }
}

fn asks_too_wide(format: &str) -> bool {
    let numbers = format.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    numbers
        .into_iter()
        .any(|digits| digits.parse::<u64>().is_ok_and(|n| n > WIDEST) || digits.len() > 9)
}

/// Text as a value.
pub(super) fn text(value: impl Into<String>) -> Value {
    Value::String(Arc::new(value.into()))
}

/// The type of a value, which rules compare with `int`, `string` and the like.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TypeName(&'static str);

impl Opaque for TypeName {
    fn runtime_type_name(&self) -> &str {
        "type"
    }
}

const TYPE_NAMES: &[&str] =
    &["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

/// The type of that name, if there is one.
pub(super) fn type_named(name: &str) -> Option<Value> {
    let known = TYPE_NAMES.iter().find(|known| **known == name)?;
    Some(Value::Opaque(Arc::new(TypeName(known))))
}

/// The type of a value.
pub(super) fn type_of(value: &Value) -> Value {
    let name = match value {
        Value::Bool(_) => "bool",
        Value::Bytes(_) => "bytes",
        Value::Float(_) => "double",
        Value::Int(_) => "int",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Null => "null_type",
        Value::String(_) => "string",
        Value::UInt(_) => "uint",
        Value::Duration(_) => "google.protobuf.Duration",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        Value::Function(..) | Value::Opaque(_) => "type",
    };
    Value::Opaque(Arc::new(TypeName(name)))
}
