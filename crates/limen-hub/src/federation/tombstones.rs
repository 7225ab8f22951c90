//! Tombstones: leaves of roots that are gone.
//!
//! Those for members that could not be told are on record. The most recent ones are remembered for the
//! sake of leaves that turn up late: a request that nobody waits for any more may still be on its way
//! to a member, or lie in its sockets while it hangs. The leaf that it makes appears after its root is
//! gone. The uid of a root is never used again, so the decision for its leaves holds for such a leaf
//! too.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use limen_api::Tombstone;
use limen_core::federated::ObjectId;
use limen_sync::{Desired, DesiredLeaf};
use tokio::time::Instant;

/// How long a request may be on its way.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// How many roots are remembered at most; the oldest go first.
const MOST: usize = 10_000;

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

/// The most recent tombstones, by the uid of the root.
#[derive(Default)]
pub(super) struct RecentTombstones {
    stones: BTreeMap<String, Tombstone>,
    order: VecDeque<(Instant, String)>,
}

impl RecentTombstones {
    /// Remembers the tombstone of a root that is gone.
    pub(super) fn add(&mut self, stone: Tombstone, now: Instant) {
        while self.order.len() >= MOST
            || self.order.front().is_some_and(|(order, _)| now.duration_since(*order) > REMEMBERED)
        {
            if let Some((_, uid)) = self.order.pop_front() {
                self.stones.remove(&uid);
            }
        }
        self.order.push_back((now, stone.root_uid.clone()));
        self.stones.insert(stone.root_uid.clone(), stone);
    }

    /// The tombstone of a root, if it is gone for not too long.
    pub(super) fn of(&self, root_uid: &str) -> Option<&Tombstone> {
        self.stones.get(root_uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stone(root_uid: &str) -> Tombstone {
        Tombstone { root_uid: root_uid.to_owned(), ..Tombstone::default() }
    }

    #[test]
    fn a_tombstone_is_remembered_for_a_while_and_not_for_ever() {
        let mut recent = RecentTombstones::default();
        let start = Instant::now();
        recent.add(stone("first"), start);
        recent.add(stone("second"), start + REMEMBERED);
        assert!(recent.of("first").is_some() && recent.of("second").is_some());
        recent.add(stone("third"), start + REMEMBERED + Duration::from_secs(1));
        assert!(recent.of("first").is_none() && recent.of("second").is_some());
    }

    #[test]
    fn memory_is_bounded() {
        let mut recent = RecentTombstones::default();
        let now = Instant::now();
        for n in 0..=MOST {
            recent.add(stone(&n.to_string()), now);
        }
        assert_eq!(recent.stones.len(), MOST);
        assert!(recent.of("0").is_none() && recent.of("1").is_some());
    }
}
