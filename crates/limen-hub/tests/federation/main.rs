//! A hub and its members in this process: what people submit, and what becomes of it.

mod bad_days;
mod rig;
mod spreading;
