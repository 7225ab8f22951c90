//! The ledger: removals of the last minute, written down before they are carried out.
//!
//! Limits hold over a window of time, across restarts and leaders. So each removal that passes is
//! entered here, and sent to members only when the entry is on disk. Held removals are not entered:
//! they count against nobody.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Removals that were let pass lately. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Roots that were deleted by name, by second and namespace.
    #[serde(default)]
    deleted: BTreeMap<i64, BTreeMap<String, usize>>,
    /// Leaves that were removed for any other reason, by second.
    #[serde(default)]
    removed: BTreeMap<i64, usize>,
}

impl Ledger {
    /// Enters the deletion of roots by name.
    pub fn delete(&mut self, now: i64, namespace: &str, roots: usize) {
        let entry = self.deleted.entry(now).or_default();
        *entry.entry(namespace.to_owned()).or_default() += roots;
    }

    /// Enters the removal of leaves for any other reason.
    pub fn remove(&mut self, now: i64, leaves: usize) {
        *self.removed.entry(now).or_default() += leaves;
    }

    /// Roots of a namespace that were deleted by name within the window. Entries from the future
    /// count: the clock was set back.
    pub fn deleted(&self, namespace: &str, now: i64, window: i64) -> usize {
        let recent = self.deleted.range(now - window + 1..);
        recent.filter_map(|(_, entry)| entry.get(namespace)).sum()
    }

    /// Leaves that were removed for any other reason within the window.
    pub fn removed(&self, now: i64, window: i64) -> usize {
        self.removed.range(now - window + 1..).map(|(_, leaves)| leaves).sum()
    }

    /// Takes entries from the future for new ones: the clock was set back since. They leave the window
    /// like all others.
    pub fn redate(&mut self, now: i64) {
        for (_, entry) in self.deleted.split_off(&(now + 1)) {
            for (namespace, roots) in entry {
                self.delete(now, &namespace, roots);
            }
        }
        for (_, leaves) in self.removed.split_off(&(now + 1)) {
            self.remove(now, leaves);
        }
    }

    /// Drops entries that have left the window.
    pub fn prune(&mut self, now: i64, window: i64) {
        self.deleted = self.deleted.split_off(&(now - window + 1));
        self.removed = self.removed.split_off(&(now - window + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_count_for_one_window_and_survive_as_text() {
        let mut ledger = Ledger::default();
        ledger.delete(100, "shop", 3);
        ledger.delete(130, "shop", 2);
        ledger.delete(130, "other", 9);
        ledger.remove(130, 7);
        let text = serde_json::to_string(&ledger).unwrap();
        let mut ledger: Ledger = serde_json::from_str(&text).unwrap();
        assert_eq!(ledger.deleted("shop", 159, 60), 5);
        assert_eq!(ledger.deleted("shop", 160, 60), 2);
        assert_eq!(ledger.deleted("shop", 90, 60), 5, "the clock was set back");
        assert_eq!((ledger.removed(189, 60), ledger.removed(190, 60)), (7, 0));
        ledger.prune(190, 60);
        assert_eq!(ledger, Ledger::default());
    }

    #[test]
    fn entries_from_the_future_count_for_one_window_and_no_longer() {
        let mut ledger = Ledger::default();
        ledger.delete(90, "shop", 1);
        ledger.delete(5000, "shop", 3);
        ledger.delete(6000, "shop", 2);
        ledger.remove(7000, 7);
        ledger.redate(100);
        assert_eq!((ledger.deleted("shop", 100, 60), ledger.removed(100, 60)), (6, 7));
        assert_eq!((ledger.deleted("shop", 159, 60), ledger.removed(159, 60)), (5, 7));
        assert_eq!((ledger.deleted("shop", 160, 60), ledger.removed(160, 60)), (0, 0));
    }
}
