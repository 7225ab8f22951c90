//! Who did what: a line of JSON for each request that was answered, if asked for.
//!
//! ```text
//!   Record ──► event (pure) ──► bounded queue ──► one thread ──► file
//! ```
//!
//! A request never waits for the disk: if the queue is full, its line is dropped and counted.
//! Lines tell of requests, not of what is in them: no bodies, no headers but the user agent, and
//! no tokens.

mod event;
mod log;

pub(crate) use event::Record;
pub(crate) use log::{AuditError, AuditLog};
