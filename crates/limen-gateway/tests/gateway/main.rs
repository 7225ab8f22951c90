//! Gateways on loopback, with real sockets on both sides.

mod bed;
mod forwarding;
mod life;
mod ordinary;
mod protocols;
mod seen;
mod smuggling;
mod tls;
mod trouble;
