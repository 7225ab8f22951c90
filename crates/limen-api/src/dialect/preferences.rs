//! The preferences annotations of federation v1: how a total is divided among clusters.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::DialectError;

/// How a total is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preferences {
    /// Move what runs already to where it should be.
    pub rebalance: bool,
    /// By cluster; `*` is every other one.
    pub clusters: BTreeMap<String, Share>,
}

/// The share of one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Share {
    /// At least so many.
    #[serde(rename = "minreplicas")]
    pub min: i64,
    /// At most so many.
    #[serde(rename = "maxreplicas")]
    pub max: Option<i64>,
    /// And of the rest in proportion to this.
    pub weight: i64,
}

impl Default for Preferences {
    fn default() -> Self {
        let all = Share { weight: 1, ..Share::default() };
        Self { rebalance: false, clusters: [("*".to_owned(), all)].into() }
    }
}

/// The annotation of a kind, if it has one.
pub(super) fn annotation(kind: &str) -> Option<&'static str> {
    match kind {
        "ReplicaSet" => Some("federation.kubernetes.io/replica-set-preferences"),
        "Deployment" => Some("federation.kubernetes.io/deployment-preferences"),
        "Job" => Some("federation.kubernetes.io/job-preferences"),
        _ => None,
    }
}

impl Preferences {
    /// Reads an annotation; the names of its fields are known in any case.
    pub fn parse(text: &str, annotation: &'static str) -> Result<Self, DialectError> {
        let error = |reason: String| DialectError::Annotation { annotation, reason };
        let value: Value = serde_json::from_str(text).map_err(|wrong| {
            error(format!(
                "not JSON: {wrong}; for example {{\"clusters\": {{\"*\": {{\"weight\": 1}}}}}}"
            ))
        })?;
        let mut preferences = Self::default();
        for (field, value) in fields(&value, "the annotation").map_err(error)? {
            match field.as_str() {
                "rebalance" => {
                    preferences.rebalance = value
                        .as_bool()
                        .ok_or_else(|| error("rebalance must be true or false".to_owned()))?;
                }
                "clusters" => {
                    let Value::Object(clusters) = value else {
                        return Err(error("clusters must be an object".to_owned()));
                    };
                    preferences.clusters = clusters
                        .iter()
                        .map(|(name, share)| Ok((name.clone(), share_of(name, share)?)))
                        .collect::<Result<_, String>>()
                        .map_err(error)?;
                }
                other => return Err(error(format!("there is no field {other:?}"))),
            }
        }
        Ok(preferences)
    }
}

fn share_of(name: &str, value: &Value) -> Result<Share, String> {
    let map: Map<_, _> = fields(value, name)?.into_iter().collect();
    let share: Share = serde_json::from_value(Value::Object(map))
        .map_err(|error| format!("cluster {name:?}: {error}"))?;
    for (field, value) in [
        ("minReplicas", share.min),
        ("maxReplicas", share.max.unwrap_or(0)),
        ("weight", share.weight),
    ] {
        if value < 0 {
            return Err(format!("cluster {name:?}: {field} is {value}; it must not be negative"));
        }
    }
    match share.max {
        Some(max) if max < share.min => {
            Err(format!("cluster {name:?}: maxReplicas {max} is below minReplicas {}", share.min))
        }
        _ => Ok(share),
    }
}

fn fields(value: &Value, what: &str) -> Result<Vec<(String, Value)>, String> {
    let Value::Object(map) = value else { return Err(format!("{what} must be an object")) };
    Ok(map.iter().map(|(field, value)| (field.to_lowercase(), value.clone())).collect())
}
