//! Where a request goes, once its backend is known.
//!
//! ```text
//! readiness of each target ─┐
//! version split, exact     ─┼─► decide ──► a target ──► two_choices ──► one of its addresses
//! nearest first, in tiers  ─┘                                              │
//!                    RetryBudget: may it be tried again?   ◄── failed ─────┤
//!                    Outlier: leave the address alone for a while ◄────────┘
//! ```
//!
//! [`Plan`] is made once for each backend of a snapshot; [`Plan::decide`] runs for every request,
//! in well under a microsecond and without allocating. What it must remember from one request to
//! the next (whose turn it is) is in [`Memory`], which has one owner. An answer is never empty
//! while there is any target: what is not ready is fallen back to, worst last.

mod budget;
mod memory;
mod nearness;
mod outlier;
mod plan;
mod readiness;
mod smooth;
#[cfg(test)]
mod tests;
mod two;

pub use budget::RetryBudget;
pub use memory::Memory;
pub use nearness::{Nearness, nearness};
pub use outlier::{Outlier, may_eject};
pub use plan::{Ask, Decision, Plan};
pub use readiness::{OwnKnowledge, Readiness, readiness};
pub use smooth::SmoothWeights;
pub use two::{slow_start_share, two_choices};
