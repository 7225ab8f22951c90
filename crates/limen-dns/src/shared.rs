//! Things of which equal ones are one.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use foldhash::fast::FixedState;

/// Fewer than this are not worth looking through.
const FEW: usize = 64;

/// All that are in use, and some that were: they are forgotten when there are many.
pub(crate) struct Shared<T: ?Sized> {
    known: HashSet<Arc<T>, FixedState>,
    many: usize,
}

impl<T: ?Sized> Default for Shared<T> {
    fn default() -> Self {
        Self { known: HashSet::default(), many: FEW }
    }
}

impl<T: ?Sized + Eq + Hash> Shared<T> {
    /// The one that all equal ones are.
    pub(crate) fn one(&mut self, new: impl Borrow<T> + Into<Arc<T>>) -> Arc<T> {
        if let Some(known) = self.known.get(new.borrow()) {
            return known.clone();
        }
        if self.known.len() >= self.many {
            self.known.retain(|one| Arc::strong_count(one) > 1);
            self.many = FEW.max(2 * self.known.len());
        }
        let new = new.into();
        self.known.insert(new.clone());
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ones_are_one_for_as_long_as_somebody_has_it() {
        let mut shared: Shared<str> = Shared::default();
        let first = shared.one("0".to_owned());
        assert!(Arc::ptr_eq(&first, &shared.one("0".to_owned())));
        for number in 0..10 * FEW {
            shared.one(number.to_string());
            assert!(shared.known.len() <= 2 * FEW, "those that nobody has are forgotten");
        }
        assert!(Arc::ptr_eq(&first, &shared.one("0".to_owned())), "this one is in use");
    }
}
