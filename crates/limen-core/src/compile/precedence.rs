//! Precedence of the TrafficPolicies of one namespace.
//!
//! A policy that names a root comes before one for its whole namespace; of equals the oldest comes
//! first, then the first by name. A policy that is not created yet has no creation time and comes
//! last. Of several policies with the same target one is in force; the others conflict with it.

use super::policy::TargetReference;

/// Rank of a policy among those of its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyCandidate<'a, T> {
    /// Its name.
    pub name: &'a str,
    /// Its creation time; nothing for a policy that is only proposed.
    pub created: Option<T>,
    /// The root that it names; nothing for the whole namespace.
    pub target: Option<&'a TargetReference>,
}

impl<'a, T: Ord + Copy> PolicyCandidate<'a, T> {
    /// The rank: the least comes first.
    fn rank(&self) -> (bool, bool, Option<T>, &'a str) {
        (self.target.is_none(), self.created.is_none(), self.created, self.name)
    }

    /// Whether this policy comes before another.
    pub fn precedes(&self, other: &Self) -> bool {
        self.rank() < other.rank()
    }
}

/// The policy that governs a root, of the policies of its namespace. `is_root` tells whether a
/// reference names the root.
pub fn governing_policy<'a, T: Ord + Copy>(
    candidates: impl IntoIterator<Item = PolicyCandidate<'a, T>>,
    is_root: impl Fn(&TargetReference) -> bool,
) -> Option<PolicyCandidate<'a, T>> {
    let meant = candidates.into_iter().filter(|one| one.target.is_none_or(&is_root));
    meant.min_by_key(PolicyCandidate::rank)
}

/// The policy that keeps another from being in force: the first with the same target that comes
/// before it.
pub fn conflicting_policy<'a, T: Ord + Copy>(
    candidates: impl IntoIterator<Item = PolicyCandidate<'a, T>>,
    policy: &PolicyCandidate<'_, T>,
) -> Option<&'a str> {
    let same = candidates.into_iter().filter(|one| one.target == policy.target);
    let before = same.filter(|one| one.name != policy.name && one.rank() < policy.rank());
    before.min_by_key(PolicyCandidate::rank).map(|one| one.name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn web() -> TargetReference {
        TargetReference { kind: "Ingress".to_owned(), name: "web".to_owned() }
    }

    fn is_web(target: &TargetReference) -> bool {
        *target == web()
    }

    #[test]
    fn a_named_root_comes_before_the_namespace_then_age_then_name() {
        let (web, other) = (web(), TargetReference { name: "other".to_owned(), ..web() });
        let own = |name, created| PolicyCandidate { name, created, target: Some(&web) };
        let general = |name, created| PolicyCandidate { name, created, target: None };
        let elsewhere = PolicyCandidate { name: "x", created: Some(0), target: Some(&other) };
        for (candidates, expected) in [
            (vec![general("a", Some(1)), own("b", Some(9))], Some("b")),
            (vec![own("b", Some(2)), own("c", Some(1))], Some("c")),
            (vec![own("c", Some(1)), own("b", Some(1))], Some("b")),
            // A policy that is only proposed comes after all that exist.
            (vec![own("a", None), own("z", Some(9))], Some("z")),
            (vec![own("a", None), general("z", Some(9))], Some("a")),
            (vec![elsewhere], None),
            (vec![elsewhere, general("g", None)], Some("g")),
        ] {
            let found = governing_policy(candidates.clone(), is_web);
            assert_eq!(found.map(|one| one.name), expected, "{candidates:?}");
        }
    }

    proptest! {
        #[test]
        fn of_policies_with_one_target_exactly_one_has_no_conflict_and_governs(
            created in prop::collection::vec(prop::option::of(0_i64..3), 1..6),
            named in any::<bool>(),
        ) {
            let (web, names) = (web(), ["a", "b", "c", "d", "e"]);
            let candidates: Vec<_> = names
                .iter()
                .zip(created)
                .map(|(name, created)| {
                    PolicyCandidate { name, created, target: named.then_some(&web) }
                })
                .collect();
            let free = candidates
                .iter()
                .filter(|one| conflicting_policy(candidates.iter().copied(), one).is_none());
            let free: Vec<_> = free.map(|one| one.name).collect();
            let governing = governing_policy(candidates.iter().copied(), is_web).unwrap();
            prop_assert_eq!(free, [governing.name]);
        }
    }
}
