//! Adapters to DNS that others run: what roots compile to, published where people look for names
//! already.
//!
//! ```text
//! hub ── GlobalIngress ──► wanted (limen-core) ─┬─ plan (limen-core) ──► RFC 2136 ──► BIND, Knot, ...
//!                                               └──────────────────────► DNSEndpoint ► external-dns
//! ```
//!
//! What to publish and what to change is decided by `limen_core::publish`; here are the protocols,
//! and the loop that tries again. One cargo feature each.

#[cfg(feature = "dns-endpoint")]
mod dns_endpoint;
mod publish;
#[cfg(feature = "rfc2136")]
mod rfc2136;
mod rounds;

#[cfg(feature = "dns-endpoint")]
pub use dns_endpoint::{DnsEndpoints, EndpointError, definition};
pub use publish::{
    Place, PublishError, Round, Settings, first_objects, keep_publishing, publish_once,
};
#[cfg(feature = "rfc2136")]
pub use rfc2136::{Rfc2136, UpdateError};
