//! The hub's controllers.
//!
//! One task owns everything that the hub knows: every root, member, policy and edge. An event updates
//! it and makes some roots dirty; dirty roots are planned and compiled by the pure functions of
//! `limen-core`; desired leaves go to one syncer for each member, records to one outbox. Nothing is
//! kept that cannot be read again from the hub and the members, so a hub that was killed goes on where
//! it was.

mod account;
mod clusters;
mod connect;
mod drain_before_unjoin;
mod explain;
mod federation;
mod hub;
mod hub_kind;
mod join;
mod kinds;
mod lease;
mod outbox;
mod policies;
mod renewal;
mod roots;
mod setup;
mod status;
mod task;
mod traffic;
mod unjoin;

pub use connect::{ConnectError, Connector, SecretData, member_client};
pub use explain::{Catalogue, ExplainError, Explained, Outlook, explain};
pub use hub::{Hub, HubOptions};
pub use join::{JoinError, JoinOptions, Joined, is_own, join};
pub use kinds::federated_types;
pub use lease::{Election, Lost};
pub use setup::{MADE_ANNOTATION, SetupError, definition_marks, hub_id, set_up};
pub use traffic::{AskError, Drain, Drained, Picture, drain, hindrance, undrain};
pub use unjoin::{Left, UnjoinOptions, unjoin};
