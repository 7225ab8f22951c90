//! Tokens whose signature was found good.
//!
//! To check a signature takes longer than most requests, and a client shows the same token with
//! each of them. Only that the signature is good is remembered, which does not change; whatever may
//! change about a token is looked at each time. Tokens themselves are not kept, only their digests.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use ring::digest::{SHA256, digest};

/// How many tokens are remembered. When there are more, all are forgotten: that costs each one more
/// check.
const MOST: usize = 4096;

/// Tokens whose signature was found good.
#[derive(Debug, Default)]
pub(super) struct Remembered(RwLock<HashSet<[u8; 32]>>);

impl Remembered {
    /// Whether a token is among them; otherwise whether it is good, which is remembered if so.
    pub(super) fn or_if(&self, token: &str, is_good: impl FnOnce() -> bool) -> bool {
        let mut id = [0; 32];
        id.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if self.0.read().unwrap_or_else(PoisonError::into_inner).contains(&id) {
            return true;
        }
        let good = is_good();
        if good {
            let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(id);
        }
        good
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_good_is_not_asked_again_and_what_was_not_is() {
        let remembered = Remembered::default();
        assert!(!remembered.or_if("a", || false));
        assert!(remembered.or_if("a", || true));
        assert!(remembered.or_if("a", || unreachable!("it is known")));
        assert!(!remembered.or_if("b", || false));
    }

    #[test]
    fn not_more_than_so_many_are_remembered() {
        let remembered = Remembered::default();
        for n in 0..=MOST {
            assert!(remembered.or_if(&n.to_string(), || true));
        }
        assert_eq!(remembered.0.read().unwrap().len(), 1);
    }
}
