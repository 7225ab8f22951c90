//! The exact sets that wait for a person, and how far each root in them is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A root in a hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldEntry {
    /// Members whose leaves wait.
    pub clusters: BTreeSet<Arc<str>>,
}

/// One hold: roots by uid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HoldSet {
    /// The roots in it.
    pub roots: BTreeMap<Arc<str>, HeldEntry>,
    /// A person has released it.
    pub released: bool,
}

/// How a root's removals stand with the hold that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is in no hold.
    Free,
    /// It waits, with all that it would lose by now.
    Waits,
    /// Released: these go. Others must be judged.
    Released(BTreeSet<Arc<str>>),
}

impl HoldSet {
    /// How a root stands that would lose its leaves in these members.
    pub fn standing(&self, root_uid: &str, losing: &BTreeSet<Arc<str>>) -> Standing {
        let Some(entry) = self.roots.get(root_uid) else { return Standing::Free };
        match self.released {
            false => Standing::Waits,
            true => Standing::Released(entry.clusters.intersection(losing).cloned().collect()),
        }
    }

    /// Notes what a root would lose by now. An unreleased entry follows it exactly, growing and
    /// shrinking; a released one only shrinks. An entry that is empty goes. True if something changed.
    pub fn follow(&mut self, root_uid: &str, losing: &BTreeSet<Arc<str>>) -> bool {
        let Some(entry) = self.roots.get_mut(root_uid) else { return false };
        let now: BTreeSet<Arc<str>> = match self.released {
            false => losing.clone(),
            true => entry.clusters.intersection(losing).cloned().collect(),
        };
        if now == entry.clusters {
            return false;
        }
        match now.is_empty() {
            true => drop(self.roots.remove(root_uid)),
            false => entry.clusters = now,
        }
        true
    }

    /// Leaves in it.
    pub fn leaves(&self) -> usize {
        self.roots.values().map(|entry| entry.clusters.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<Arc<str>> {
        names.iter().map(|&name| Arc::from(name)).collect()
    }

    fn set(released: bool) -> HoldSet {
        let entry = HeldEntry { clusters: names(&["a", "b"]) };
        HoldSet { roots: [(Arc::from("u"), entry)].into(), released }
    }

    #[test]
    fn a_hold_ends_by_release_or_because_nothing_would_be_lost() {
        let mut held = set(false);
        for losing in [names(&["a"]), names(&["a", "b", "c"]), names(&["c"])] {
            assert_eq!(held.standing("u", &losing), Standing::Waits);
            held.follow("u", &losing);
            assert_eq!(held.roots["u"].clusters, losing);
        }
        assert!(held.follow("u", &names(&[])));
        assert!(held.roots.is_empty());
        assert_eq!(held.standing("u", &names(&["a"])), Standing::Free);
    }

    #[test]
    fn a_release_is_for_this_set_once() {
        let mut released = set(true);
        let losing = names(&["b", "c"]);
        assert_eq!(released.standing("u", &losing), Standing::Released(names(&["b"])));
        released.follow("u", &losing);
        assert_eq!(released.roots["u"].clusters, names(&["b"]));
        released.follow("u", &names(&["c"]));
        assert!(released.roots.is_empty(), "the same accident later is judged again");
    }
}
