//! A hub, its members and real gateways in this process: from what people submit to what clients
//! get.

mod bed;
#[path = "../federation/rig.rs"]
#[allow(dead_code, reason = "shared with the tests of the federation, which use more of it")]
mod rig;
mod stories;
