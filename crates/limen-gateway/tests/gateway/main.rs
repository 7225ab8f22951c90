//! Gateways on loopback, with real sockets on both sides.

mod affinity;
mod bed;
mod forwarding;
mod life;
mod ordinary;
mod overflow;
mod protocols;
mod seen;
mod smuggling;
mod tls;
mod traffic;
mod trouble;
