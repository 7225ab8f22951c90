//! The syncer: makes one member hold its leaves, and observes it.
//!
//! ```text
//!         desired leaves, permit           list, watch
//! hub ──────────────────────────► syncer ◄────────────── member
//!     ◄──────────────────────────        ──────────────►
//!         events, reports              get, apply, delete
//! ```
//!
//! One task owns everything that is known of one member: the desired leaves, the leaves that it
//! holds (from watches), and what is still to be done (a queue with back-off). So a slow or dead
//! member delays no other. A member is written only when something would change there; what to do
//! about each leaf is decided by `limen_core::reconcile`.
//!
//! A syncer reads only until the hub permits writes: the hub first verifies which cluster answers,
//! and who claims it. Every write names the uid and version that it was decided on, carries the
//! hub's epoch, and is sent only while the hub holds its lease.
//!
//! The same syncer runs in the hub (push) and in a member (pull).

mod applied;
mod authority;
mod claim;
pub mod clock;
mod desired;
mod discovery;
mod engine;
mod fence;
mod leaves;
mod member_error;
mod namespace;
mod object_api;
mod observe;
mod probe;
mod queue;
mod slim_object;
mod syncer;
mod watch;
mod work;

pub use authority::Permit;
pub use claim::Claim;
pub use desired::{Desired, DesiredLeaf, Report};
pub use discovery::lacks;
pub use fence::Fence;
pub use limen_core::mark::Mark;
pub use member_error::{MemberError, MemberErrorKind};
pub use object_api::{ObjectApi, Precondition, is_absent, object_path};
pub use observe::{Observation, Observed, observe};
pub use probe::{Description, Nodes};
pub use queue::Queue;
pub use syncer::{ApiVerdict, MemberEvent, MemberNews, Syncer, SyncerOptions};
pub use watch::{Seen, follow};
pub use work::LeafChange;
