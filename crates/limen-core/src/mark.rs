//! The mark of a hub's state: the epoch of its leadership and the revision of its store.
//!
//! Leaves and claims carry it, so that a hub that starts from older state sees that newer state has
//! been written to a member.

use std::fmt;
use std::str::FromStr;

/// An epoch and a revision within it, ordered by epoch first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    /// Grows with every change of the leader, and when a hub is restored.
    pub epoch: u64,
    /// Revision of the hub's store; 0 if unknown.
    pub revision: u64,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.revision)
    }
}

/// Text that is not `epoch.revision`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid mark {0:?}: expected epoch.revision, two decimal numbers")]
pub struct MarkError(String);

impl FromStr for Mark {
    type Err = MarkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => digits.parse::<u64>().ok(),
            false => None,
        };
        let parts = text.split_once('.');
        let parsed = parts.and_then(|(epoch, revision)| number(epoch).zip(number(revision)));
        let (epoch, revision) = parsed.ok_or_else(|| MarkError(text.to_owned()))?;
        Ok(Self { epoch, revision })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_survives_its_text_and_everything_else_is_refused() {
        for mark in [Mark::default(), Mark { epoch: 3, revision: u64::MAX }] {
            assert_eq!(mark.to_string().parse(), Ok(mark));
        }
        for text in ["", "1", "1.", ".1", "1.2.3", "+1.2", "-1.2", "a.b", "1.99999999999999999999"]
        {
            assert!(text.parse::<Mark>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn marks_are_ordered_by_epoch_then_revision() {
        let mark = |epoch, revision| Mark { epoch, revision };
        assert!(mark(1, 9) < mark(2, 0));
        assert!(mark(2, 0) < mark(2, 1));
    }
}
