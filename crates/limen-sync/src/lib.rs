//! The syncer: makes one member hold its leaves, and observes it.
//!
//! ```text
//!            wishes                       list, watch
//! hub ──────────────────► syncer ◄──────────────────────── member
//!     ◄──────────────────        ────────────────────────►
//!            reports               get, apply, delete
//! ```
//!
//! One task owns everything that is known of one member: what it shall hold (wishes), what it does
//! hold (from watches), and what is still to be done (a queue with back-off). So a slow or dead
//! member delays no other. A member is written only when something would change there; what to do
//! about each leaf is decided by `limen_core::reconcile`.
//!
//! The same syncer runs in the hub (push) and in a member (pull).

pub mod clock;
mod discovery;
mod fault;
mod fence;
mod lean;
mod leaves;
mod object_api;
mod observe;
mod probe;
mod queue;
mod syncer;
mod watch;
mod work;

pub use discovery::lacks;
pub use fault::{MemberError, MemberErrorKind};
pub use fence::Fence;
pub use leaves::{Desired, DesiredLeaf, Report};
pub use object_api::{ObjectApi, is_absent, object_path};
pub use observe::{Observation, Observed, observe};
pub use probe::{Description, Nodes};
pub use queue::Queue;
pub use syncer::{ApiVerdict, MemberEvent, MemberNews, Syncer, SyncerOptions};
pub use watch::{Seen, follow};
pub use work::LeafChange;
