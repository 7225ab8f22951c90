//! Listening sockets: one for each worker and address, on the same port.
//!
//! The kernel spreads new connections over the sockets of a port (`SO_REUSEPORT`), so workers do
//! not share an accept queue, and a new process can take over from an old one: it binds the same
//! port, starts to listen when its routes are loaded, and then the old one stops.

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
