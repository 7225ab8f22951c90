//! The server as a client sees it, in this process: no other program is needed.

mod custom;
mod objects;
mod server;
mod watches;
