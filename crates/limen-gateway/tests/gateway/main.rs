//! Gateways on loopback, with real sockets on both sides.

mod affinity;
mod bed;
mod floods;
mod forwarding;
mod http2;
mod life;
#[cfg(feature = "e2e")]
mod nginx;
mod ordinary;
mod overflow;
mod patience;
mod probes;
mod protocols;
mod seen;
mod slow;
mod smuggling;
mod tls;
mod traffic;
mod trouble;
