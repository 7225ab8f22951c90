//! The domain of Limen, as pure functions over plain data.
//!
//! ```text
//! Federated ─┐
//! clusters  ─┼─ plan ──► one leaf per member ──► (sync) ──► observations
//!            │                                                  │
//!            │                              merge ◄─────────────┤
//!            │                                                  │
//!            └────────────────── compile ◄──────────────────────┘
//!                                   │
//!                              GlobalIngress ──► decide, for every request and every DNS answer
//! ```
//!
//! Nothing here has a clock, a socket, a file or randomness of its own: `now` is an argument. The
//! same functions run in the hub, the gateways, the DNS servers, `limen explain` and the
//! simulator, so that all of them always agree.

pub mod compile;
pub mod corrections;
pub mod credential;
pub mod decide;
pub mod edge;
pub mod federated;
pub mod geography;
pub mod global;
pub mod handover;
pub mod health;
pub mod json_text;
pub mod leaf;
pub mod lifecycle;
pub mod locality;
pub mod mark;
pub mod membership;
pub mod merge;
pub mod namespace_contents;
pub mod placement;
pub mod plan;
pub mod publish;
pub mod reconcile;
pub mod rollout;
pub mod route;
pub mod selector;
pub mod service_names;
pub mod serving;
pub mod simulate;
