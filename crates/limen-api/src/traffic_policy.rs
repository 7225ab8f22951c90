//! `TrafficPolicy`: how traffic to a root is shared.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use limen_core::compile::{Policy, PolicyCandidate, Progress};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How traffic to one root, or to all roots of a namespace that have no policy of their own, is
/// shared among clusters.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "limen.dev",
    version = "v1alpha1",
    kind = "TrafficPolicy",
    plural = "trafficpolicies",
    shortname = "tp",
    namespaced,
    status = "TrafficPolicyStatus",
    printcolumn(name = "Root", type_ = "string", json_path = ".spec.targetRef.name"),
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Accepted\")].status"
    ),
    printcolumn(name = "Canary", type_ = "string", json_path = ".status.canary.phase"),
    printcolumn(name = "Percent", type_ = "integer", json_path = ".status.canary.percent"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Accepted\")].message"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct TrafficPolicySpec {
    /// What it asks for.
    #[serde(flatten)]
    pub policy: Policy,
}

/// What the hub says about a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrafficPolicyStatus {
    /// `Accepted`: whether it is in force as it is written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How far its canary is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Progress>,
    /// What is in force: the spec when it was last acceptable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<Policy>,
}

impl TrafficPolicy {
    /// Its place among the policies of its namespace, by its spec.
    pub fn candidate(&self) -> PolicyCandidate<'_, &Time> {
        self.candidate_of(&self.spec.policy)
    }

    /// Its place by the policy that is in force of it; nothing while none is.
    pub fn candidate_in_force(&self) -> Option<PolicyCandidate<'_, &Time>> {
        Some(self.candidate_of(self.status.as_ref()?.in_force.as_ref()?))
    }

    /// Its place if it asked for this.
    pub fn candidate_of<'a>(&'a self, policy: &'a Policy) -> PolicyCandidate<'a, &'a Time> {
        PolicyCandidate {
            name: self.metadata.name.as_deref().unwrap_or_default(),
            created: self.metadata.creation_timestamp.as_ref(),
            target: policy.target_ref.as_ref(),
        }
    }
}

/// What can be said of a policy without looking at anything else.
pub(crate) const RULES: [(&str, &str); 7] = [
    (
        "!has(self.weights) || !has(self.weights.clusters) || size(self.weights.clusters) == 0 || self.weights.clusters.exists(name, self.weights.clusters[name] > 0)",
        "weights.clusters must not all be zero",
    ),
    (
        "!has(self.weights) || !has(self.weights.groups) || size(self.weights.groups) == 0 || self.weights.groups.exists(name, self.weights.groups[name] > 0)",
        "weights.groups must not all be zero",
    ),
    (
        "(has(self.weights) && has(self.weights.groups) ? 1 : 0) + (has(self.canary) ? 1 : 0) + (has(self.activeGroup) ? 1 : 0) <= 1",
        "give only one of weights.groups, canary and activeGroup",
    ),
    (
        "!has(self.canary) || (self.canary.steps.isSorted() && self.canary.steps.all(step, step >= 1 && step <= 100))",
        "canary.steps must rise from step to step, within 1 and 100",
    ),
    (
        "!has(self.capacity) || !has(self.capacity.requestsPerEndpoint) || self.capacity.requestsPerEndpoint > 0.0",
        "capacity.requestsPerEndpoint must be more than zero",
    ),
    (
        "!has(self.capacity) || !has(self.capacity.clusters) || self.capacity.clusters.all(name, self.capacity.clusters[name] > 0.0)",
        "capacity.clusters must all be more than zero",
    ),
    (
        "!has(self.affinity) || (has(self.affinity.cookie) ? 1 : 0) + (has(self.affinity.header) ? 1 : 0) + (has(self.affinity.sourceAddress) && self.affinity.sourceAddress ? 1 : 0) == 1",
        "affinity must have exactly one of cookie, header and sourceAddress",
    ),
];
