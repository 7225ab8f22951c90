//! The hub's controllers.
//!
//! ```text
//! hub API ── watch ──► Federation ── wishes ──► one syncer per member
//!    ▲                  (one task                     │
//!    └──── writes ────── owns it all) ◄── notices ────┘
//! ```
//!
//! One task owns every root and every member that the hub knows. It turns a changed root into
//! wishes for members, and what members report into the root's status. The rules are in
//! `limen-core`; what is here carries data from one to the other. Nothing is kept that cannot be
//! read again from the hub and the members, so a hub that was killed goes on where it was.

mod account;
mod clusters;
mod connect;
mod connections;
mod drain_before_unjoin;
mod explain;
mod federation;
mod join;
mod kinds;
mod lease;
mod outbox;
mod policies;
mod renewal;
mod roots;
mod setup;
mod status;
mod traffic;
mod unjoin;

pub use connect::{ConnectError, SecretData, member_client};
pub use connections::{Connections, Connector};
pub use explain::{Catalogue, ExplainError, Explained, Outlook, explain};
pub use federation::{Federation, FederationOptions};
pub use join::{JoinError, JoinOptions, Joined, is_own, join};
pub use kinds::federated_types;
pub use lease::{Election, Lost};
pub use setup::{MADE_ANNOTATION, SetupError, definition_marks, hub_id, set_up};
pub use traffic::{
    AskError, Drain, Drained, Front, Picture, Traffic, TrafficOptions, VerifyHosts, drain,
    hindrance, undrain,
};
pub use unjoin::{Left, UnjoinOptions, unjoin};
