//! `Cluster`: a member of the federation.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use limen_core::global::Verdict;
use limen_core::locality::Coordinates;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a valid cluster satisfies, and what is said to one that does not. What is stored already
/// is left as it is.
pub(crate) const RULES: [(&str, &str); 1] = [(
    "!has(self.mode) || self.mode != 'Pull'",
    "mode Pull needs an agent in the cluster, which does not exist yet; use Push",
)];

/// A member of the federation: how to reach it, and where it is.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "limen.dev",
    version = "v1alpha1",
    kind = "Cluster",
    plural = "clusters",
    status = "ClusterStatus",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Region", type_ = "string", json_path = ".status.region"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Drain", type_ = "boolean", json_path = ".spec.drain"),
    printcolumn(name = "Leaves", type_ = "integer", json_path = ".status.leaves"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// The address of its API; left out when the Secret holds a kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The Secret, in the namespace limen-system, that holds `kubeconfig`, or both `token` and
    /// `ca.crt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<SecretReference>,
    /// Do not verify the certificate of its API. Written out, or not done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure_skip_tls_verify: bool,
    /// Who writes leaves: the hub. Pull, by an agent in the member, is for later.
    #[serde(default)]
    pub mode: Mode,
    /// Uid of the member's namespace kube-system, by which the hub knows that it talks to the same
    /// cluster; `limen join` sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The region; left out, that of most of its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The zone; left out, that of most of its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The place on Earth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinates: Option<Coordinates>,
    /// Send no new traffic there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drain: bool,
    /// Take traffic away little by little, in place of all at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_schedule: Option<DrainSchedule>,
    /// Whether edges reach its pods at their own addresses.
    #[serde(default, skip_serializing_if = "is_isolated")]
    pub pod_network: PodNetwork,
}

/// How a drain goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainSchedule {
    /// When it began, in seconds since 1970.
    pub started_at: i64,
    /// After how many seconds all traffic is gone.
    pub over_seconds: u32,
}

/// Whether edges reach pods at their own addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PodNetwork {
    /// Only by an ingress, a load balancer or node ports.
    #[default]
    Isolated,
    /// Directly: the networks are one, or routed.
    Reachable,
}

fn is_isolated(network: &PodNetwork) -> bool {
    *network == PodNetwork::Isolated
}

/// A Secret in the namespace limen-system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecretReference {
    /// Its name.
    pub name: String,
}

/// Who writes leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// The hub.
    #[default]
    Push,
    /// An agent in the member. There is none yet, so that no new `Cluster` may ask for it.
    Pull,
}

/// What is known of a member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// `Ready` and `Offline` as federation v1 had them, and what else is worth saying.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Whether its API answers, whether its way in answers, whether it has ready endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdicts: Option<ClusterVerdicts>,
    /// Uid of its namespace kube-system, as it was seen first or as `spec.uid` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The version of Kubernetes that it says it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The region in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The zone in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// How many leaves it holds.
    #[serde(default)]
    pub leaves: usize,
    /// Leaves whose root is gone, to be deleted when the member can be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tombstones: Vec<Tombstone>,
    /// Kinds that are federated and that it does not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_kinds: Vec<String>,
}

/// Three verdicts, none of which says anything about the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterVerdicts {
    /// Whether its API answers.
    pub api: TimedVerdict,
    /// Whether its way in answers, as edges have seen it.
    pub edge: TimedVerdict,
    /// Whether anything there is ready to serve.
    pub endpoints: TimedVerdict,
}

/// A verdict, and since when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimedVerdict {
    /// The verdict.
    #[serde(default)]
    pub verdict: Verdict,
    /// When it became so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// A leaf that is to be deleted, or let go, when its member can be reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tombstone {
    /// The leaf's API version.
    pub api_version: String,
    /// The leaf's kind.
    pub kind: String,
    /// What paths call that kind.
    pub plural: String,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The uid of the root that is gone: only a leaf of that root is touched.
    pub root_uid: String,
    /// The leaf stays, and is nobody's any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub release: bool,
}
