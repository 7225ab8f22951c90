//! The fate of leaves whose root is deleted.

use crate::federated::OnDelete;

/// Fate of the leaves of a deleted root. `orphaned`: the deletion itself asked for orphans.
/// `understood`: the fate by root and policy, if both can be read and the root is governed as it was when its leaves were
/// applied. `stamped`: what they said when leaves were applied. An unknown fate releases.
pub fn fate(orphaned: bool, understood: Option<OnDelete>, stamped: Option<OnDelete>) -> OnDelete {
    match (orphaned, understood.or(stamped)) {
        (true, _) | (false, None) => OnDelete::Orphan,
        (false, Some(known)) => known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_fate_releases_and_never_deletes() {
        use OnDelete::{Cascade, Orphan};
        for (orphaned, understood, stamped, expected) in [
            (false, Some(Cascade), None, Cascade),
            (false, Some(Cascade), Some(Orphan), Cascade),
            (false, None, Some(Orphan), Orphan),
            (false, None, Some(Cascade), Cascade),
            (false, None, None, Orphan),
            (true, Some(Cascade), Some(Cascade), Orphan),
        ] {
            assert_eq!(fate(orphaned, understood, stamped), expected);
        }
    }
}
