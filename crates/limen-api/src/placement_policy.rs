//! `PlacementPolicy`: which roots of a namespace go where.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which roots of its namespace go where, and how their leaves differ.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "limen.dev",
    version = "v1alpha1",
    kind = "PlacementPolicy",
    plural = "placementpolicies",
    shortname = "pp",
    namespaced,
    status = "PlacementPolicyStatus",
    printcolumn = r#"{"name": "Valid", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Valid\")].status"}"#,
    printcolumn = r#"{"name": "Roots", "type": "integer", "jsonPath": ".status.roots"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct PlacementPolicySpec {
    /// Which roots; none means every root of the namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<RootSelector>,
    /// Which members.
    #[serde(default)]
    pub placement: PlacementSpec,
    /// How leaves differ, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<OverrideSpec>,
    /// What to do where a member already has such an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_conflict: Option<OnConflictSpec>,
    /// What becomes of leaves when a root is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_delete: Option<OnDeleteSpec>,
    /// The order in which members get a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutSpec>,
}

/// Some roots of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RootSelector {
    /// Their API version, if it matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Their kind, if it matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The name, if it matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}

/// Which members: `clusters`, even an empty list, beats `clusterSelector`; neither selects none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSpec {
    /// By name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<Vec<ClusterName>>,
    /// By labels; an empty selector selects all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<LabelSelector>,
}

/// A member by name, as federation v2 writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterName {
    /// The name.
    pub name: String,
}

/// How leaves differ in some members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideSpec {
    /// In one member, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// In members by labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<LabelSelector>,
    /// The changes, in order.
    #[serde(default)]
    pub cluster_overrides: Vec<PatchOperation>,
}

/// One change, as JSON patch has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PatchOperation {
    /// What to do: replace, unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// Where, as a JSON pointer.
    pub path: String,
    /// From where, to move or copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What to put there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub value: Option<Value>,
}

/// What to do where a member already has such an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnConflictSpec {
    /// Take it over.
    Adopt,
    /// Touch nothing, and say so.
    Abort,
}

/// What becomes of leaves when a root is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnDeleteSpec {
    /// They are deleted too.
    Cascade,
    /// They stay.
    Orphan,
}

/// The order in which members get a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RolloutSpec {
    /// One after the other, each when the one before holds the change and is well.
    #[serde(default)]
    pub waves: Vec<PlacementSpec>,
}

/// What the hub says about a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlacementPolicyStatus {
    /// Whether it is in force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How many roots go where it says.
    #[serde(default)]
    pub roots: usize,
}

/// A schema for a field that may hold any value.
pub(crate) fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = BTreeMap::new();
    schema.insert("x-kubernetes-preserve-unknown-fields", Value::Bool(true));
    schemars::Schema::from(
        schema
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect::<serde_json::Map<_, _>>(),
    )
}
