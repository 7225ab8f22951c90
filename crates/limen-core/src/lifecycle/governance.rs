//! Roots whose policy vanishes.
//!
//! A policy narrows where a root goes. When it is deleted, or stops selecting the root, the root
//! would spread to every cluster; that is an accident more often than a wish. So a root that was
//! governed keeps its last placement until a policy governs it again, or a person releases it.

use std::collections::BTreeSet;
use std::sync::Arc;

/// How a root was governed when its leaves were last applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Governed {
    /// The policy.
    pub policy: String,
    /// The members that it placed the root in.
    pub placed: BTreeSet<Arc<str>>,
}

/// Where a root goes, as far as policies are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Governance {
    /// Where its placement says.
    Current,
    /// Where it was: its policy is gone, and without it these members would be added.
    Kept {
        /// Members that would be added.
        gaining: BTreeSet<Arc<str>>,
    },
}

/// Where a root goes. `before`: how it was governed, if it was. `governed`: a policy governs it.
/// `selected`: the members that its placement selects. `released`: a person let it spread.
pub fn governance(
    before: Option<&Governed>,
    governed: bool,
    selected: &BTreeSet<Arc<str>>,
    released: bool,
) -> Governance {
    let Some(before) = before.filter(|_| !governed && !released) else {
        return Governance::Current;
    };
    let gaining: BTreeSet<Arc<str>> = selected.difference(&before.placed).cloned().collect();
    match gaining.is_empty() {
        true => Governance::Current,
        false => Governance::Kept { gaining },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<Arc<str>> {
        names.iter().map(|&name| name.into()).collect()
    }

    #[test]
    fn a_vanished_policy_widens_nothing_until_a_person_says_so() {
        let before = Governed { policy: "eu-only".to_owned(), placed: set(&["europe"]) };
        let all = set(&["asia", "europe"]);
        let kept = Governance::Kept { gaining: set(&["asia"]) };
        for (before, governed, selected, released, expected) in [
            (Some(&before), false, &all, false, kept),
            (Some(&before), false, &all, true, Governance::Current),
            (Some(&before), true, &all, false, Governance::Current),
            (None, false, &all, false, Governance::Current),
            (Some(&before), false, &set(&["europe"]), false, Governance::Current),
            (Some(&before), false, &set(&[]), false, Governance::Current),
        ] {
            assert_eq!(governance(before, governed, selected, released), expected);
        }
    }
}
