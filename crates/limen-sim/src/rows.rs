//! Directed scenarios: each is a way in which a federation has done harm.

use crate::scenario::Scenario;

/// A directed scenario: its name, the laws that are at stake, and the history.
pub type Row = (&'static str, &'static [u8], fn() -> Scenario);

/// Every directed scenario.
pub const ROWS: &[Row] = &[];
