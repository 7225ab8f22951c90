//! HTTP/2 from a client to a target that speaks HTTP/1.
//!
//! The short way for what browsers mostly ask over HTTP/2: nothing comes after the head, nothing is
//! decided by headers. The head is written down as the target gets it, without another table of
//! headers in between, and the connection to the target has no task of its own. Everything else
//! goes the general way.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{COOKIE, HeaderName, STRICT_TRANSPORT_SECURITY, TRANSFER_ENCODING, VIA};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::{Body, Incoming};

use super::Scratch;
use super::attempts::{Answered, Matched, Wanted};
use super::head::{Role, role};
use super::write_head::{Origin, add_origin};
use crate::proxy::{self, Client, Exchange, ProxyBody, Refusal, entry_of, pay_in};
use crate::server::strict::may_be_host;
use crate::upstream::FailureKind;
use crate::upstream::raw::{AnswerHead, RawBody, Watchdog};
use crate::worker::Shared;

/// Answers one request.
pub(in crate::server) async fn serve(
    shared: Arc<Shared>,
    client: Arc<Client>,
    request: Request<Incoming>,
) -> Response<ProxyBody> {
    let started = Instant::now();
    let mut scratch = Scratch::take();
    let answered = short(&shared, &client, &request, started, &mut scratch).await;
    scratch.give_back();
    let to_head = *request.method() == Method::HEAD;
    let response = match answered {
        Some(response) => response,
        // Large, and not needed for most.
        None => Box::pin(proxy::handle(shared, client, request)).await,
    };
    if to_head { ProxyBody::for_head(response) } else { response }
}

/// The answer to an ordinary request; nothing if it is not for here.
async fn short(
    shared: &Arc<Shared>,
    client: &Client,
    request: &Request<Incoming>,
    started: Instant,
    scratch: &mut Scratch,
) -> Option<Response<ProxyBody>> {
    let (matched, origin) = admit(shared, client, request)?;
    let mut exchange = Exchange::new(shared, started, || entry_of(request, client));
    exchange.matched(&matched.route);
    let id = write_head(&mut scratch.out, request, &origin, client, shared, &matched.host);
    exchange.identified(id);
    pay_in(&matched.backend);
    let patience = tokio::time::Instant::now() + matched.backend.rules.response;
    let mut watchdog = Watchdog::new(patience);
    Some(match matched.ask_targets(started, scratch, &mut watchdog, &mut exchange).await {
        Ok(answered) => answer(answered, &scratch.answer, &matched, client, shared, exchange),
        Err(refusal) => exchange.refused(&refusal),
    })
}

/// Where a request goes, if that can be said here.
fn admit<'a>(
    shared: &Shared,
    client: &Client,
    request: &'a Request<Incoming>,
) -> Option<(Matched, Origin<'a>)> {
    let ordinary = matches!(*request.method(), Method::GET | Method::HEAD)
        && request.version() == Version::HTTP_2
        && request.body().is_end_stream();
    let target = request.uri().path_and_query()?.as_str();
    if !ordinary
        || !target.starts_with('/')
        || !target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
        || target.len() > shared.options.limits.uri_bytes
    {
        return None;
    }
    let origin = origin(request)?;
    let wanted = Wanted {
        method: request.method().clone(),
        host: std::str::from_utf8(origin.host).ok()?,
        path: request.uri().path(),
        forwarded_for: origin.forwarded_for,
        without_body: true,
    };
    Some((Matched::new(shared, client, wanted)?, origin))
}

/// What a request says about itself and where it came from, unless it says anything unusual.
fn origin(request: &Request<Incoming>) -> Option<Origin<'_>> {
    let authority = request.uri().authority()?.as_str().as_bytes();
    if !may_be_host(authority) {
        return None;
    }
    let mut origin = Origin { host: authority, ..Origin::default() };
    for (name, value) in request.headers() {
        let slot = match role(name.as_str().as_bytes()) {
            Role::Passed | Role::Agent => continue,
            Role::Trace => {
                origin.trace = true;
                continue;
            }
            // Whoever names the host twice is looked at more closely.
            Role::Host | Role::Length | Role::Unusual | Role::Dropped | Role::Connection => {
                return None;
            }
            Role::Id => &mut origin.id,
            Role::ForwardedFor => &mut origin.forwarded_for,
            Role::ForwardedProto => &mut origin.forwarded_proto,
            Role::ForwardedHost => &mut origin.forwarded_host,
            Role::Forwarded => &mut origin.forwarded,
        };
        if slot.replace(value.as_bytes()).is_some() {
            return None;
        }
    }
    Some(origin)
}

/// Writes a request as a target gets it. The answer is the request's id.
fn write_head(
    out: &mut Vec<u8>,
    request: &Request<Incoming>,
    origin: &Origin<'_>,
    client: &Client,
    shared: &Shared,
    host: &str,
) -> HeaderValue {
    out.clear();
    let target = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let parts: [&[u8]; 6] = [
        request.method().as_str().as_bytes(),
        b" ",
        target.as_bytes(),
        b" HTTP/1.1\r\nhost: ",
        origin.host,
        b"\r\n",
    ];
    parts.iter().for_each(|part| out.extend_from_slice(part));
    let headers = request.headers();
    for (name, value) in headers {
        let passed =
            matches!(role(name.as_str().as_bytes()), Role::Passed | Role::Agent | Role::Trace);
        if passed && name != COOKIE {
            let line: [&[u8]; 4] = [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"];
            line.iter().for_each(|part| out.extend_from_slice(part));
        }
    }
    write_cookies(out, headers);
    let id = add_origin(out, origin, client, shared, host, &shared.via_h2);
    out.extend_from_slice(b"\r\n\r\n");
    id
}

/// HTTP/2 may split cookies, HTTP/1 may not.
fn write_cookies(out: &mut Vec<u8>, headers: &HeaderMap) {
    let mut before: &[u8] = b"cookie: ";
    for cookie in headers.get_all(COOKIE) {
        out.extend_from_slice(before);
        out.extend_from_slice(cookie.as_bytes());
        before = b"; ";
    }
    if before == b"; " {
        out.extend_from_slice(b"\r\n");
    }
}

/// The answer as the client gets it. `bytes` is what has come of it.
fn answer(
    answered: Answered,
    bytes: &[u8],
    matched: &Matched,
    client: &Client,
    shared: &Shared,
    mut exchange: Exchange,
) -> Response<ProxyBody> {
    let Answered { answer, connection, chosen } = answered;
    // One piece of memory for all headers, and for the body as far as it has come.
    let bytes = Bytes::copy_from_slice(bytes);
    let broken = Refusal::upstream(FailureKind::Broken.status());
    let (Ok(status), Some(mut headers)) =
        (StatusCode::from_u16(answer.status), headers_of(&answer, &bytes))
    else {
        return exchange.refused(&broken);
    };
    headers.append(VIA, shared.via.clone());
    if client.tls.is_some()
        && matched.route.tls
        && !answer.hsts
        && let Some(hsts) = &matched.route.ingress.hsts
    {
        headers.insert(STRICT_TRANSPORT_SECURITY, hsts.clone());
    }
    exchange.status(answer.status);
    let endpoint = chosen.address.endpoint.clone();
    let first = bytes.slice(answer.end..);
    let body = RawBody::new(connection, endpoint, answer.keep, answer.framing, first);
    let Ok(body) = body else { return exchange.refused(&broken) };
    let patience = matched.backend.rules.idle;
    let mut response = Response::new(ProxyBody::raw(body, exchange, patience));
    *response.status_mut() = status;
    *response.version_mut() = Version::HTTP_2;
    *response.headers_mut() = headers;
    response
}

/// The headers of an answer that are passed on.
fn headers_of(answer: &AnswerHead, bytes: &Bytes) -> Option<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(16);
    for run in &answer.lines {
        let mut at = run.start;
        while at < run.end {
            let end = at + memchr::memchr(b'\n', &bytes[at..run.end])?;
            let colon = at + memchr::memchr(b':', &bytes[at..end])?;
            let name = HeaderName::from_bytes(&bytes[at..colon]).ok()?;
            at = end + 1;
            // HTTP/2 has a framing of its own.
            if name == TRANSFER_ENCODING {
                continue;
            }
            let value = bytes[colon + 1..end].trim_ascii();
            let value = HeaderValue::from_maybe_shared(bytes.slice_ref(value)).ok()?;
            headers.append(name, value);
        }
    }
    Some(headers)
}
