//! Listening sockets: one for each worker and address, on the same port.
//!
//! The kernel spreads new connections over the sockets of a port (`SO_REUSEPORT`), so workers do
//! not share an accept queue, and a new process can take over from an old one: it binds the same
//! port, starts to listen when its routes are loaded, and then the old one stops.
//!
//! That is done on purpose or not at all: a gateway that is not told to take over refuses to start
//! where somebody listens already, since it would silently get half of the other's clients.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// Connections that may wait to be accepted.
pub(crate) const BACKLOG: u32 = 4096;

/// The sockets of one worker. They are bound but do not listen yet.
pub(crate) struct Sockets {
    pub(crate) http: Vec<TcpSocket>,
    pub(crate) https: Vec<TcpSocket>,
}

/// Binds one address.
pub(crate) fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    // Connections inherit it.
    socket.set_nodelay(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Whether somebody listens there. A socket that does not share its port cannot be bound then,
/// while connections that linger from a process that has ended are no hindrance.
pub(crate) fn is_taken(address: SocketAddr) -> std::io::Result<bool> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    match socket.bind(address) {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Ok(true),
        Err(error) => Err(error),
    }
}
