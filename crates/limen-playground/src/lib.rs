//! Whole member clusters in one process, for trying Limen out and for testing it.
//!
//! ```text
//!             ┌─────────────────────────── member ───────────────────────────┐
//!   hub ─────►│ link ► API server ◄──── watch, write ──── controllers        │
//!             │             ▲                                   │ start, stop │
//!             │             └── Ingress, EndpointSlice ──┐      ▼             │
//!   clients ─►│ link ─────────────────────────────► gateway ► pods           │
//!             └───────────────────────────────────────────────────────────────┘
//! ```
//!
//! The API server is Limen's own, the way in is `limen gateway` in its member mode, and the pods
//! really answer HTTP, each on a loopback address of its own. The links are where the world
//! outside is played: how far away it is, and whether it can be reached at all.

mod admin;
mod controllers;
mod link;
mod member;
mod pods;
mod topology;

pub use admin::{Admin, AdminError};
pub use member::{Faults, Member, MemberError, MemberOptions, Trouble, ingress_address};
pub use pods::{Behaviour, POD_TAKES, PodState};
pub use topology::{Place, Topology, TopologyError};
