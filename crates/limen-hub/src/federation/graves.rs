//! Roots that are gone, for the sake of leaves that turn up late.
//!
//! A request that nobody waits for any more may still be on its way to a member, or lie in the
//! member's sockets while it hangs. The leaf that it makes appears after its root is gone. The uid of
//! a root is never used again, so what was decided for its leaves holds for such a leaf too.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use limen_api::Tombstone;

/// How long a request may be on its way.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// How many roots are remembered at most; the oldest go first.
const MOST: usize = 10_000;

/// What was decided for leaves of roots that are gone, by the uid of the root.
#[derive(Default)]
pub(super) struct Graves {
    stones: BTreeMap<String, Tombstone>,
    dug: VecDeque<(Instant, String)>,
}

impl Graves {
    /// A root is gone, and this was to become of its leaves.
    pub(super) fn bury(&mut self, stone: Tombstone, now: Instant) {
        while self.dug.len() >= MOST
            || self.dug.front().is_some_and(|(dug, _)| now.duration_since(*dug) > REMEMBERED)
        {
            if let Some((_, uid)) = self.dug.pop_front() {
                self.stones.remove(&uid);
            }
        }
        self.dug.push_back((now, stone.root_uid.clone()));
        self.stones.insert(stone.root_uid.clone(), stone);
    }

    /// What was to become of the leaves of a root.
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
    fn a_grave_is_kept_for_a_while_and_not_for_ever() {
        let mut graves = Graves::default();
        let start = Instant::now();
        graves.bury(stone("first"), start);
        graves.bury(stone("second"), start + REMEMBERED);
        assert!(graves.of("first").is_some() && graves.of("second").is_some());
        graves.bury(stone("third"), start + REMEMBERED + Duration::from_secs(1));
        assert!(graves.of("first").is_none() && graves.of("second").is_some());
    }

    #[test]
    fn graves_are_bounded() {
        let mut graves = Graves::default();
        let now = Instant::now();
        for n in 0..=MOST {
            graves.bury(stone(&n.to_string()), now);
        }
        assert_eq!(graves.stones.len(), MOST);
        assert!(graves.of("0").is_none() && graves.of("1").is_some());
    }
}
