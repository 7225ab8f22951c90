//! What a decision remembers of the ones before it.

use super::plan::Plan;
use super::smooth::SmoothWeights;

/// Whose turn it is, for the decisions of one plan.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub(super) shares: SmoothWeights,
    pub(super) targets: SmoothWeights,
    /// By target: how far it is from giving up another request to a partial drain, in percent.
    pub(super) drained: Vec<u16>,
}

impl Memory {
    /// The memory of a plan that has decided nothing yet.
    pub fn new(plan: &Plan) -> Self {
        Self {
            shares: SmoothWeights::new(plan.shares()),
            targets: SmoothWeights::new(plan.targets()),
            drained: vec![0; plan.targets()],
        }
    }
}
