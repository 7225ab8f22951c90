//! Whether removals look like an accident.
//!
//! Deletion by name is intent, and passes up to a number beyond reach by hand. Indirect removal
//! (by a selector, a policy, a label, a cluster that returns) is held at a low
//! threshold. A batch is judged as a whole, so that nothing of an accident slips through before the
//! rest is held.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Ledger;

/// How much is carried out without asking a person.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The share of all leaves that may go indirectly within the window.
    pub share: f64,
    /// As many leaves may always go indirectly, however few there are.
    pub always: usize,
    /// Roots of one namespace that may be deleted by name within the window.
    pub roots: usize,
    /// The window, in seconds.
    pub window: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { share: 0.3, always: 10, roots: 50, window: 60 }
    }
}

/// Where a removal comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A person deleted the root, or took it out of the federation, by name.
    Named,
    /// The Namespace of the root is being deleted, with this many roots in it.
    Namespace {
        /// Roots in the Namespace.
        roots: usize,
    },
    /// Anything else.
    Indirect,
}

/// Leaves of one root that would go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The namespace of the root, its own name for a Namespace.
    pub namespace: Arc<str>,
    /// Where it comes from.
    pub cause: Cause,
    /// Members that would lose a leaf.
    pub losing: BTreeSet<Arc<str>>,
    /// Members that would keep theirs or get one.
    pub keeping: usize,
    /// Members that returned from a long absence and have not been judged since.
    pub returned: BTreeSet<Arc<str>>,
}

/// Why removals wait for a person.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Reason {
    /// More roots were deleted than a person deletes by name.
    #[error("{roots} objects of namespace {namespace} deleted within a minute")]
    MassDeletion {
        /// The namespace.
        namespace: Arc<str>,
        /// Roots deleted within the window.
        roots: usize,
    },
    /// A Namespace with many roots was deleted.
    #[error("Namespace {namespace} deleted with {roots} objects in it")]
    NamespaceDeleted {
        /// The namespace.
        namespace: Arc<str>,
        /// Roots in it.
        roots: usize,
    },
    /// A placement selects no cluster any more.
    #[error("the placement no longer selects any cluster")]
    NothingSelected,
    /// A large share of all leaves would go.
    #[error("{going} of {all} leaves would be deleted")]
    LargeRemoval {
        /// Leaves to be deleted, with those of the window.
        going: usize,
        /// Leaves in all, with those to be deleted.
        all: usize,
    },
    /// A member returned after a long absence.
    #[error("cluster {0} returned after a long absence and holds leaves that are no longer wanted")]
    MemberReturned(Arc<str>),
}

/// Judges a batch: for each removal, why it waits, or nothing if it passes. `all` is the number of
/// leaves that members hold, those of the batch included.
pub fn judge(
    batch: &[Removal],
    ledger: &Ledger,
    all: usize,
    limits: Limits,
    now: i64,
) -> Vec<Option<Reason>> {
    let mut verdicts: Vec<Option<Reason>> = batch.iter().map(|one| alone(one, limits)).collect();
    let waiting = |at: usize, verdicts: &[Option<Reason>]| verdicts[at].is_none();
    let mut by_name: BTreeMap<&Arc<str>, Vec<usize>> = BTreeMap::new();
    let mut indirect = Vec::new();
    for (at, removal) in batch.iter().enumerate() {
        if waiting(at, &verdicts) && !removal.losing.is_empty() {
            match removal.cause {
                Cause::Named | Cause::Namespace { .. } => {
                    by_name.entry(&removal.namespace).or_default().push(at);
                }
                Cause::Indirect => indirect.push(at),
            }
        }
    }
    for (namespace, members) in by_name {
        let roots = ledger.deleted(namespace, now, limits.window) + members.len();
        if roots > limits.roots {
            for at in members {
                let namespace = namespace.clone();
                verdicts[at] = Some(Reason::MassDeletion { namespace, roots });
            }
        }
    }
    let losing: usize = indirect.iter().map(|at| batch[*at].losing.len()).sum();
    let going = ledger.removed(now, limits.window) + losing;
    let all = all.max(losing);
    if losing > 0 && is_large(going, all, limits) {
        for at in indirect {
            verdicts[at] = Some(Reason::LargeRemoval { going, all });
        }
    }
    verdicts
}

/// The reason to hold one removal regardless of all others.
fn alone(removal: &Removal, limits: Limits) -> Option<Reason> {
    if removal.losing.is_empty() {
        return None;
    }
    match removal.cause {
        Cause::Named => None,
        Cause::Namespace { roots } => {
            let namespace = removal.namespace.clone();
            (roots > limits.roots).then_some(Reason::NamespaceDeleted { namespace, roots })
        }
        Cause::Indirect => {
            let returned = removal.losing.intersection(&removal.returned).next();
            let returned = returned.map(|name| Reason::MemberReturned(name.clone()));
            returned.or((removal.keeping == 0).then_some(Reason::NothingSelected))
        }
    }
}

/// Whether that many leaves of all are too many to go at once.
fn is_large(going: usize, all: usize, limits: Limits) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "counts of leaves are far below 2^52")]
    let share = going as f64 / all.max(1) as f64;
    going > limits.always && share > limits.share
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn removal(cause: Cause, losing: usize, keeping: usize) -> Removal {
        let losing = (0..losing).map(|at| Arc::from(format!("c{at}"))).collect();
        Removal { namespace: "shop".into(), cause, losing, keeping, returned: BTreeSet::new() }
    }

    fn verdicts(batch: &[Removal], ledger: &Ledger, all: usize) -> Vec<Option<Reason>> {
        judge(batch, ledger, all, Limits::default(), 1000)
    }

    #[test]
    fn what_a_person_deletes_by_name_passes() {
        let batch: Vec<_> = (0..50).map(|_| removal(Cause::Named, 5, 0)).collect();
        assert!(verdicts(&batch, &Ledger::default(), 250).iter().all(Option::is_none));
        let namespace = removal(Cause::Namespace { roots: 50 }, 5, 0);
        assert_eq!(verdicts(&[namespace], &Ledger::default(), 5), [None]);
    }

    #[test]
    fn more_than_a_person_deletes_by_name_is_held_and_counts_against_nobody() {
        let batch: Vec<_> = (0..51).map(|_| removal(Cause::Named, 1, 0)).collect();
        let expected = Reason::MassDeletion { namespace: "shop".into(), roots: 51 };
        let held = verdicts(&batch, &Ledger::default(), 51);
        assert!(held.iter().all(|verdict| *verdict == Some(expected.clone())), "{held:?}");
        let mut ledger = Ledger::default();
        ledger.delete(1000, "shop", 50);
        assert!(verdicts(&[removal(Cause::Named, 1, 0)], &ledger, 10)[0].is_some());
        let other = Removal { namespace: "other".into(), ..removal(Cause::Named, 1, 0) };
        assert_eq!(verdicts(&[other], &ledger, 10), [None]);
    }

    #[test]
    fn a_namespace_full_of_roots_is_held_with_all_that_is_in_it() {
        let held =
            verdicts(&[removal(Cause::Namespace { roots: 51 }, 1, 0)], &Ledger::default(), 9);
        let expected = Reason::NamespaceDeleted { namespace: "shop".into(), roots: 51 };
        assert_eq!(held, [Some(expected)]);
    }

    #[test]
    fn what_follows_indirectly_is_held_at_a_low_threshold_as_a_whole() {
        let few: Vec<_> = (0..10).map(|_| removal(Cause::Indirect, 1, 4)).collect();
        assert!(verdicts(&few, &Ledger::default(), 10).iter().all(Option::is_none));
        let many: Vec<_> = (0..11).map(|_| removal(Cause::Indirect, 1, 4)).collect();
        let held = verdicts(&many, &Ledger::default(), 20);
        let expected = Some(Reason::LargeRemoval { going: 11, all: 20 });
        assert!(held.iter().all(|verdict| *verdict == expected), "{held:?}");
        assert!(verdicts(&many, &Ledger::default(), 100).iter().all(Option::is_none));
        let mut ledger = Ledger::default();
        ledger.remove(990, 30);
        assert!(verdicts(&few[..1], &ledger, 40)[0].is_some(), "the window counts");
    }

    #[test]
    fn a_placement_that_selects_nothing_is_held_and_so_is_a_return_after_long() {
        let nothing = removal(Cause::Indirect, 1, 0);
        assert_eq!(verdicts(&[nothing], &Ledger::default(), 99), [Some(Reason::NothingSelected)]);
        let returned =
            Removal { returned: BTreeSet::from(["c0".into()]), ..removal(Cause::Indirect, 1, 3) };
        let expected = Some(Reason::MemberReturned("c0".into()));
        assert_eq!(verdicts(&[returned], &Ledger::default(), 99), [expected]);
    }

    proptest! {
        /// Unreleased removals within a window stay below the limits for any sequence of batches.
        #[test]
        fn removals_that_pass_stay_below_the_limits(
            batches in prop::collection::vec(
                prop::collection::vec((0..3_u8, 1..8_usize, 0..3_usize), 1..40), 1..12),
            all in 1..400_usize,
        ) {
            let limits = Limits::default();
            let mut ledger = Ledger::default();
            let (mut by_name, mut leaves) = (0, 0);
            for (at, batch) in batches.iter().enumerate() {
                let now = 1000 + i64::try_from(at).unwrap();
                let batch: Vec<_> = batch
                    .iter()
                    .map(|&(cause, losing, keeping)| match cause {
                        0 => removal(Cause::Named, losing, keeping),
                        1 => removal(Cause::Namespace { roots: losing }, losing, keeping),
                        _ => removal(Cause::Indirect, losing, keeping),
                    })
                    .collect();
                let judged = judge(&batch, &ledger, all, limits, now);
                for (removal, verdict) in batch.iter().zip(judged) {
                    match (verdict, removal.cause) {
                        (Some(_), _) => {}
                        (None, Cause::Indirect) => {
                            ledger.remove(now, removal.losing.len());
                            leaves += removal.losing.len();
                            prop_assert!(removal.keeping > 0);
                        }
                        (None, _) => {
                            ledger.delete(now, "shop", 1);
                            by_name += 1;
                        }
                    }
                }
            }
            prop_assert!(by_name <= limits.roots, "{by_name}");
            let most = limits.always.max((limits.share * 400.0) as usize);
            prop_assert!(leaves <= most, "{leaves} of {all}");
        }
    }
}
