//! Which clusters a set of requirements on labels matches.

use std::collections::BTreeMap;
use std::fmt;

/// Requirements that must all hold. None of them means every cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(pub Vec<Requirement>);

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// How it is compared.
    pub operator: Operator,
}

/// How a label is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// It has one of these values.
    In(Vec<String>),
    /// It has none of these values; also when it is missing.
    NotIn(Vec<String>),
    /// It is there.
    Exists,
    /// It is missing.
    DoesNotExist,
    /// It is a greater integer; never when it is missing or no integer.
    GreaterThan(i64),
    /// It is a smaller integer; never when it is missing or no integer.
    LessThan(i64),
}

/// The labels of a cluster.
pub type Labels = BTreeMap<String, String>;

impl Selector {
    /// The selector that has these labels with these values.
    pub fn exactly(labels: &Labels) -> Self {
        let requirement = |(key, value): (&String, &String)| Requirement {
            key: key.clone(),
            operator: Operator::In(vec![value.clone()]),
        };
        Self(labels.iter().map(requirement).collect())
    }

    /// Whether all requirements hold.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.unmet(labels).is_none()
    }

    /// The first requirement that does not hold.
    pub fn unmet(&self, labels: &Labels) -> Option<&Requirement> {
        self.0.iter().find(|requirement| !requirement.matches(labels))
    }
}

impl Requirement {
    fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        let integer = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.operator {
            Operator::In(values) => value.is_some_and(|value| values.contains(value)),
            Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan(bound) => integer().is_some_and(|value| value > *bound),
            Operator::LessThan(bound) => integer().is_some_and(|value| value < *bound),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.operator {
            Operator::In(values) => match values.as_slice() {
                [value] => write!(f, "{key}={value}"),
                values => write!(f, "{key} in ({})", values.join(",")),
            },
            Operator::NotIn(values) => match values.as_slice() {
                [value] => write!(f, "{key}!={value}"),
                values => write!(f, "{key} notin ({})", values.join(",")),
            },
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan(bound) => write!(f, "{key}>{bound}"),
            Operator::LessThan(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator_means_what_federation_v1_meant() {
        let labels: Labels =
            [("location", "europe"), ("size", "7"), ("name", "x")].map(own).into_iter().collect();
        let values = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect();
        for (key, operator, expected) in [
            ("location", Operator::In(values(&["asia", "europe"])), true),
            ("location", Operator::In(values(&["asia"])), false),
            ("missing", Operator::In(values(&["asia"])), false),
            ("location", Operator::NotIn(values(&["europe"])), false),
            ("missing", Operator::NotIn(values(&["europe"])), true),
            ("location", Operator::Exists, true),
            ("missing", Operator::Exists, false),
            ("location", Operator::DoesNotExist, false),
            ("missing", Operator::DoesNotExist, true),
            ("size", Operator::GreaterThan(6), true),
            ("size", Operator::GreaterThan(7), false),
            ("size", Operator::LessThan(8), true),
            ("name", Operator::LessThan(8), false),
            ("name", Operator::GreaterThan(-8), false),
            ("missing", Operator::LessThan(8), false),
        ] {
            let selector = Selector(vec![Requirement { key: key.to_owned(), operator }]);
            assert_eq!(selector.matches(&labels), expected, "{}", selector.0[0]);
        }
        assert!(Selector::default().matches(&labels));
    }

    fn own((key, value): (&str, &str)) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }
}
