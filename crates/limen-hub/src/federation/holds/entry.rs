//! One hold: its set, its object on the hub, its name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limen_api::{HeldRoot, Hold, HoldReason, HoldSpec};
use limen_core::federated::ObjectId;
use limen_core::lifecycle::{HeldEntry, HoldSet};

/// A hold, and its object.
pub(super) struct Entry {
    pub(super) set: HoldSet,
    pub(super) reason: HoldReason,
    /// The accident in words, without counts.
    pub(super) accident: String,
    pub(super) roots: BTreeMap<Arc<str>, ObjectId>,
    pub(super) created: i64,
    /// The object as it is on the hub.
    pub(super) object: Option<Hold>,
}

/// Pending write to the object of a hold.
pub(in crate::federation) enum HoldWrite {
    Create(Box<Hold>),
    Update { spec: Box<HoldSpec>, version: String },
    Delete { uid: String },
}

impl Entry {
    pub(super) fn spec(&self) -> HoldSpec {
        let held = |(uid, entry): (&Arc<str>, &HeldEntry)| {
            let id = self.roots.get(uid)?;
            Some(HeldRoot {
                api_version: id.kind.api_version.clone(),
                kind: id.kind.kind.clone(),
                namespace: id.namespace.clone(),
                name: id.name.clone(),
                uid: uid.to_string(),
                clusters: entry.clusters.iter().map(ToString::to_string).collect(),
            })
        };
        let roots: Vec<HeldRoot> = self.set.roots.iter().filter_map(held).collect();
        let (root_count, leaf_count) = (roots.len(), self.set.leaves());
        HoldSpec {
            reason: self.reason,
            message: format!("{}; {root_count} objects, {leaf_count} leaves", self.accident),
            root_count,
            leaf_count,
            roots,
            release: self.set.released,
        }
    }
}

/// Members whose leaves of a root an object names.
pub(super) fn names(held: &HeldRoot) -> BTreeSet<Arc<str>> {
    held.clusters.iter().map(|name| Arc::from(name.as_str())).collect()
}

/// The name of a hold of an accident.
pub(super) fn numbered(prefix: &str, n: usize) -> Arc<str> {
    match n {
        1 => prefix.into(),
        n => format!("{prefix}-{n}").into(),
    }
}

/// The first part of the names of holds.
pub(super) fn short(reason: HoldReason) -> &'static str {
    match reason {
        HoldReason::MassDeletion => "mass-deletion",
        HoldReason::NamespaceDeleted => "namespace-deleted",
        HoldReason::NothingSelected => "nothing-selected",
        HoldReason::LargeRemoval => "large-removal",
        HoldReason::MemberReturned => "member-returned",
        HoldReason::PolicyGone => "policy-gone",
    }
}

/// A short name for a key, which may be long or no valid name.
pub(super) fn digest(key: &str) -> String {
    let mut hash: u32 = 0x811c_9dc5;
    for byte in key.bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    format!("{hash:08x}")
}
