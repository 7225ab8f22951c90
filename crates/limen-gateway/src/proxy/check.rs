//! What is refused before anything is looked up: ambiguous, malformed or looping requests.
//!
//! The framing of HTTP/1 has been checked in its raw form when a request gets here
//! ([`crate::server::strict`]); this is the part that is the same for every version.

use http::header::{CONTENT_LENGTH, EXPECT, HOST, HeaderName, TRANSFER_ENCODING};
use http::{Method, Request, Version};

use super::refusal::{self, Refusal};
use crate::options::Options;

pub(super) static CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");

/// The authority that a request is for, if nothing is wrong with it.
pub(super) fn check<'a, B>(request: &'a Request<B>, options: &Options) -> Result<&'a str, Refusal> {
    let (uri, headers) = (request.uri(), request.headers());
    if request.method() == Method::CONNECT {
        return Err(refusal::METHOD);
    }
    let length = uri.path_and_query().map_or(0, |path| path.as_str().len());
    if length > options.limits.uri_bytes {
        return Err(refusal::URI_TOO_LONG);
    }
    let asterisk = request.method() == Method::OPTIONS && uri.path() == "*";
    if !uri.path().starts_with('/') && !asterisk {
        return Err(refusal::BAD_TARGET);
    }
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(refusal::TWO_HOSTS);
    }
    let host = match host.map(|host| host.to_str()) {
        None => None,
        Some(Ok(host)) => Some(host),
        Some(Err(_)) => return Err(refusal::BAD_HOST),
    };
    let authority = match (uri.authority(), host) {
        (Some(authority), Some(host)) if !authority.as_str().eq_ignore_ascii_case(host) => {
            return Err(refusal::TWO_HOSTS);
        }
        (Some(authority), _) => authority.as_str(),
        (None, Some(host)) => host,
        // HTTP/1.0 clients need not say.
        (None, None) if request.version() == Version::HTTP_10 => "host.invalid",
        (None, None) => return Err(refusal::BAD_HOST),
    };
    if headers.contains_key(TRANSFER_ENCODING) {
        if headers.contains_key(CONTENT_LENGTH) {
            return Err(refusal::TWO_FRAMINGS);
        }
        let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
        let chunked = codings.next().is_some_and(|coding| coding.as_bytes() == b"chunked");
        if !chunked || codings.next().is_some() {
            return Err(refusal::BAD_CODING);
        }
    }
    if headers.get_all(CONTENT_LENGTH).iter().nth(1).is_some() {
        return Err(refusal::TWO_LENGTHS);
    }
    if let Some(expectation) = headers.get(EXPECT)
        && !expectation.as_bytes().eq_ignore_ascii_case(b"100-continue")
    {
        return Err(refusal::EXPECTATION);
    }
    for seen in headers.get_all(&CDN_LOOP) {
        let seen = seen.to_str().unwrap_or_default().split(',');
        let mut names = seen.map(|entry| entry.split(';').next().unwrap_or_default().trim());
        if names.any(|name| name.eq_ignore_ascii_case(&options.name)) {
            return Err(refusal::LOOP);
        }
    }
    Ok(authority)
}
