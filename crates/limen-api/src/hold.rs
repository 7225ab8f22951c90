//! `Hold`: removals that look like an accident, and wait for a person.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Changes in members that wait for a person. The hub writes the exact set before it would carry out
/// any of it; `spec.release: true` lets this set go on, once. The hub deletes the object when its set
/// is empty.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "limen.dev",
    version = "v1alpha1",
    kind = "Hold",
    plural = "holds",
    printcolumn(name = "Reason", type_ = "string", json_path = ".spec.reason"),
    printcolumn(name = "Roots", type_ = "integer", json_path = ".spec.rootCount"),
    printcolumn(name = "Leaves", type_ = "integer", json_path = ".spec.leafCount"),
    printcolumn(name = "Message", type_ = "string", json_path = ".spec.message"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct HoldSpec {
    /// The accident that this looks like.
    pub reason: HoldReason,
    /// The same in a sentence, with counts and names.
    pub message: String,
    /// Number of roots held.
    pub root_count: usize,
    /// Number of leaves held.
    pub leaf_count: usize,
    /// The exact set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<HeldRoot>,
    /// Set by a person: carry out this set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub release: bool,
}

/// The accident that a hold looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HoldReason {
    /// More roots of a namespace were deleted than a person deletes by name.
    #[default]
    MassDeletion,
    /// A Namespace with many roots was deleted.
    NamespaceDeleted,
    /// A placement stopped selecting any cluster.
    NothingSelected,
    /// A change of a selector, policy, label or cluster removes a large share of all leaves.
    LargeRemoval,
    /// A member returned after a long absence and holds leaves that are no longer wanted.
    MemberReturned,
    /// The policy that placed a root is gone or no longer selects it; without it more clusters would
    /// get the root.
    PolicyGone,
}

/// A root in a hold, and the members concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldRoot {
    /// API version of the root.
    pub api_version: String,
    /// Kind of the root.
    pub kind: String,
    /// Namespace of the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the root.
    pub name: String,
    /// Uid of the root: another object of the same name is not held.
    pub uid: String,
    /// Members whose leaves would be removed, or added for [`HoldReason::PolicyGone`].
    pub clusters: Vec<String>,
}
