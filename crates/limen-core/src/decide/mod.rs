//! Where a request goes, once its backend is known.
//!
//! ```text
//! residency, readiness      ─┐
//! version split, exact      ─┼─► decide ──► a target ──► two_choices ──► one of its addresses
//! nearest first, while there ─┘                                             │
//! is room (meter)     ▲             RetryBudget: may it be tried again? ◄── failed
//!                     │             Outlier: leave the address alone for a while ◄─┘
//! what all edges want, capacities ─► divide: what each edge may send where
//! ```
//!
//! [`Plan`] is made once for each backend of a snapshot; [`Plan::decide`] runs for every request,
//! in well under a microsecond and without allocating. What it must remember from one request to
//! the next (whose turn it is) is in [`Memory`], which has one owner; what changes from moment to
//! moment is seen through [`Sight`]. An answer is never empty while residency allows any target:
//! what is not ready is fallen back to, worst last, and at each level of readiness targets of
//! weight 0 come after weighted ones unless the weights are strict. [`explain()`] says the same
//! for people.

mod budget;
mod choice;
mod explain;
mod hashing;
mod memory;
mod meter;
mod nearness;
mod outlier;
mod plan;
mod power_of_two;
mod readiness;
mod residency;
mod smooth;
#[cfg(test)]
mod tests;
mod utilisation;
mod vantages;
mod waterfall;

pub use budget::RetryBudget;
pub use choice::{Ask, Decision, Room, Sight};
pub use explain::{Dropped, Explanation, Odds, Question, Step, explain};
pub use hashing::{hash, rendezvous};
pub use memory::Memory;
pub use meter::{meter, meter_with, ramp, remeter};
pub use nearness::{Nearness, Vantage, nearness};
pub use outlier::{Outlier, may_eject};
pub use plan::{Plan, capacity};
pub use power_of_two::{slow_start_share, two_choices};
pub use readiness::{OwnKnowledge, Readiness, readiness};
pub use smooth::SmoothWeights;
pub use utilisation::{LOAD_HEADER, capacity_at, known_capacity, utilisation};
pub use vantages::Vantages;
pub use waterfall::{Claim, Division, divide};
