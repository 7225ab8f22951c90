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

/// How a root's removals stand with the holds that it is in. Without any, they are to be judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Members whose leaves a person has released.
    pub released: BTreeSet<Arc<str>>,
    /// All other leaves that it would lose wait.
    pub waits: bool,
}

impl Standing {
    /// How a root stands with these holds that would lose its leaves in these members.
    pub fn of<'a>(
        holds: impl IntoIterator<Item = &'a HoldSet>,
        root_uid: &str,
        losing: &BTreeSet<Arc<str>>,
    ) -> Self {
        let mut standing = Self::default();
        for hold in holds {
            match hold.roots.get(root_uid) {
                Some(entry) if hold.released => {
                    standing.released.extend(entry.clusters.intersection(losing).cloned());
                }
                Some(_) => standing.waits = true,
                None => {}
            }
        }
        standing
    }

    /// Whether a person has to release the leaf in a member first.
    pub fn holds(&self, cluster: &str) -> bool {
        self.waits && !self.released.contains(cluster)
    }
}

impl HoldSet {
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

    /// A person has released exactly these leaves. Whatever it took in since then leaves it, and
    /// has to wait elsewhere.
    pub fn release(&mut self, named: &BTreeMap<Arc<str>, BTreeSet<Arc<str>>>) -> Self {
        let mut unseen = Self::default();
        for (uid, entry) in &mut self.roots {
            let seen =
                |cluster: &Arc<str>| named.get(uid).is_some_and(|seen| seen.contains(cluster));
            let clusters: BTreeSet<_> =
                entry.clusters.extract_if(.., |cluster| !seen(cluster)).collect();
            if !clusters.is_empty() {
                unseen.roots.insert(uid.clone(), HeldEntry { clusters });
            }
        }
        self.roots.retain(|_, entry| !entry.clusters.is_empty());
        self.released = true;
        unseen
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
            let standing = Standing::of([&held], "u", &losing);
            assert!(standing.waits && standing.released.is_empty());
            held.follow("u", &losing);
            assert_eq!(held.roots["u"].clusters, losing);
        }
        assert!(held.follow("u", &names(&[])));
        assert!(held.roots.is_empty());
        assert_eq!(Standing::of([&held], "u", &names(&["a"])), Standing::default());
    }

    #[test]
    fn a_release_is_for_what_a_person_has_seen() {
        let mut held = set(false);
        held.follow("u", &names(&["a", "b", "c"]));
        held.roots.insert("v".into(), HeldEntry { clusters: names(&["a"]) });
        let unseen = held.release(&[(Arc::from("u"), names(&["a", "b"]))].into());
        assert_eq!(held, set(true));
        assert_eq!(unseen.roots["u"].clusters, names(&["c"]));
        assert_eq!(unseen.roots["v"].clusters, names(&["a"]));
        let standing = Standing::of([&held, &unseen], "u", &names(&["a", "c"]));
        assert!(!standing.holds("a") && standing.holds("c"));
    }

    #[test]
    fn a_release_is_for_this_set_once() {
        let mut released = set(true);
        let losing = names(&["b", "c"]);
        let standing = Standing::of([&released], "u", &losing);
        assert_eq!(standing, Standing { released: names(&["b"]), waits: false });
        released.follow("u", &losing);
        assert_eq!(released.roots["u"].clusters, names(&["b"]));
        released.follow("u", &names(&["c"]));
        assert!(released.roots.is_empty(), "the same accident later is judged again");
    }
}
