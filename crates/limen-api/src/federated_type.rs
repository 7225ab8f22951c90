//! `FederatedType`: a kind that people may federate.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind that people may federate; its name is PLURAL.GROUP. The hub serves `Federated<Kind>` for
/// it, and, where the hub has the kind itself, spreads its objects.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "limen.dev",
    version = "v1alpha1",
    kind = "FederatedType",
    plural = "federatedtypes",
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.kind"),
    printcolumn(name = "API", type_ = "string", json_path = ".spec.apiVersion")
)]
#[serde(rename_all = "camelCase")]
pub struct FederatedTypeSpec {
    /// The API version of its leaves.
    pub api_version: String,
    /// The kind of its leaves.
    pub kind: String,
    /// What paths call it.
    pub plural: String,
    /// Whether its objects are in namespaces.
    pub scope: Scope,
}

/// Whether objects are in namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Scope {
    /// They are.
    #[default]
    Namespaced,
    /// They are not.
    Cluster,
}
