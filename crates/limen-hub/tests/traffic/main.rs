//! A hub, its members and real gateways in this process: from what people submit to what clients
//! get.

mod bed;
mod certificates;
#[path = "../../../limen-dns/tests/dns/client.rs"]
#[allow(dead_code, reason = "shared with the tests of the DNS server, which use more of it")]
mod client;
mod drains;
mod edges;
mod hosts;
mod members;
mod misrouted;
mod policies;
mod proofs;
#[path = "../federation/rig.rs"]
#[allow(dead_code, reason = "shared with the tests of the federation, which use more of it")]
mod rig;
mod services;
mod stories;
