//! The L7 data plane: what clients touch.
//!
//! ```text
//!             ┌────────────────────────── one thread for each worker ───────────────────────────┐
//! clients ──► │ connection ► request head ► match ► decide ► address ► upstream ► answer ► body  │
//!             │                 strict       routes    limen-core     pool, retries              │
//!             └───────▲─────────────────────────────▲──────────────────────────────┬─────────────┘
//!                     │ immutable snapshot          │ health of addresses          │ what happened
//!             ┌───────┴─────────────────────────────┴──────────────────────────────▼─────────────┐
//!             │ control thread: source of objects ► compile · probers · admin · metrics · log     │
//!             └───────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Workers share nothing but the snapshot and a few counters. There is no lock on the way of a
//! request, bodies are streamed and never held as a whole, and a new snapshot takes effect with
//! the next request while those under way finish with the one they started with.
//!
//! What is not decided here: which rule matches ([`limen_core::route`]) and which target gets the
//! request ([`limen_core::decide`]).

mod access_log;
mod admin;
mod compile;
mod control;
mod edges;
mod explain;
mod flow;
mod gateway;
mod health;
mod limit;
mod listen;
mod metrics;
mod options;
mod proxy;
mod server;
mod snapshot;
pub mod source;
mod tls;
mod upstream;
mod worker;

pub use gateway::{Gateway, StartError};
pub use limen_api::source::{Objects, OwnEdge, SecretData};
pub use options::{AccessLogTo, Limits, Options};
