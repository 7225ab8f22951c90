//! The server as a client sees it, in this process: no other program is needed.

mod audit;
mod custom;
mod fairness;
mod fuzz;
mod garbage;
mod in_process;
mod objects;
mod requests;
mod rights;
mod server;
mod tokens;
mod trick_store;
mod uploads;
mod watches;
