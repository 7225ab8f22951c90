//! The fate of leaves whose root is deleted.

use crate::federated::OnDelete;

/// Fate of the leaves of a deleted root. `orphaned`: the deletion itself asked for orphans.
/// `understood`: the fate by root and policy, if both can be read and the root is governed as it was when its leaves were
/// applied. `stamped`: what they said when leaves were applied. An unknown fate releases, and so does
/// one that has changed since: nobody can tell whether that was before the deletion.
pub fn fate(orphaned: bool, understood: Option<OnDelete>, stamped: Option<OnDelete>) -> OnDelete {
    let said = [understood, stamped];
    let cascades = said.contains(&Some(OnDelete::Cascade));
    match cascades && !orphaned && !said.contains(&Some(OnDelete::Orphan)) {
        true => OnDelete::Cascade,
        false => OnDelete::Orphan,
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
            (false, Some(Cascade), Some(Orphan), Orphan),
            (false, Some(Orphan), Some(Cascade), Orphan),
            (false, Some(Cascade), Some(Cascade), Cascade),
            (false, None, Some(Orphan), Orphan),
            (false, None, Some(Cascade), Cascade),
            (false, None, None, Orphan),
            (true, Some(Cascade), Some(Cascade), Orphan),
        ] {
            assert_eq!(fate(orphaned, understood, stamped), expected);
        }
    }
}
