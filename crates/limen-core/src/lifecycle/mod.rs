//! The rules of taking, changing and giving up what members hold.
//!
//! ```text
//! batch of changed roots ──► removals ──┐
//! ledger of recent removals ────────────┼─► judge ──► pass, recorded in the ledger first
//! limits ───────────────────────────────┘        └──► Hold: the exact set, written down first
//! ```
//!
//! Laws, which the simulator tries to break:
//! - a removal is carried out only after the ledger, or a released hold, says so on disk;
//! - a hold ends by a release that names it, once, or because nothing in it would be lost;
//! - held roots count against nobody;
//! - the unknown (a fate, a policy, a member's identity) deletes nothing and widens nothing.

mod fate;
mod governance;
mod hold_set;
mod identity;
mod ledger;
mod removal;

pub use fate::fate;
pub use governance::{Governance, Governed, governance};
pub use hold_set::{HeldEntry, HoldSet, Standing};
pub use identity::{Identity, Recorded, identify};
pub use ledger::Ledger;
pub use removal::{Cause, Limits, Reason, Removal, judge};
