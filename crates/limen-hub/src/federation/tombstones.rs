//! Tombstones: leaves of roots that are gone, in members that could not be told.

use limen_api::Tombstone;
use limen_core::federated::ObjectId;
use limen_sync::{Desired, DesiredLeaf};

/// Desired state for a tombstone.
pub(super) fn last_desire(tombstone: &Tombstone) -> DesiredLeaf {
    let desired = if tombstone.release { Desired::Orphan } else { Desired::Nothing };
    DesiredLeaf {
        root_uid: tombstone.root_uid.as_str().into(),
        replaces: None,
        revision: 0,
        desired,
    }
}

/// The tombstone of a leaf.
pub(super) fn tombstone(leaf: &ObjectId, root_uid: &str, release: bool) -> Tombstone {
    Tombstone {
        api_version: leaf.kind.api_version.clone(),
        kind: leaf.kind.kind.clone(),
        plural: leaf.kind.plural.clone(),
        namespace: leaf.namespace.clone(),
        name: leaf.name.clone(),
        root_uid: root_uid.to_owned(),
        release,
    }
}

/// The leaf that a tombstone stands for.
pub(super) fn leaf_of(tombstone: &Tombstone) -> ObjectId {
    let Tombstone { api_version, kind, plural, namespace, name, .. } = tombstone;
    ObjectId {
        kind: limen_api::kind((api_version, kind, plural, namespace.is_some())),
        namespace: namespace.clone(),
        name: name.clone(),
    }
}
