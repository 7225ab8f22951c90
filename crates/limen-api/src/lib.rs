//! The objects of `limen.dev/v1alpha1`, and the dialects that turn what people submit into the
//! model of `limen-core`.

#![allow(clippy::duplicated_attributes, reason = "each printcolumn has keys of its own")]

mod cluster;
mod crds;
pub mod dialect;
mod dns_challenge;
mod dns_zone;
mod edge;
mod error_text;
mod federated_ingress;
mod federated_status;
mod federated_type;
mod global_ingress;
mod hold;
mod kinds;
mod networks;
mod placement_policy;
pub mod source;
mod traffic_policy;
mod unreadable;

pub use cluster::{
    Cluster, ClusterSpec, ClusterStatus, ClusterVerdicts, DrainSchedule, Mode, PodNetwork,
    SecretReference, TimedVerdict, Tombstone,
};
pub use crds::{
    ONE_OBJECT_GROUP, THREE_OBJECT_GROUP, all as crds, federated_kind, three_object_kinds,
};
pub use dns_challenge::{
    ChallengeChange, ChallengeWrite, DnsChallenge, DnsChallengeSpec, write_challenges,
};
pub use dns_zone::{DnsRecord, DnsZone, DnsZoneSpec, Nameserver};
pub use edge::{Edge, EdgeSpec};
pub use error_text::error_text;
pub use federated_ingress::{
    FederatedIngress, FederatedIngressSpec, FederatedIngressStatus, ListedBackend, ListedTarget,
    ObjectReference, ServiceReference,
};
pub use federated_status::{
    FederatedStatus, FederatedStatusSpec, GovernedBy, LeafReport, LeafState, RootReference,
    record_of,
};
pub use federated_type::{FederatedType, FederatedTypeSpec, Scope};
pub use global_ingress::{GlobalIngress, GlobalIngressStatus};
pub use hold::{HeldRoot, Hold, HoldReason, HoldSpec};
pub use kinds::{NATIVE, kind};
pub use networks::{NetworksError, parse_networks, read_networks};
pub use placement_policy::{
    ClusterName, OnConflictSpec, OnDeleteSpec, OverrideSpec, PatchOperation, PlacementPolicy,
    PlacementPolicySpec, PlacementPolicyStatus, PlacementSpec, RolloutSpec, RootSelector,
};
pub use traffic_policy::{TrafficPolicy, TrafficPolicySpec, TrafficPolicyStatus};
pub use unreadable::{unreadable_kubeconfig, unreadable_yaml};

/// The namespace that Limen keeps its own objects in, on the hub and in members.
pub const NAMESPACE: &str = "limen-system";
/// The namespace of the hub that gateways find certificates in: copies of the Secrets that
/// GlobalIngresses name, and nothing else.
pub const GATEWAYS: &str = "limen-gateways";
/// On such a copy: what it is a copy of, as namespace/name, and of which version.
pub const COPY_OF: &str = "limen.dev/copy-of";
/// See [`COPY_OF`].
pub const COPY_VERSION: &str = "limen.dev/copy-version";
/// Held by a Cluster until the hub has let go of the member, or abandoned it.
pub const MEMBER_FINALIZER: &str = "limen.dev/member";
/// Held by a root while members may hold leaves of it.
pub const FINALIZER: &str = "limen.dev/leaves";
