//! What a decision remembers of the ones before it.

use super::plan::Plan;
use super::smooth::SmoothWeights;

/// Whose turn it is, for the decisions of one plan.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub(super) shares: SmoothWeights,
    pub(super) targets: SmoothWeights,
    /// Whose turn it is when nobody has room.
    pub(super) crowded: SmoothWeights,
    /// By target: how far it is from giving up another request to a partial drain, in percent.
    pub(super) drained: Vec<u16>,
    /// By rule that matches headers: how far it is from taking another request, in percent.
    pub(super) matched: Vec<u16>,
    /// By target: the number of the decision in which it turned out to be full.
    pub(super) full: Vec<u64>,
    pub(super) decision: u64,
}

impl Memory {
    /// The memory of a plan that has decided nothing yet.
    pub fn new(plan: &Plan) -> Self {
        Self {
            shares: SmoothWeights::new(plan.shares()),
            targets: SmoothWeights::new(plan.targets()),
            crowded: SmoothWeights::new(plan.targets()),
            drained: vec![0; plan.targets()],
            matched: vec![0; plan.matches()],
            full: vec![0; plan.targets()],
            decision: 0,
        }
    }

    pub(super) fn is_full(&self, target: usize) -> bool {
        self.full[target] == self.decision
    }
}
