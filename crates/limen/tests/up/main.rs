//! `limen up` as a process: what it starts, what it survives, and what it leaves.

mod bad_input;
mod dns;
mod life;
mod rig;
#[cfg(feature = "e2e")]
mod seed_guide;
mod stories;
