//! `FederatedStatus`: what every member says about one root, with its name and its time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use limen_core::federated::ObjectId;

use crate::{NAMESPACE, OnDeleteSpec};

/// The namespace and the name of the record of a root. Kinds of the same name in two groups do not
/// meet there: a group that Kubernetes itself does not have is part of the name.
pub fn record_of(root: &ObjectId) -> (String, String) {
    let namespace = match (&root.namespace, root.kind.kind.as_str()) {
        (Some(namespace), _) => namespace,
        (None, "Namespace") => &root.name,
        (None, _) => NAMESPACE,
    };
    let (group, kind) = (root.kind.group(), root.kind.kind.to_lowercase());
    let own = !group.contains('.') || group.ends_with(".k8s.io");
    let name = match own {
        true => format!("{kind}.{}", root.name),
        false => format!("{kind}-{group}.{}", root.name),
    };
    (namespace.to_owned(), name)
}

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
    /// The member holds a leaf that waits for its wave, or held one when it last listed the kind and
    /// cannot show it now.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_the_same_name_have_records_of_their_own() {
        let place = |version: &str, kind: &str, namespace: Option<&str>| {
            let kind = crate::kind((version, kind, "", namespace.is_some()));
            record_of(&ObjectId {
                kind,
                namespace: namespace.map(str::to_owned),
                name: "web".into(),
            })
        };
        let shop = |name: &str| ("shop".to_owned(), name.to_owned());
        assert_eq!(place("v1", "Service", Some("shop")), shop("service.web"));
        assert_eq!(place("networking.k8s.io/v1", "Ingress", Some("shop")), shop("ingress.web"));
        let knative = place("serving.knative.dev/v1", "Service", Some("shop"));
        assert_eq!(knative, shop("service-serving.knative.dev.web"));
        assert_eq!(place("v1", "Namespace", None), ("web".to_owned(), "namespace.web".to_owned()));
    }
}
