//! A hub and its members in this process: what people submit, and what becomes of it.

mod bad_days;
mod claims;
mod doubt;
mod explaining;
mod holds;
mod membership;
mod more_bad_days;
#[cfg(feature = "e2e")]
mod real_members;
#[cfg(feature = "e2e")]
mod refusals;
mod rig;
mod spreading;
mod upkeep;
