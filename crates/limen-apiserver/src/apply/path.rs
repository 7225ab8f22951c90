//! One step from a value to a value inside it.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

/// How to find a part of a value.
#[derive(Clone, Debug)]
pub(crate) enum PathElement {
    /// The field of an object, `f:name`.
    Field(String),
    /// The item of a list that has these values in its key fields, `k:{"name":"a"}`. Sorted by
    /// name.
    Key(Vec<(String, Value)>),
    /// The item of a list that has this value, `v:"a"`.
    Value(Value),
    /// The item of a list at this position, `i:0`.
    Index(i64),
}

impl PathElement {
    pub(crate) fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    pub(crate) fn key(mut fields: Vec<(String, Value)>) -> Self {
        fields.sort_by(|(left, _), (right, _)| left.cmp(right));
        Self::Key(fields)
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => compare_fields(left, right),
            (Self::Value(left), Self::Value(right)) => compare(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (n, (name, value)) in fields.iter().enumerate() {
                    let comma = if n == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A path as error messages show it: `.spec.ports[port=80,protocol="TCP"].targetPort`.
pub(crate) fn shown(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

fn compare_fields(left: &[(String, Value)], right: &[(String, Value)]) -> Ordering {
    for ((left_name, left), (right_name, right)) in left.iter().zip(right) {
        let order = left_name.cmp(right_name).then_with(|| compare(left, right));
        if order != Ordering::Equal {
            return order;
        }
    }
    left.len().cmp(&right.len())
}

/// A total order of values: numbers, text, booleans, lists, objects, null.
pub(super) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let items = left.iter().zip(right).map(|(left, right)| compare(left, right));
            let unequal = items.into_iter().find(|order| order.is_ne());
            unequal.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            for ((left_name, left), (right_name, right)) in left.iter().zip(right) {
                let order = left_name.cmp(right_name).then_with(|| compare(left, right));
                if order != Ordering::Equal {
                    return order;
                }
            }
            left.len().cmp(&right.len())
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

/// Whether two values are the same, where 1 and 1.0 are.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    compare(left, right) == Ordering::Equal
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// Whole numbers compare exactly, however they are written; others as floating-point numbers.
fn compare_numbers(left: &serde_json::Number, right: &serde_json::Number) -> Ordering {
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => {
            let float = |number: &serde_json::Number| number.as_f64().unwrap_or_default();
            float(left).total_cmp(&float(right))
        }
    }
}

fn whole(number: &serde_json::Number) -> Option<i128> {
    if let Some(number) = number.as_i64() {
        return Some(number.into());
    }
    if let Some(number) = number.as_u64() {
        return Some(number.into());
    }
    let float = number.as_f64()?;
    #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
    (float.fract() == 0.0 && float.abs() < 1e30).then_some(float as i128)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_read_as_in_kubernetes() {
        let key = vec![("protocol".to_owned(), json!("TCP")), ("port".to_owned(), json!(80))];
        let path = [
            PathElement::field("spec"),
            PathElement::key(key),
            PathElement::Value(json!("a")),
            PathElement::Index(2),
        ];
        assert_eq!(shown(&path), ".spec[port=80,protocol=\"TCP\"][=\"a\"][2]");
    }

    #[test]
    fn numbers_are_ordered_by_what_they_are_worth() {
        let ordered = [json!(-1), json!(0.5), json!(1), json!(80), json!(443.5), json!(u64::MAX)];
        for pair in ordered.windows(2) {
            assert_eq!(compare(&pair[0], &pair[1]), Ordering::Less, "{pair:?}");
        }
        assert!(equal(&json!(1), &json!(1.0)));
        assert!(!equal(&json!(1), &json!("1")));
    }
}
