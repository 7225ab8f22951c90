//! The blast-radius hold: a deletion that looks like an accident waits for a person.

use std::collections::BTreeSet;

/// What is held back, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The share of all leaves that may go at once.
    pub share: f64,
    /// As many may always go, however few there are.
    pub always: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { share: 0.3, always: 10 }
    }
}

/// What one change would take away from one root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Members that hold a leaf now and would lose it.
    pub losing: BTreeSet<String>,
    /// Members that would keep theirs or get one.
    pub keeping: usize,
    /// Members that were away so long that the hub may not know why they hold what they hold.
    pub long_away: BTreeSet<String>,
}

/// Why a deletion waits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The placement selected members, and now selects none.
    #[error("the placement no longer selects any cluster; {0} leaves would be deleted")]
    NothingSelected(usize),
    /// Too much goes at once.
    #[error("{going} of {all} leaves would be deleted at once")]
    TooMuch {
        /// Leaves to be deleted, with those deleted a moment ago.
        going: usize,
        /// Leaves in all.
        all: usize,
    },
    /// A member came back after a long absence.
    #[error(
        "cluster {0} came back after a long absence and holds leaves that are not wanted any more"
    )]
    LongAway(String),
}

/// Whether removing leaves of a root that lives on must wait. `recently` are the leaves that were
/// removed in the last moments, `all` those that there are.
pub fn judge(removal: &Removal, recently: usize, all: usize, limits: Limits) -> Option<Reason> {
    let losing = removal.losing.len();
    if losing == 0 {
        return None;
    }
    if let Some(name) = removal.losing.intersection(&removal.long_away).next() {
        return Some(Reason::LongAway(name.clone()));
    }
    if removal.keeping == 0 {
        return Some(Reason::NothingSelected(losing));
    }
    too_much(losing + recently, all, limits)
}

/// Whether that many deletions are too many at once, whoever asked for them.
pub fn too_much(going: usize, all: usize, limits: Limits) -> Option<Reason> {
    #[expect(clippy::cast_precision_loss, reason = "counts of leaves are far below 2^52")]
    let share = going as f64 / all.max(1) as f64;
    (going > limits.always && share > limits.share).then_some(Reason::TooMuch { going, all })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removal(losing: &[&str], keeping: usize, long_away: &[&str]) -> Removal {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Removal { losing: set(losing), keeping, long_away: set(long_away) }
    }

    #[test]
    fn what_looks_like_an_accident_waits() {
        let limits = Limits::default();
        for (removal, recently, all, reason) in [
            (removal(&[], 0, &["a"]), 0, 100, None),
            (removal(&["a"], 2, &[]), 0, 100, None),
            (removal(&["a"], 2, &[]), 9, 10, None),
            (removal(&["a"], 0, &[]), 0, 100, Some(Reason::NothingSelected(1))),
            (removal(&["a", "b"], 1, &["b"]), 0, 100, Some(Reason::LongAway("b".to_owned()))),
            (removal(&["a"], 2, &[]), 30, 100, Some(Reason::TooMuch { going: 31, all: 100 })),
            (removal(&["a"], 2, &[]), 30, 1000, None),
        ] {
            assert_eq!(judge(&removal, recently, all, limits), reason, "{removal:?}");
        }
    }
}
