//! The heads that a target and a client get to see, as bytes.

use http::HeaderValue;

use super::head::Head;
use crate::proxy::{Client, hexadecimal};
use crate::snapshot::Route;
use crate::upstream::random;
use crate::upstream::raw::AnswerHead;
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
    let named = |range: &Option<std::ops::Range<usize>>| range.as_ref().map(of);
    let origin = Origin {
        host: of(&head.host),
        id: named(&head.id),
        trace: head.trace,
        forwarded_for: named(&head.forwarded_for),
        forwarded_proto: named(&head.forwarded_proto),
        forwarded_host: named(&head.forwarded_host),
        forwarded: named(&head.forwarded),
    };
    let id = add_origin(out, &origin, client, shared, host, &shared.via);
    out.extend_from_slice(b"\r\n\r\n");
    out.extend_from_slice(&inbox[head.end..head.end + head.body]);
    id
}

/// What a request says about itself and where it came from.
#[derive(Default)]
pub(super) struct Origin<'a> {
    pub(super) host: &'a [u8],
    pub(super) id: Option<&'a [u8]>,
    /// Whether it belongs to a trace.
    pub(super) trace: bool,
    pub(super) forwarded_for: Option<&'a [u8]>,
    pub(super) forwarded_proto: Option<&'a [u8]>,
    pub(super) forwarded_host: Option<&'a [u8]>,
    pub(super) forwarded: Option<&'a [u8]>,
}

/// What was said about others in front of the client, if it is to be believed.
fn believed<'a>(client: &Client, said: Option<&'a [u8]>) -> Option<&'a [u8]> {
    said.filter(|_| client.trusted)
}

/// Adds the headers that tell a target where a request comes from, without the end of the last
/// line. The answer is the request's id.
pub(super) fn add_origin(
    out: &mut Vec<u8>,
    origin: &Origin<'_>,
    client: &Client,
    shared: &Shared,
    host: &str,
    via: &HeaderValue,
) -> HeaderValue {
    let mut add = |parts: &[&[u8]]| {
        for part in parts {
            out.extend_from_slice(part);
        }
    };
    add(&[b"x-forwarded-for: "]);
    if let Some(before) = believed(client, origin.forwarded_for) {
        add(&[before, b", "]);
    }
    let proto = believed(client, origin.forwarded_proto).unwrap_or(client.proto().as_bytes());
    let named = believed(client, origin.forwarded_host).unwrap_or(origin.host);
    add(&[client.plain.as_bytes(), b"\r\nx-forwarded-proto: ", proto]);
    add(&[b"\r\nx-forwarded-host: ", named, b"\r\nforwarded: "]);
    if let Some(before) = believed(client, origin.forwarded) {
        add(&[before, b", "]);
    }
    add(&[client.forwarded.as_bytes(), b";host=\"", host.as_bytes(), b"\"\r\nvia: "]);
    add(&[via.as_bytes(), b"\r\ncdn-loop: ", shared.name.as_bytes()]);
    let sensible =
        |id: &&[u8]| (1..=128).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic);
    let made: [u8; 32];
    let id = match origin.id.filter(sensible) {
        Some(id) => id,
        None => {
            made = hexadecimal([random(), random()]);
            &made
        }
    };
    add(&[b"\r\nx-request-id: ", id]);
    if !origin.trace {
        let (trace, span) =
            (hexadecimal::<32>([random(), random()]), hexadecimal::<16>([random()]));
        add(&[b"\r\ntraceparent: 00-", &trace, b"-", &span, b"-00"]);
    }
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
