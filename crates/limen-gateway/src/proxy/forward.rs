//! The head that a target gets to see.

use http::header::{CONNECTION, COOKIE, EXPECT, FORWARDED, HOST, HeaderName, UPGRADE, VIA};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Uri, Version};

use super::check::CDN_LOOP;
use super::client::Client;
use super::headers;
use crate::upstream::random;
use crate::worker::Shared;

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Turns the head that a client sent into the one that a target gets. The answer is the request's
/// id.
pub(super) fn prepare(
    head: &mut Parts,
    client: &Client,
    shared: &Shared,
    host: &str,
    upgrade: Option<&HeaderValue>,
) -> HeaderValue {
    let authority = head.uri.authority().map(|authority| authority.as_str().to_owned());
    let path = head.uri.path_and_query().cloned();
    let came_as = head.version;
    head.uri = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    head.version = Version::HTTP_11;
    let headers = &mut head.headers;
    headers::remove_hop_by_hop(headers);
    headers.remove(EXPECT);
    if let Some(protocol) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol.clone());
    }
    if !headers.contains_key(HOST) {
        let value = HeaderValue::try_from(authority.as_deref().unwrap_or(host));
        headers.insert(HOST, value.unwrap_or(HeaderValue::from_static("host.invalid")));
    }
    if came_as == Version::HTTP_2 {
        join_cookies(headers);
    }
    tell_origin(headers, client, host);
    append(headers, VIA, if came_as == Version::HTTP_2 { &shared.via_h2 } else { &shared.via });
    append(headers, CDN_LOOP.clone(), &shared.name);
    identify(headers)
}

/// HTTP/2 may split cookies, HTTP/1 may not.
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let cookies: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&cookies.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}

fn tell_origin(headers: &mut HeaderMap, client: &Client, host: &str) {
    let original = headers.get(HOST).cloned();
    let forwarded = format!("{};host=\"{host}\"", client.forwarded);
    let forwarded = HeaderValue::try_from(forwarded);
    let proto = HeaderValue::from_static(client.proto());
    if client.trusted {
        append(headers, X_FORWARDED_FOR.clone(), &client.plain);
        headers.entry(&X_FORWARDED_PROTO).or_insert(proto);
        if let Some(original) = original {
            headers.entry(&X_FORWARDED_HOST).or_insert(original);
        }
        if let Ok(forwarded) = forwarded {
            append(headers, FORWARDED, &forwarded);
        }
        return;
    }
    headers.insert(&X_FORWARDED_FOR, client.plain.clone());
    headers.insert(&X_FORWARDED_PROTO, proto);
    if let Some(original) = original {
        headers.insert(&X_FORWARDED_HOST, original);
    }
    if let Ok(forwarded) = forwarded {
        headers.insert(FORWARDED, forwarded);
    }
}

/// Adds to a list that may be there already.
fn append(headers: &mut HeaderMap, name: HeaderName, value: &HeaderValue) {
    match headers.entry(name) {
        http::header::Entry::Vacant(entry) => {
            entry.insert(value.clone());
        }
        http::header::Entry::Occupied(mut entry) => {
            let values: Vec<&[u8]> =
                entry.iter().map(HeaderValue::as_bytes).chain([value.as_bytes()]).collect();
            if let Ok(joined) = HeaderValue::from_bytes(&values.join(&b", "[..])) {
                entry.insert(joined);
            }
        }
    }
}

/// Gives the request an id and a trace, unless it has them.
fn identify(headers: &mut HeaderMap) -> HeaderValue {
    let sensible = |value: &HeaderValue| {
        let bytes = value.as_bytes();
        (1..=128).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
    };
    let id = match headers.get(&X_REQUEST_ID).filter(|value| sensible(value)) {
        Some(id) => id.clone(),
        None => {
            let id = hexadecimal::<32>([random(), random()]);
            let id = HeaderValue::from_bytes(&id).unwrap_or(HeaderValue::from_static("none"));
            headers.insert(&X_REQUEST_ID, id.clone());
            id
        }
    };
    if !headers.contains_key(&TRACEPARENT) {
        let mut value = *b"00-00000000000000000000000000000000-0000000000000000-00";
        value[3..35].copy_from_slice(&hexadecimal::<32>([random(), random()]));
        value[36..52].copy_from_slice(&hexadecimal::<16>([random()]));
        if let Ok(value) = HeaderValue::from_bytes(&value) {
            headers.insert(&TRACEPARENT, value);
        }
    }
    id
}

/// Numbers as hexadecimal digits, sixteen each.
pub(crate) fn hexadecimal<const N: usize>(numbers: impl IntoIterator<Item = u64>) -> [u8; N] {
    let mut digits = [b'0'; N];
    for (number, place) in numbers.into_iter().zip(digits.chunks_exact_mut(16)) {
        for (index, digit) in place.iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(number >> (60 - 4 * index)) as usize & 15];
        }
    }
    digits
}

/// The same head for a connection that speaks HTTP/2.
pub(super) fn for_http2(head: &mut Parts, https: bool) {
    head.version = Version::HTTP_2;
    let host = head.headers.remove(HOST);
    let authority = host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or("host.invalid");
    let path = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let scheme = if https { "https" } else { "http" };
    if let Ok(uri) = Uri::try_from(format!("{scheme}://{authority}{path}")) {
        head.uri = uri;
    }
}
