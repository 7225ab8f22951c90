//! Who a request came from.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::{HeaderMap, HeaderValue};

use crate::options::Options;
use limen_api::source::SecretData;

/// The other side of a client connection.
pub(crate) struct Client {
    /// Where the client is, as far as the connection tells.
    pub(crate) address: SocketAddr,
    /// Which of the gateway's addresses it came to.
    pub(crate) local: SocketAddr,
    /// The TLS version, if it is TLS.
    pub(crate) tls: Option<&'static str>,
    /// The authority of the certificate that it has shown.
    pub(crate) authority: Option<Arc<SecretData>>,
    /// Whether what it says about others in front of it is believed.
    pub(crate) trusted: bool,
    /// The address as `X-Forwarded-For` has it.
    pub(crate) plain: HeaderValue,
    /// And as `Forwarded` has it, with the protocol.
    pub(crate) forwarded: String,
    /// Set when the connection has become a tunnel, whose bytes are nobody's business.
    pub(crate) tunnel: AtomicBool,
}

impl Client {
    pub(crate) fn new(
        address: SocketAddr,
        local: SocketAddr,
        tls: Option<&'static str>,
        authority: Option<Arc<SecretData>>,
        options: &Options,
    ) -> Self {
        let ip = address.ip().to_canonical();
        let trusted = options.trusted_proxies.iter().any(|network| network.contains(&ip));
        let proto = if tls.is_some() { "https" } else { "http" };
        let forwarded = match ip {
            IpAddr::V4(ip) => format!("for={ip};proto={proto}"),
            IpAddr::V6(ip) => format!("for=\"[{ip}]\";proto={proto}"),
        };
        let plain = HeaderValue::try_from(ip.to_string())
            .unwrap_or_else(|_| HeaderValue::from_static("unknown"));
        Self {
            address,
            local,
            tls,
            authority,
            trusted,
            plain,
            forwarded,
            tunnel: AtomicBool::new(false),
        }
    }

    /// Where the request comes from: whoever a trusted proxy in front names last.
    pub(crate) fn original(&self, forwarded_for: Option<&[u8]>) -> IpAddr {
        let own = self.address.ip().to_canonical();
        let named = forwarded_for.filter(|_| self.trusted).and_then(|list| {
            let last = list.rsplit(|byte| *byte == b',').next()?;
            std::str::from_utf8(last.trim_ascii()).ok()?.parse::<IpAddr>().ok()
        });
        named.map_or(own, |address| address.to_canonical())
    }

    /// The same by all headers of a request: what the proxy in front wrote is in the last line.
    pub(crate) fn original_of(&self, headers: &HeaderMap) -> IpAddr {
        let lines = headers.get_all("x-forwarded-for");
        self.original(lines.iter().next_back().map(HeaderValue::as_bytes))
    }

    pub(crate) fn proto(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}
