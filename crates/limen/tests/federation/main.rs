//! Federation with real processes: a hub, members that are API servers of their own, and the
//! commands that people use.

mod bad_days;
mod commands;
mod doctor;
mod holds;
mod kubemci;
mod output;
mod processes;
#[cfg(feature = "e2e")]
mod real_members;
