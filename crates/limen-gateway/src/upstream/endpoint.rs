//! Where to connect, and what to speak there.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use limen_core::global::{self, Protocol};

use super::tls::UpstreamTls;

/// Where connections go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Destination {
    /// An address.
    Ip(SocketAddr),
    /// A name, resolved for every connection.
    Name(String, u16),
}

impl Destination {
    pub(crate) fn new(address: &global::Address) -> Self {
        match address.host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(ip) => Self::Ip(SocketAddr::new(ip, address.port)),
            Err(_) => Self::Name(address.host.clone(), address.port),
        }
    }
}

impl std::fmt::Display for Destination {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(formatter),
            Self::Name(name, port) => write!(formatter, "{name}:{port}"),
        }
    }
}

/// A destination with its protocol. Backends that lead to the same one share its connections.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// What pools know it by.
    pub(crate) id: u64,
    pub(crate) destination: Destination,
    pub(crate) protocol: Protocol,
    pub(crate) tls: Option<Arc<UpstreamTls>>,
    /// Open connections, over all workers.
    pub(crate) connections: AtomicU32,
}

impl Endpoint {
    pub(crate) fn new(
        destination: Destination,
        protocol: Protocol,
        tls: Option<Arc<UpstreamTls>>,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            destination,
            protocol,
            tls,
            connections: AtomicU32::new(0),
        }
    }
}
