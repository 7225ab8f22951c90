//! `FederatedStatus`: what every member says about one root, with its name and its time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::OnDeleteSpec;

/// What every member says about one root. The hub writes it beside the root, and it goes with it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "limen.dev",
    version = "v1alpha1",
    kind = "FederatedStatus",
    plural = "federatedstatuses",
    shortname = "fs",
    namespaced,
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.root.kind"),
    printcolumn(name = "Root", type_ = "string", json_path = ".spec.root.name"),
    printcolumn(name = "Synced", type_ = "string", json_path = ".spec.synced"),
    printcolumn(name = "Message", type_ = "string", json_path = ".spec.message")
)]
#[serde(rename_all = "camelCase")]
pub struct FederatedStatusSpec {
    /// The root.
    pub root: RootReference,
    /// How many of the selected members hold it as it shall be: `3/5`.
    pub synced: String,
    /// What a person should know, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// `Placed`, `Synced`; `Held` and `Served` where there is something to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Fate of leaves when the root is deleted, as it was when they were last applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_delete: Option<OnDeleteSpec>,
    /// The policy that placed the root, and where: what holds on while the policy is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governed: Option<GovernedBy>,
    /// Members in which a leaf has reached a terminal state: it is not created there again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<String>,
    /// Each member that holds or should hold a leaf.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<LeafReport>,
}

/// How a policy placed a root.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GovernedBy {
    /// Name of the PlacementPolicy.
    pub policy: String,
    /// Members that it selected.
    pub clusters: Vec<String>,
}

/// A root, by what it is called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RootReference {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its generation when this was written.
    #[serde(default)]
    pub generation: i64,
}

/// What one member says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeafReport {
    /// The member.
    pub cluster: String,
    /// How far it is.
    pub state: LeafState,
    /// Why, when it is not synced.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Since when it is in that state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The member cannot be reached: this is what was last known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// The member held a leaf when it last listed the kind, and cannot show it now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub presumed: bool,
    /// The leaf's status, as the member has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::placement_policy::anything")]
    pub status: Option<Value>,
}

/// How far a member is with a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LeafState {
    /// Not written yet.
    #[default]
    Pending,
    /// As it shall be.
    Synced,
    /// The member refused it, or could not be reached.
    Failed,
    /// The member has such an object that is not ours.
    Conflict,
    /// A wave before it is not done.
    Waiting,
    /// Its deletion is held back.
    Held,
    /// It is being deleted.
    Deleting,
}
