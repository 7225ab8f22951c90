//! How much work the rules of one object may be.
//!
//! A unit is about what it takes to look at one value; ten characters of text count as one. Both
//! limits are those of the real server, which counts in much the same way.

/// What one expression may cost.
const PER_EXPRESSION: u64 = 1_000_000;
/// What all the rules of an object may cost.
const PER_OBJECT: u64 = 10_000_000;

/// Counts down.
pub(super) struct Meter {
    object: u64,
    expression: u64,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self { object: PER_OBJECT, expression: PER_EXPRESSION }
    }

    /// Another expression is about to be evaluated.
    pub(super) fn begin(&mut self) {
        self.expression = PER_EXPRESSION;
    }

    /// Whether nothing is left for the object.
    pub(super) fn is_empty(&self) -> bool {
        self.object == 0
    }

    /// Takes from what is left; false if it was not enough.
    #[must_use]
    pub(super) fn take(&mut self, cost: u64) -> bool {
        let enough = cost <= self.object && cost <= self.expression;
        self.object = self.object.saturating_sub(cost);
        self.expression = self.expression.saturating_sub(cost);
        enough
    }
}
