//! When an edge was last heard of, by the clock of the hub: those of edges may be wrong.

/// What an edge has said says nothing after so many seconds of silence.
const FRESH: i64 = 30;
/// An edge that has not been heard of for so many seconds is taken for dead. Gateways report every
/// ten seconds at least, so this is four reports that did not come.
const LEASE: i64 = 45;
/// A report that was this old when it was first seen is of an edge that is gone.
const FORGOTTEN: i64 = 300;

/// When an edge was last heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeLiveness {
    /// When it lived.
    alive: i64,
    /// When it spoke, as far as that can be told.
    spoke: Option<i64>,
}

impl EdgeLiveness {
    /// A report is found whose time of arrival nobody knows, as by a hub that starts. All that there
    /// is to go by is when the edge says that it was written. The edge itself may live all the
    /// same: a hub that was away gives everybody time to be heard of.
    pub fn found(observed_at: Option<i64>, now: i64) -> Self {
        let long_ago = observed_at.filter(|at| now - at > FORGOTTEN);
        Self { alive: long_ago.unwrap_or(now), spoke: observed_at.map(|at| at.min(now)) }
    }

    /// A new report has come.
    pub fn again(now: i64) -> Self {
        Self { alive: now, spoke: Some(now) }
    }

    /// Whether what it said last still says something.
    pub fn is_fresh(&self, now: i64) -> bool {
        self.spoke.is_some_and(|at| now - at <= FRESH)
    }

    /// Whether it is to be taken for alive.
    pub fn is_alive(&self, now: i64) -> bool {
        now - self.alive <= LEASE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_an_edge_does_not_matter_once_it_is_heard() {
        let now = 1_000_000;
        let heard = EdgeLiveness::again(now);
        for (later, fresh, alive) in
            [(0, true, true), (30, true, true), (31, false, true), (46, false, false)]
        {
            assert_eq!((heard.is_fresh(now + later), heard.is_alive(now + later)), (fresh, alive));
        }
    }

    #[test]
    fn what_a_hub_finds_when_it_starts_is_as_old_as_it_says() {
        let now = 1_000_000;
        for (observed_at, fresh, alive) in [
            (Some(now - 10), true, true),
            // The hub was away, and perhaps nobody could report.
            (Some(now - 100), false, true),
            (Some(now - 1000), false, false),
            (None, false, true),
        ] {
            let found = EdgeLiveness::found(observed_at, now);
            assert_eq!(
                (found.is_fresh(now), found.is_alive(now)),
                (fresh, alive),
                "{observed_at:?}"
            );
        }
        let ahead = EdgeLiveness::found(Some(now + 3600), now);
        assert!(
            ahead.is_fresh(now) && !ahead.is_fresh(now + 31),
            "a clock that is fast is no life"
        );
        assert!(!ahead.is_alive(now + 46));
    }
}
