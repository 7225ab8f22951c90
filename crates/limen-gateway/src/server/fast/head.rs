//! The head of a request, as long as it is an ordinary one.
//!
//! Whatever is malformed or merely unusual is left to the other way through the house, which knows
//! what to do about it. So this may say *unusual* whenever it likes, and must never accept what
//! [`crate::server::strict`] would not.

use std::ops::Range;

use memchr::memchr_iter;

use crate::server::strict::may_be_host;

/// Header lines of an ordinary request.
pub(super) const MOST_HEADERS: usize = 48;

/// What the beginning of a stream is.
#[derive(Debug)]
pub(super) enum Parsed {
    /// The head has not ended yet.
    Partial,
    /// Not for here.
    Unusual,
    Head(Box<Head>),
}

/// An ordinary head. Everything is a place in the bytes it was read from.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// Where the head ends and the body begins.
    pub(super) end: usize,
    /// The whole of the request, if its body has a length.
    pub(super) body: usize,
    pub(super) method: Range<usize>,
    pub(super) target: Range<usize>,
    /// Where the path ends and the query begins.
    pub(super) path_end: usize,
    pub(super) host: Range<usize>,
    /// Runs of header lines that are passed on as they are.
    pub(super) lines: Vec<Range<usize>>,
    pub(super) id: Option<Range<usize>>,
    pub(super) trace: bool,
    pub(super) forwarded_for: Option<Range<usize>>,
    pub(super) forwarded_proto: Option<Range<usize>>,
    pub(super) forwarded_host: Option<Range<usize>>,
    pub(super) forwarded: Option<Range<usize>>,
    pub(super) agent: Option<Range<usize>>,
    /// Whether the client wants the connection closed afterwards.
    pub(super) close: bool,
}

/// Reads a head. `room` is where what is found is put, so that nothing is allocated for it twice.
pub(super) fn parse(bytes: &[u8], mut room: Box<Head>) -> Parsed {
    if matches!(bytes.first(), Some(b'\r' | b'\n')) {
        return Parsed::Unusual;
    }
    let mut fields = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut fields);
    let end = match request.parse(bytes) {
        Ok(httparse::Status::Complete(end)) => end,
        Ok(httparse::Status::Partial) => return Parsed::Partial,
        Err(_) => return Parsed::Unusual,
    };
    // The parser takes bare line feeds.
    if memchr_iter(b'\n', &bytes[..end]).any(|at| at == 0 || bytes[at - 1] != b'\r') {
        return Parsed::Unusual;
    }
    let start = bytes.as_ptr() as usize;
    let place = |slice: &[u8]| {
        let from = slice.as_ptr() as usize - start;
        from..from + slice.len()
    };
    let (Some(method), Some(target), Some(1)) = (request.method, request.path, request.version)
    else {
        return Parsed::Unusual;
    };
    let target = target.as_bytes();
    if !target.starts_with(b"/") || !target.iter().all(|byte| IN_TARGETS[usize::from(*byte)]) {
        return Parsed::Unusual;
    }
    let head = &mut *room;
    let mut lines = std::mem::take(&mut head.lines);
    lines.clear();
    *head = Head { end, lines, ..Head::default() };
    head.method = place(method.as_bytes());
    head.target = place(target);
    head.path_end = head.target.start + memchr::memchr(b'?', target).unwrap_or(target.len());
    let mut host = None;
    let mut length = None;
    for field in request.headers.iter() {
        let (name, value) = (field.name.as_bytes(), field.value);
        let role = role(name);
        let found = place(value);
        let slot = match role {
            Role::Passed => None,
            Role::Unusual => return Parsed::Unusual,
            Role::Dropped => continue,
            Role::Connection => {
                if value.eq_ignore_ascii_case(b"close") {
                    head.close = true;
                } else if !value.eq_ignore_ascii_case(b"keep-alive") {
                    return Parsed::Unusual;
                }
                continue;
            }
            Role::Length => {
                let Some(number) = small_number(value) else { return Parsed::Unusual };
                if length.replace(number).is_some() {
                    return Parsed::Unusual;
                }
                None
            }
            Role::Host if !may_be_host(value) => return Parsed::Unusual,
            Role::Host => Some(&mut host),
            Role::Id => Some(&mut head.id),
            Role::ForwardedFor => Some(&mut head.forwarded_for),
            Role::ForwardedProto => Some(&mut head.forwarded_proto),
            Role::ForwardedHost => Some(&mut head.forwarded_host),
            Role::Forwarded => Some(&mut head.forwarded),
            Role::Agent => {
                head.agent = Some(found.clone());
                None
            }
            Role::Trace => {
                head.trace = true;
                None
            }
        };
        let Some(slot) = slot else {
            let name_start = place(name).start;
            // Up to the end of the line, with whatever space is in it.
            let line_end = found.end + 2;
            match head.lines.last_mut() {
                Some(last) if last.end == name_start => last.end = line_end,
                _ if bytes.get(found.end..line_end) == Some(b"\r\n") => {
                    head.lines.push(name_start..line_end);
                }
                // Space before the end of the line.
                _ => return Parsed::Unusual,
            }
            if bytes.get(found.end..line_end) != Some(b"\r\n") {
                return Parsed::Unusual;
            }
            continue;
        };
        if slot.replace(found).is_some() {
            return Parsed::Unusual;
        }
    }
    let Some(host) = host else { return Parsed::Unusual };
    head.host = host;
    head.body = length.unwrap_or(0);
    Parsed::Head(room)
}

/// The bytes that RFC 3986 allows in a path and a query. Some more are in use; which of them hyper
/// takes depends on whether they are in the path or in the query.
static IN_TARGETS: [bool; 256] = {
    let mut allowed = [false; 256];
    let others = b"-._~!$&'()*+,;=:@/?%";
    let mut at = 0;
    while at < 256 {
        allowed[at] = (at as u8).is_ascii_alphanumeric();
        at += 1;
    }
    at = 0;
    while at < others.len() {
        allowed[others[at] as usize] = true;
        at += 1;
    }
    allowed
};

/// What a header means for whoever passes a request on.
pub(super) enum Role {
    Passed,
    /// For this hop only.
    Dropped,
    Connection,
    Host,
    Length,
    Id,
    Trace,
    Agent,
    ForwardedFor,
    ForwardedProto,
    ForwardedHost,
    Forwarded,
    Unusual,
}

pub(super) fn role(name: &[u8]) -> Role {
    let (known, role): (&[u8], Role) = match name.len() {
        2 => (b"te", Role::Unusual),
        3 => (b"via", Role::Unusual),
        4 => (b"host", Role::Host),
        6 => (b"expect", Role::Unusual),
        7 if name[0] | 0x20 == b'u' => (b"upgrade", Role::Unusual),
        7 => (b"trailer", Role::Unusual),
        8 => (b"cdn-loop", Role::Unusual),
        9 => (b"forwarded", Role::Forwarded),
        10 if name[0] | 0x20 == b'c' => (b"connection", Role::Connection),
        10 if name[0] | 0x20 == b'u' => (b"user-agent", Role::Agent),
        10 => (b"keep-alive", Role::Dropped),
        11 => (b"traceparent", Role::Trace),
        12 => (b"x-request-id", Role::Id),
        // With underscores they would be another framing for some.
        14 if name[7] == b'_' => return Role::Unusual,
        14 => (b"content-length", Role::Length),
        15 => (b"x-forwarded-for", Role::ForwardedFor),
        16 if name[0] | 0x20 == b'p' => (b"proxy-connection", Role::Dropped),
        16 => (b"x-forwarded-host", Role::ForwardedHost),
        17 if name[8] == b'_' => return Role::Unusual,
        17 if name[0] | 0x20 == b't' => (b"transfer-encoding", Role::Unusual),
        17 => (b"x-forwarded-proto", Role::ForwardedProto),
        _ => return Role::Passed,
    };
    if name.eq_ignore_ascii_case(known) { role } else { Role::Passed }
}

/// Lengths of bodies that are small enough to wait for.
fn small_number(value: &[u8]) -> Option<usize> {
    if value.is_empty() || value.len() > 5 || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(value.iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::server::strict::Strict;

    const ORDINARY: &[u8] =
        b"GET /a?b HTTP/1.1\r\nHost: a.test\r\nUser-Agent: x\r\nAccept: */*\r\n\
        Connection: keep-alive\r\nX-Forwarded-For: 1\r\nCookie: a=b\r\n\r\nrest";

    #[test]
    fn ordinary_heads_are_taken_apart() {
        let Parsed::Head(head) = parse(ORDINARY, Box::default()) else { panic!() };
        let text = |range: &Range<usize>| std::str::from_utf8(&ORDINARY[range.clone()]).unwrap();
        assert_eq!(text(&head.target), "/a?b");
        assert_eq!(&ORDINARY[head.target.start..head.path_end], b"/a");
        assert_eq!(text(&head.host), "a.test");
        let lines: Vec<_> = head.lines.iter().map(text).collect();
        assert_eq!(lines, ["User-Agent: x\r\nAccept: */*\r\n", "Cookie: a=b\r\n"]);
        assert_eq!(&ORDINARY[head.end..], b"rest");
        assert!(matches!(parse(&ORDINARY[..40], Box::default()), Parsed::Partial));
    }

    #[test]
    fn every_byte_in_a_path_or_a_query_is_judged_as_hyper_judges_it() {
        for byte in 0..=u8::MAX {
            for target in [[b'/', byte, b'?', b'b'], [b'/', b'a', b'?', byte]] {
                let request = [b"GET ", &target[..], b" HTTP/1.1\r\nHost: a.test\r\n\r\n"].concat();
                if let Parsed::Head(_) = parse(&request, Box::default()) {
                    let (seen, _) = as_hyper_sees_it(&request).expect("hyper takes it too");
                    assert_eq!(seen.uri.to_string().as_bytes(), target);
                }
            }
        }
    }

    /// Ordinary heads, and what is left of them after a few accidents.
    fn nearly_ordinary() -> impl Strategy<Value = Vec<u8>> {
        let accident = prop_oneof![any::<u8>(), prop::sample::select(b"\r\n :\t_#,;0".to_vec()),];
        let accidents = prop::collection::vec((0..ORDINARY.len(), accident, any::<bool>()), 0..4);
        let extra = prop::sample::select(vec![
            "",
            "Content-Length: 4\r\n",
            "Content-Length: 5\r\n",
            "Transfer-Encoding: chunked\r\n",
            "content_length: 5\r\n",
            "Host: b\r\n",
            "X : y\r\n",
            " x\r\n",
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "X: y\n",
        ]);
        (accidents, extra).prop_map(|(accidents, extra)| {
            let mut bytes = ORDINARY.to_vec();
            bytes.splice(33..33, extra.bytes());
            for (at, byte, insert) in accidents {
                if insert { bytes.insert(at, byte) } else { bytes[at] = byte }
            }
            bytes
        })
    }

    type Seen = (http::request::Parts, usize);

    /// What hyper makes of a request that is alone on its connection: nothing if it refuses.
    fn as_hyper_sees_it(bytes: &[u8]) -> Option<Seen> {
        use http_body_util::{BodyExt, Empty};
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let seen = std::cell::RefCell::new(None);
        runtime.block_on(async {
            let (mut client, server) = tokio::io::duplex(1 << 16);
            tokio::io::AsyncWriteExt::write_all(&mut client, bytes).await.unwrap();
            tokio::io::AsyncWriteExt::shutdown(&mut client).await.unwrap();
            let service =
                hyper::service::service_fn(|request: http::Request<hyper::body::Incoming>| {
                    let seen = &seen;
                    async move {
                        let (head, body) = request.into_parts();
                        if let Ok(body) = body.collect().await {
                            seen.borrow_mut().get_or_insert((head, body.to_bytes().len()));
                        }
                        let empty = Empty::<bytes::Bytes>::new();
                        Ok::<_, std::convert::Infallible>(http::Response::new(empty))
                    }
                });
            let io = hyper_util::rt::TokioIo::new(server);
            let mut builder = hyper::server::conn::http1::Builder::new();
            let _ = builder.half_close(true).serve_connection(io, service).await;
        });
        seen.into_inner()
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_is_what_hyper_would_have_seen(bytes in nearly_ordinary()) {
            let Parsed::Head(head) = parse(&bytes, Box::default()) else { return Ok(()) };
            let Some(request) = bytes.get(..head.end + head.body) else { return Ok(()) };
            let text = String::from_utf8_lossy(request);
            let Some((seen, body)) = as_hyper_sees_it(request) else {
                return Err(TestCaseError::fail(format!("hyper refuses {text:?}")));
            };
            let of = |range: &Range<usize>| &bytes[range.clone()];
            prop_assert_eq!(seen.method.as_str().as_bytes(), of(&head.method), "{:?}", &text);
            let target = seen.uri.to_string();
            prop_assert_eq!(target.as_bytes(), of(&head.target), "{:?}", &text);
            prop_assert_eq!(seen.uri.path().as_bytes(), &bytes[head.target.start..head.path_end]);
            prop_assert_eq!(seen.headers["host"].as_bytes(), of(&head.host), "{:?}", &text);
            prop_assert_eq!(body, head.body, "{:?}", &text);
            let passed: Vec<u8> = head.lines.iter().flat_map(|line| of(line).to_vec()).collect();
            for line in passed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let colon = line.iter().position(|byte| *byte == b':').unwrap();
                let name = http::HeaderName::from_bytes(&line[..colon]).unwrap();
                let value = line[colon + 1..].trim_ascii();
                let mut values = seen.headers.get_all(&name).iter();
                prop_assert!(values.any(|other| other.as_bytes() == value), "{:?}", &text);
            }
        }

        #[test]
        fn nothing_is_accepted_that_the_strict_way_refuses(bytes in nearly_ordinary()) {
            if let Parsed::Head(head) = parse(&bytes, Box::default()) {
                let judged = Strict::new(1 << 16).feed(&bytes[..head.end]);
                prop_assert_eq!(judged, Ok(()), "{}", String::from_utf8_lossy(&bytes));
            }
        }
    }
}
