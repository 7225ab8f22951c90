//! Requests of people: to join and unjoin clusters, to drain them, to explain.

mod account;
mod drain;
mod drain_before_unjoin;
mod explain;
mod join;
mod precedence;
mod unjoin;

pub use drain::{AskError, Drain, Drained, TrafficSnapshot, drain, undrain};
pub use explain::{Catalogue, ExplainError, Explained, Outlook, explain};
pub use join::{JoinError, JoinOptions, Joined, is_own, join};
pub use precedence::hindrance;
pub use unjoin::{Left, UnjoinOptions, unjoin};
