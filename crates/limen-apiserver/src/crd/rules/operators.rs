//! What operators do with values.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::operators;
use kube_cel::cel::objects::{Key, OptionalValue};

use super::evaluate::{Evaluated, Fault, error, no_overload};
use super::functions;

/// Whether this is an operator between two values that both are always looked at.
pub(super) fn is_binary(name: &str) -> bool {
    matches!(
        name,
        operators::EQUALS
            | operators::NOT_EQUALS
            | operators::IN
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS
            | operators::ADD
            | operators::SUBSTRACT
            | operators::MULTIPLY
            | operators::DIVIDE
            | operators::MODULO
    )
}

/// What is in an optional value; none if it is not one.
pub(super) fn inside(value: &Value) -> Option<Option<&Value>> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref::<OptionalValue>().map(OptionalValue::value),
        _ => None,
    }
}

/// A value as the key of a map.
pub(super) fn key(value: &Value) -> Result<Key, Fault> {
    match value {
        Value::Int(value) => Ok(Key::Int(*value)),
        Value::UInt(value) => Ok(Key::Uint(*value)),
        Value::Bool(value) => Ok(Key::Bool(*value)),
        Value::String(value) => Ok(Key::String(value.clone())),
        _ => Err(Fault::Error("unsupported key type".to_owned())),
    }
}

/// The item of a list or the value of a map.
pub(super) fn index(operand: &Value, at: &Value) -> Evaluated {
    match (operand, at) {
        (Value::List(items), Value::Int(n)) => {
            let item = usize::try_from(*n).ok().and_then(|n| items.get(n));
            item.cloned().map_or_else(|| error(format!("index out of bounds: {n}")), Ok)
        }
        (Value::Map(map), at) => {
            let found = map.map.get(&key(at)?).cloned();
            let shown = || match at {
                Value::String(text) => text.to_string(),
                Value::Int(n) => n.to_string(),
                Value::UInt(n) => n.to_string(),
                Value::Bool(value) => value.to_string(),
                _ => String::new(),
            };
            found.map_or_else(|| error(format!("no such key: {}", shown())), Ok)
        }
        _ => no_overload(),
    }
}

fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(value) => Some(*value as f64),
        Value::UInt(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    }
}

/// Which of two values is less; none if they cannot be compared.
pub(super) fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Bytes(left), Value::Bytes(right)) => Some(left.cmp(right)),
        (Value::Null | Value::List(_) | Value::Map(_), _) => None,
        _ => left.partial_cmp(right),
    }
}

/// Whether two values are the same; numbers of different types may be.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => left == right,
        (Value::UInt(left), Value::UInt(right)) => left == right,
        (Value::List(left), Value::List(right)) => {
            left.len() == right.len()
                && left.iter().zip(right.iter()).all(|(left, right)| equal(left, right))
        }
        (Value::Map(left), Value::Map(right)) => {
            left.map.len() == right.map.len()
                && left
                    .map
                    .iter()
                    .all(|(key, left)| right.map.get(key).is_some_and(|right| equal(left, right)))
        }
        _ => match (as_number(left), as_number(right)) {
            (Some(left), Some(right)) => left.partial_cmp(&right) == Some(Ordering::Equal),
            _ => left == right,
        },
    }
}

/// The sum, difference, product, quotient or remainder of two values.
pub(super) fn arithmetic(name: &str, left: Value, right: Value) -> Evaluated {
    let whole =
        |value: Option<i64>| value.map(Value::Int).map_or_else(|| error("integer overflow"), Ok);
    let unsigned = |value: Option<u64>| {
        value.map(Value::UInt).map_or_else(|| error("unsigned integer overflow"), Ok)
    };
    match (name, left, right) {
        (operators::ADD, Value::String(left), Value::String(right)) => {
            Ok(functions::text(format!("{left}{right}")))
        }
        (operators::ADD, Value::List(mut left), Value::List(right)) => {
            Arc::make_mut(&mut left).extend(right.iter().cloned());
            Ok(Value::List(left))
        }
        (operators::ADD, Value::Bytes(mut left), Value::Bytes(right)) => {
            Arc::make_mut(&mut left).extend_from_slice(&right);
            Ok(Value::Bytes(left))
        }
        (operators::DIVIDE, Value::Int(_), Value::Int(0))
        | (operators::DIVIDE, Value::UInt(_), Value::UInt(0)) => error("division by zero"),
        (operators::MODULO, Value::Int(_), Value::Int(0))
        | (operators::MODULO, Value::UInt(_), Value::UInt(0)) => error("modulus by zero"),
        (name, Value::Int(left), Value::Int(right)) => whole(match name {
            operators::ADD => left.checked_add(right),
            operators::SUBSTRACT => left.checked_sub(right),
            operators::MULTIPLY => left.checked_mul(right),
            operators::DIVIDE => left.checked_div(right),
            _ => left.checked_rem(right),
        }),
        (name, Value::UInt(left), Value::UInt(right)) => unsigned(match name {
            operators::ADD => left.checked_add(right),
            operators::SUBSTRACT => left.checked_sub(right),
            operators::MULTIPLY => left.checked_mul(right),
            operators::DIVIDE => left.checked_div(right),
            _ => left.checked_rem(right),
        }),
        (name, Value::Float(left), Value::Float(right)) if name != operators::MODULO => {
            Ok(Value::Float(match name {
                operators::ADD => left + right,
                operators::SUBSTRACT => left - right,
                operators::MULTIPLY => left * right,
                _ => left / right,
            }))
        }
        // Times and durations; everything else is refused there.
        (operators::ADD, left @ (Value::Duration(_) | Value::Timestamp(_)), right) => {
            (left + right).map_err(|_| Fault::Error("timestamp overflow".to_owned()))
        }
        (operators::SUBSTRACT, left @ (Value::Duration(_) | Value::Timestamp(_)), right) => {
            (left - right).map_err(|_| Fault::Error("timestamp overflow".to_owned()))
        }
        _ => no_overload(),
    }
}
