//! Headers that are for one hop only, and upgrades.

use http::header::{CONNECTION, HeaderName, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderValue, Request, Version};

static KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
static PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Removes what is for this hop only.
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        let mut named = Vec::new();
        for value in headers.get_all(CONNECTION) {
            for name in value.to_str().unwrap_or_default().split(',') {
                if let Ok(name) = HeaderName::from_bytes(name.trim().as_bytes())
                    && name != http::header::HOST
                    && name != http::header::CONTENT_LENGTH
                    && name != TE
                {
                    named.push(name);
                }
            }
        }
        for name in named {
            headers.remove(name);
        }
        headers.remove(CONNECTION);
    }
    let trailers = headers.get(TE).is_some_and(|value| {
        let value = value.to_str().unwrap_or_default();
        value.split(',').any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
    });
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    } else {
        headers.remove(TE);
    }
    for name in [&KEEP_ALIVE, &PROXY_CONNECTION, &TRANSFER_ENCODING, &UPGRADE] {
        headers.remove(name);
    }
}

/// Removes what is for this hop only from an answer. `Trailer` stays, as trailers do.
pub(super) fn remove_hop_by_hop_of_answer(headers: &mut HeaderMap) {
    let trailer = headers.get(TRAILER).cloned();
    remove_hop_by_hop(headers);
    if let Some(trailer) = trailer {
        headers.insert(TRAILER, trailer);
    }
}

/// The protocol that a client wants to go on with.
pub(super) fn upgrade_of<B>(request: &Request<B>) -> Option<HeaderValue> {
    if request.version() != Version::HTTP_11 {
        return None;
    }
    let wanted = request.headers().get(UPGRADE)?;
    let connection = request.headers().get_all(CONNECTION).iter();
    let mut named =
        connection.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let named = named.any(|name| name.trim().eq_ignore_ascii_case("upgrade"));
    // HTTP/2 over an upgrade is deprecated, and would let a client leave these rules behind.
    (named && !wanted.as_bytes().eq_ignore_ascii_case(b"h2c")).then(|| wanted.clone())
}
