//! `GlobalIngress`: what a root compiles to. The hub writes it, people read it, edges obey it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use limen_core::global::Global;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The compiled form of one root.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "limen.dev",
    version = "v1alpha1",
    kind = "GlobalIngress",
    plural = "globalingresses",
    shortname = "gi",
    namespaced,
    status = "GlobalIngressStatus",
    printcolumn(name = "Host", type_ = "string", json_path = ".spec.rules[0].host"),
    printcolumn(name = "Backend", type_ = "string", json_path = ".spec.backends[0].name"),
    printcolumn(
        name = "Serving",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Serving\")].reason"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Complete\")].message"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct GlobalIngressSpec {
    /// What edges obey.
    #[serde(flatten)]
    pub global: Global,
}

/// What edges and the hub say about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GlobalIngressStatus {
    /// Whether it is in force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
