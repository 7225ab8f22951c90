//! Roots that are compiled, and the names of their GlobalIngresses.

use std::sync::{Arc, LazyLock};

use limen_core::compile::Key;
use limen_core::federated::{Kind, ObjectId};

/// The kinds of roots that are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RootKind {
    Ingress,
    FederatedIngress,
    Service,
}

/// GlobalIngresses of FederatedIngresses and Services have these before the name of their root, so
/// that an Ingress may have the same name.
const FEDERATED_PREFIX: &str = "federatedingress.";
const SERVICE_PREFIX: &str = "service.";

impl RootKind {
    /// The kind of a root that is compiled, by group and kind.
    pub(crate) fn of(kind: &Kind) -> Option<Self> {
        match (kind.group(), kind.kind.as_str()) {
            ("networking.k8s.io", "Ingress") => Some(Self::Ingress),
            ("limen.dev", "FederatedIngress") => Some(Self::FederatedIngress),
            ("", "Service") => Some(Self::Service),
            _ => None,
        }
    }

    /// The kind on the hub.
    fn kind(self) -> &'static Arc<Kind> {
        static KINDS: LazyLock<[Arc<Kind>; 3]> = LazyLock::new(|| {
            [
                ("networking.k8s.io/v1", "Ingress", "ingresses", true),
                ("limen.dev/v1alpha1", "FederatedIngress", "federatedingresses", true),
                ("v1", "Service", "services", true),
            ]
            .map(limen_api::kind)
        });
        match self {
            Self::Ingress => &KINDS[0],
            Self::FederatedIngress => &KINDS[1],
            Self::Service => &KINDS[2],
        }
    }

    /// A root of this kind.
    pub(crate) fn object(self, namespace: &str, name: &str) -> ObjectId {
        let kind = self.kind().clone();
        ObjectId { kind, namespace: Some(namespace.to_owned()), name: name.to_owned() }
    }
}

/// The kind of a root that is compiled.
pub(super) fn root_kind(id: &ObjectId) -> RootKind {
    RootKind::of(&id.kind).unwrap_or(RootKind::Ingress)
}

/// Namespace and name of the GlobalIngress of a root.
pub(crate) fn global_key(id: &ObjectId) -> Key {
    let name = match root_kind(id) {
        RootKind::Ingress => id.name.clone(),
        RootKind::FederatedIngress => format!("{FEDERATED_PREFIX}{}", id.name),
        RootKind::Service => format!("{SERVICE_PREFIX}{}", id.name),
    };
    (id.namespace.clone().unwrap_or_default(), name)
}

/// The roots that a GlobalIngress could be of.
pub(super) fn roots_of((namespace, name): &Key) -> [ObjectId; 3] {
    let bare = name.strip_prefix(FEDERATED_PREFIX).unwrap_or(name);
    let service = name.strip_prefix(SERVICE_PREFIX).unwrap_or(name);
    [
        RootKind::Ingress.object(namespace, name),
        RootKind::FederatedIngress.object(namespace, bare),
        RootKind::Service.object(namespace, service),
    ]
}
