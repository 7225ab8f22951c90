//! The authoritative DNS data plane: one name that leads to the nearest healthy cluster.
//!
//! ```text
//!             ┌───────────── one thread for each worker, one socket each ─────────────┐
//! resolvers ► │ packets ► read ► zone ► name ► place of the client ► choice ► answers │
//!             └──────▲──────────────▲────────────────────▲──────────────▲─────────────┘
//!                    │        immutable zones      networks, MMDB   limen-core decides
//!             ┌──────┴──────────────┴──────────────────────────────────────────────────┐
//!             │ control thread: source of objects ► compile · probes · lookups · TCP    │
//!             └─────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The objects and the decisions are those of the gateway ([`limen_core::decide`]); only the grain
//! is coarser: an answer holds for a network and for its TTL. Workers share nothing but the zones
//! and take no lock. An answer is never empty while a cluster has any address: what is not ready
//! is fallen back to, worst last.
//!
//! What it must never do: answer an answer, answer for somebody else's names, or send more to a
//! stranger than the stranger sent.

mod admin;
mod choose;
mod control;
mod dnssec;
mod health;
mod knowledge;
mod metrics;
mod options;
mod place;
mod query_log;
mod respond;
mod server;
mod shared;
mod stamp;
mod transfer;
mod update;
mod wire;
mod zone;

pub use dnssec::{KeyFolder, KeyFolderError, KeyState, Rolled, StoredKey};
pub use limen_api::source;
pub use limen_dns_wire::tsig::TsigKey;
pub use options::{LoggedClients, Options, QueryLogOptions, QueryLogTo};
pub use place::PlacesError;
pub use server::{CertificateError, CertificateFiles, Server, StartError};
pub use transfer::Secondary;
pub use update::Challenges;
