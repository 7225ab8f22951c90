//! Servers on loopback, asked by a client that shares no code with them.

mod answers;
mod bed;
mod challenges;
mod client;
mod delegations;
mod dnssec;
mod encrypted;
mod life;
mod limits;
mod log;
mod malformed;
mod policies;
mod services;
mod transfers;
mod tsig;
