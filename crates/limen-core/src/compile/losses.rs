//! Kinds of a member whose watch fails, each with its own age.
//!
//! A watch that fails is tried again at least every half minute and reports each failure; one that
//! recovers may stay silent until an object changes. So a loss counts from its second report on,
//! by the time between its first and its last, and ends with an event or with silence.

use std::collections::BTreeMap;

use super::member::ObservedKind;

/// The objects of a kind whose watch has failed for this many seconds are stale.
const STALE_AFTER: i64 = 30;
/// A loss that has not been reported for this many seconds is over.
const OVER_AFTER: i64 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Loss {
    first: i64,
    last: i64,
}

impl Loss {
    fn is_stale(self) -> bool {
        self.last - self.first >= STALE_AFTER
    }
}

/// The losses of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses(BTreeMap<ObservedKind, Loss>);

impl Losses {
    /// The kind that has been stale for longest.
    pub(super) fn stale(&self) -> Option<ObservedKind> {
        let stale = self.0.iter().filter(|(_, loss)| loss.is_stale());
        stale.min_by_key(|(kind, loss)| (loss.first, **kind)).map(|(kind, _)| *kind)
    }

    /// Adds a report of a failure. Returns whether the stale kind changes.
    pub(super) fn add(&mut self, kind: ObservedKind, now: i64) -> bool {
        let before = self.stale();
        let loss = self.0.entry(kind).or_insert(Loss { first: now, last: now });
        if now - loss.last > OVER_AFTER {
            loss.first = now;
        }
        loss.last = now;
        self.stale() != before
    }

    /// Ends the losses that are not reported any more. Returns whether the stale kind changes.
    pub(super) fn expire(&mut self, now: i64) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let before = self.stale();
        self.0.retain(|_, loss| now - loss.last <= OVER_AFTER);
        self.stale() != before
    }

    /// An event of a kind has come. Returns whether the stale kind changes.
    pub(super) fn recover(&mut self, kind: ObservedKind) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let before = self.stale();
        self.0.remove(&kind);
        self.stale() != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_stale_when_its_watch_has_failed_for_half_a_minute() {
        let mut losses = Losses::default();
        let mut lost = |now| (losses.add(ObservedKind::Slice, now), losses.stale());
        assert_eq!(lost(100), (false, None));
        assert_eq!(lost(125), (false, None));
        assert_eq!(lost(151), (true, Some(ObservedKind::Slice)));
        assert_eq!(lost(176), (false, Some(ObservedKind::Slice)));
        assert!(!losses.expire(236));
        assert!(losses.expire(237), "a watch that is not reported as failing works");
        assert_eq!(losses.stale(), None);
    }

    #[test]
    fn one_failure_is_no_loss_however_long_ago() {
        let mut losses = Losses::default();
        losses.add(ObservedKind::Service, 0);
        assert!(!losses.add(ObservedKind::Service, 100));
        assert_eq!(losses.stale(), None);
    }

    #[test]
    fn each_kind_has_its_own_age_and_an_event_ends_a_loss() {
        let mut losses = Losses::default();
        for now in [0, 30] {
            losses.add(ObservedKind::Slice, now);
            losses.add(ObservedKind::Ingress, now + 10);
        }
        assert_eq!(losses.stale(), Some(ObservedKind::Slice));
        assert!(!losses.recover(ObservedKind::Node));
        assert!(losses.recover(ObservedKind::Slice));
        assert_eq!(losses.stale(), Some(ObservedKind::Ingress));
    }
}
