//! Selectors of clusters: the annotation of federation v1, and the label selectors of version 2.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use limen_core::federated::Placement;
use limen_core::selector::{Operator, Requirement, Selector};
use serde::Deserialize;

use super::{DialectError, field_error};
use crate::placement_policy::PlacementSpec;

/// The annotation by which federation v1 selected clusters.
pub(super) const ANNOTATION: &str = "federation.alpha.kubernetes.io/cluster-selector";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

/// Reads the annotation: a JSON array of `{key, operator, values}`, all of which must hold.
pub fn parse(text: &str) -> Result<Selector, DialectError> {
    let error = |reason: String| DialectError::Annotation { annotation: ANNOTATION, reason };
    let written: Vec<Written> = serde_json::from_str(text).map_err(|wrong| {
        error(format!(
            "not a JSON array of {{\"key\", \"operator\", \"values\"}}: {wrong}; for example [{{\"key\": \"location\", \"operator\": \"in\", \"values\": [\"europe\"]}}]"
        ))
    })?;
    let requirements = written.into_iter().map(|Written { key, operator, values }| {
        let operator = operation(&operator, values)
            .map_err(|reason| error(format!("requirement on {key:?}: {reason}")))?;
        Ok(Requirement { key, operator })
    });
    requirements.collect::<Result<_, _>>().map(Selector)
}

fn operation(operator: &str, mut values: Vec<String>) -> Result<Operator, String> {
    let count = values.len();
    let needs = |what: &str, fits: bool| match fits {
        true => Ok(()),
        false => Err(format!("operator {operator} needs {what}, and got {count}")),
    };
    let mut integer = || {
        let value = values.pop().unwrap_or_default();
        value.parse().map_err(|_| format!("operator {operator} needs an integer, not {value:?}"))
    };
    Ok(match operator {
        "in" | "In" => {
            needs("one value or more", count > 0)?;
            Operator::In(values)
        }
        "notin" | "NotIn" => {
            needs("one value or more", count > 0)?;
            Operator::NotIn(values)
        }
        "=" | "==" => {
            needs("one value", count == 1)?;
            Operator::In(values)
        }
        "!=" => {
            needs("one value", count == 1)?;
            Operator::NotIn(values)
        }
        "exists" | "Exists" => {
            needs("no values", count == 0)?;
            Operator::Exists
        }
        "!" | "DoesNotExist" => {
            needs("no values", count == 0)?;
            Operator::DoesNotExist
        }
        "gt" | "Gt" | ">" => {
            needs("one value", count == 1)?;
            Operator::GreaterThan(integer()?)
        }
        "lt" | "Lt" | "<" => {
            needs("one value", count == 1)?;
            Operator::LessThan(integer()?)
        }
        _ => {
            return Err(format!(
                "there is no operator {operator:?}; use in, notin, =, ==, !=, exists, !, gt or lt"
            ));
        }
    })
}

/// Reads a label selector.
pub(super) fn label_selector(
    selector: &LabelSelector,
    field: &str,
) -> Result<Selector, DialectError> {
    let labels = selector.match_labels.clone().unwrap_or_default();
    let Selector(mut requirements) = Selector::exactly(&labels);
    for expression in selector.match_expressions.iter().flatten() {
        let values = expression.values.clone().unwrap_or_default();
        let operator = match expression.operator.as_str() {
            known @ ("In" | "NotIn" | "Exists" | "DoesNotExist") => operation(known, values),
            other => Err(format!(
                "there is no operator {other:?}; use In, NotIn, Exists or DoesNotExist"
            )),
        };
        let operator =
            operator.map_err(|reason| field_error(format!("{field}.matchExpressions"), reason))?;
        requirements.push(Requirement { key: expression.key.clone(), operator });
    }
    Ok(Selector(requirements))
}

/// Reads a placement: a list, even an empty one, beats a selector; neither selects nothing.
pub fn placement(spec: &PlacementSpec, field: &str) -> Result<Placement, DialectError> {
    match (&spec.clusters, &spec.cluster_selector) {
        (Some(clusters), _) => {
            Ok(Placement::Clusters(clusters.iter().map(|cluster| cluster.name.clone()).collect()))
        }
        (None, Some(selector)) => {
            label_selector(selector, &format!("{field}.clusterSelector")).map(Placement::Selector)
        }
        (None, None) => Ok(Placement::Nowhere),
    }
}
