//! A simulator of the federation.
//!
//! ```text
//!   people ──► hub store ◄──► hub processes ◄── network ──► members
//!   (seeded)  (simulated)     (the real code)  (seeded)    (simulated)
//!                  └────────────── effects ────────────────────┘
//!                                    ▼
//!                                  laws ──► violation ──► shortest trace
//! ```
//!
//! Hub processes are [`limen_hub::Hub`] as it ships, on one thread whose clock advances only
//! when everything waits. APIs, networks, members and people are simulated, and a seed decides about
//! all of them: the same seed gives the same history to the byte. After every change of every API the
//! laws of [`laws`] are checked.

pub mod actor;
pub mod api;
pub mod directed;
pub mod generate;
pub mod hub;
pub mod laws;
pub mod members;
pub mod network;
pub mod people;
pub mod random;
pub mod run;
pub mod scenario;
pub mod selection;
pub mod shrink;
pub mod trace;
pub mod truth;
pub mod watchdog;
pub mod wire;
pub mod world;

mod act;
mod deeds;
mod watching;
