//! DNS as bytes: what both the server that answers and the client that updates others' servers
//! need. No socket, no file, no clock: `now` is an argument.

pub mod name;
pub mod tsig;

/// Two bytes as a number.
pub fn u16_at(packet: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]))
}
