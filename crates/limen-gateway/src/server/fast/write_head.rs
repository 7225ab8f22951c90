//! The heads that a target and a client get to see, as bytes.

use http::HeaderValue;

use super::head::Head;
use super::response::AnswerHead;
use crate::proxy::{Client, hexadecimal};
use crate::snapshot::Route;
use crate::upstream::random;
use crate::worker::Shared;

/// Writes a request as a target gets it, with its body. The answer is the request's id.
pub(super) fn for_target(
    out: &mut Vec<u8>,
    inbox: &[u8],
    head: &Head,
    client: &Client,
    shared: &Shared,
    host: &str,
) -> HeaderValue {
    let mut add = |parts: &[&[u8]]| {
        for part in parts {
            out.extend_from_slice(part);
        }
    };
    let of = |range: &std::ops::Range<usize>| &inbox[range.clone()];
    add(&[
        of(&head.method),
        b" ",
        of(&head.target),
        b" HTTP/1.1\r\nhost: ",
        of(&head.host),
        b"\r\n",
    ]);
    for line in &head.lines {
        add(&[of(line)]);
    }
    let before =
        |range: &Option<std::ops::Range<usize>>| range.as_ref().filter(|_| client.trusted).map(of);
    add(&[b"x-forwarded-for: "]);
    if let Some(before) = before(&head.forwarded_for) {
        add(&[before, b", "]);
    }
    let proto = before(&head.forwarded_proto).unwrap_or(client.proto().as_bytes());
    let named = before(&head.forwarded_host).unwrap_or(of(&head.host));
    add(&[client.plain.as_bytes(), b"\r\nx-forwarded-proto: ", proto]);
    add(&[b"\r\nx-forwarded-host: ", named, b"\r\nforwarded: "]);
    if let Some(before) = before(&head.forwarded) {
        add(&[before, b", "]);
    }
    add(&[client.forwarded.as_bytes(), b";host=\"", host.as_bytes(), b"\"\r\nvia: "]);
    add(&[shared.via.as_bytes(), b"\r\ncdn-loop: ", shared.name.as_bytes()]);
    let sensible =
        |id: &&[u8]| (1..=128).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic);
    let made: [u8; 32];
    let id = match head.id.as_ref().map(of).filter(sensible) {
        Some(id) => id,
        None => {
            made = hexadecimal([random(), random()]);
            &made
        }
    };
    add(&[b"\r\nx-request-id: ", id]);
    if !head.trace {
        let (trace, span) =
            (hexadecimal::<32>([random(), random()]), hexadecimal::<16>([random()]));
        add(&[b"\r\ntraceparent: 00-", &trace, b"-", &span, b"-00"]);
    }
    add(&[b"\r\n\r\n", &inbox[head.end..head.end + head.body]]);
    if shared.log.is_on() {
        return HeaderValue::from_bytes(id).unwrap_or(HeaderValue::from_static("none"));
    }
    HeaderValue::from_static("")
}

/// Writes the head of an answer as a client gets it.
pub(super) fn for_client(
    out: &mut Vec<u8>,
    bytes: &[u8],
    answer: &AnswerHead,
    close: bool,
    client: &Client,
    route: &Route,
    shared: &Shared,
) {
    let status = answer.status;
    let digits = [status / 100, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8);
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&digits);
    out.push(b' ');
    out.extend_from_slice(&bytes[answer.reason.clone()]);
    out.extend_from_slice(b"\r\n");
    for line in &answer.lines {
        out.extend_from_slice(&bytes[line.clone()]);
    }
    out.extend_from_slice(b"via: ");
    out.extend_from_slice(shared.via.as_bytes());
    out.extend_from_slice(b"\r\n");
    if client.tls.is_some()
        && route.tls
        && !answer.hsts
        && let Some(hsts) = &route.ingress.hsts
    {
        out.extend_from_slice(b"strict-transport-security: ");
        out.extend_from_slice(hsts.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if close {
        out.extend_from_slice(b"connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
}
