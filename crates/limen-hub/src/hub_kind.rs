//! Kinds of the hub that mean something by themselves.

use std::sync::Arc;

use limen_core::federated::Kind;

use crate::traffic::RootKind;

/// The group and version of Limen's own kinds.
const OWN: &str = "limen.dev/v1alpha1";

/// A kind of the hub, as far as it means something beyond being federated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HubKind {
    Cluster,
    Edge,
    FederatedType,
    GlobalIngress,
    Hold,
    PlacementPolicy,
    TrafficPolicy,
    /// Compiled, and perhaps federated.
    Root(RootKind),
    Secret,
    Namespace,
    ConfigMap,
    /// Federated, or a part of what is.
    Other,
}

impl HubKind {
    /// The meaning of a kind, by group and kind.
    pub(crate) fn of(kind: &Kind) -> Self {
        if let Some(root) = RootKind::of(kind) {
            return Self::Root(root);
        }
        match (kind.group(), kind.kind.as_str()) {
            ("limen.dev", "Cluster") => Self::Cluster,
            ("limen.dev", "Edge") => Self::Edge,
            ("limen.dev", "FederatedType") => Self::FederatedType,
            ("limen.dev", "GlobalIngress") => Self::GlobalIngress,
            ("limen.dev", "Hold") => Self::Hold,
            ("limen.dev", "PlacementPolicy") => Self::PlacementPolicy,
            ("limen.dev", "TrafficPolicy") => Self::TrafficPolicy,
            ("", "Secret") => Self::Secret,
            ("", "Namespace") => Self::Namespace,
            ("", "ConfigMap") => Self::ConfigMap,
            _ => Self::Other,
        }
    }

    /// Whether every hub has the kind: an API that does not know it is not the hub's.
    pub(crate) fn is_required(self) -> bool {
        self != Self::Other
    }

    /// Whether compiling depends on the kind.
    pub(crate) fn is_for_traffic(self) -> bool {
        match self {
            Self::Cluster
            | Self::Edge
            | Self::GlobalIngress
            | Self::TrafficPolicy
            | Self::Root(_)
            | Self::Secret => true,
            Self::FederatedType
            | Self::Hold
            | Self::PlacementPolicy
            | Self::Namespace
            | Self::ConfigMap
            | Self::Other => false,
        }
    }

    /// Whether planning of roots depends on the kind.
    pub(crate) fn is_for_planning(self) -> bool {
        match self {
            Self::Cluster
            | Self::FederatedType
            | Self::Hold
            | Self::PlacementPolicy
            | Self::Namespace => true,
            Self::Edge
            | Self::GlobalIngress
            | Self::TrafficPolicy
            | Self::Root(_)
            | Self::Secret
            | Self::ConfigMap
            | Self::Other => false,
        }
    }
}

/// The kinds of Limen's own that the hub watches.
pub(crate) fn own_kinds() -> [Arc<Kind>; 8] {
    [
        (OWN, "Cluster", "clusters", false),
        (OWN, "Edge", "edges", false),
        (OWN, "FederatedType", "federatedtypes", false),
        (OWN, "Hold", "holds", false),
        (OWN, "FederatedIngress", "federatedingresses", true),
        (OWN, "GlobalIngress", "globalingresses", true),
        (OWN, "PlacementPolicy", "placementpolicies", true),
        (OWN, "TrafficPolicy", "trafficpolicies", true),
    ]
    .map(limen_api::kind)
}
