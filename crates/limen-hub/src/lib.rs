//! The hub's controllers.
//!
//! One task owns everything that the hub knows: every root, member, policy and edge. An event updates
//! it and makes some roots dirty; dirty roots are planned and compiled by the pure functions of
//! `limen-core`; desired leaves go to one syncer for each member, records to one outbox. Nothing is
//! kept that cannot be read again from the hub and the members, so a hub that was killed goes on where
//! it was.

mod clusters;
mod conditions;
mod connect;
mod effects;
mod federation;
mod hub;
mod hub_kind;
mod kinds;
mod lease;
mod operator;
mod outbox;
mod policies;
mod roots;
mod setup;
mod status;
mod task;
mod traffic;

pub use connect::{ConnectError, Connector, SecretData, member_client};
pub use hub::{Hub, HubOptions};
pub use kinds::federated_types;
pub use lease::{Election, Lost};
pub use operator::{
    AskError, Catalogue, Drain, Drained, ExplainError, Explained, JoinError, JoinOptions, Joined,
    Left, Outlook, TrafficSnapshot, UnjoinOptions, drain, explain, hindrance, is_own, join,
    undrain, unjoin,
};
pub use setup::{MADE_ANNOTATION, SetupError, definition_marks, hub_id, set_up};
