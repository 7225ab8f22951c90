//! Requests that two programs could read in two ways: refused with 400, and the connection closed.
//!
//! Every case is followed by a second request on the same connection. Whatever happens to the
//! first, the second must never be answered: it is what a smuggler wants to get through.

use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::bed::{Bed, Reply, Upstream, answer, exchange, global, target};

pub(crate) const CASES: &[(&str, &[u8])] = &[
    ("length and coding", b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("coding and length", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
    ("length 0 and coding", b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("two lengths", b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
    ("two equal lengths", b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    ("a list of lengths", b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5, 5\r\n\r\nhello"),
    ("a signed length", b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: +5\r\n\r\nhello"),
    ("a negative length", b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: -5\r\n\r\nhello"),
    ("a hexadecimal length", b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0x5\r\n\r\nhello"),
    ("an empty length", b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length:\r\n\r\n"),
    ("a length with a space", b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1 2\r\n\r\nhello"),
    ("a length beyond numbers", b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 99999999999999999999\r\n\r\nhello"),
    ("a length with a fraction", b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5.0\r\n\r\nhello"),
    ("a quoted length", b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: \"5\"\r\n\r\nhello"),
    ("an underscored length", b"POST / HTTP/1.1\r\nHost: a.test\r\nContent_Length: 5\r\n\r\n"),
    ("two codings", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("chunked, chunked", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    ("identity coding", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: identity\r\n\r\n"),
    ("chunked, identity", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    ("gzip, chunked", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ("xchunked", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    ("chunked with a parameter", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"),
    ("quoted chunked", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"),
    ("chunked with vertical tab", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"),
    ("upper-case coding", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n"),
    ("an empty coding", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding:\r\n\r\n"),
    ("a space before the colon of a coding", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    ("a tab before the colon of a coding", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n"),
    ("an underscored coding", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer_Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("a coding in HTTP/1.0", b"POST / HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("a folded coding", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    ("a folded header", b"GET / HTTP/1.1\r\nHost: a.test\r\nX: a\r\n b\r\n\r\n"),
    ("a header folded with a tab", b"GET / HTTP/1.1\r\nHost: a.test\r\nX: a\r\n\tb\r\n\r\n"),
    ("a space before the first header", b"GET / HTTP/1.1\r\n Host: a.test\r\n\r\n"),
    ("bare line feeds", b"GET / HTTP/1.1\nHost: a.test\n\n"),
    ("a bare line feed after a header", b"GET / HTTP/1.1\r\nHost: a.test\nX: y\r\n\r\n"),
    ("a bare line feed at the end", b"GET / HTTP/1.1\r\nHost: a.test\r\n\n"),
    ("a bare carriage return in a value", b"GET / HTTP/1.1\r\nHost: a.test\r\nX: a\rb\r\n\r\n"),
    ("a bare carriage return in the request line", b"GET /\r HTTP/1.1\r\nHost: a.test\r\n\r\n"),
    ("carriage returns only", b"GET / HTTP/1.1\rHost: a.test\r\r\n\r\n"),
    ("two carriage returns", b"GET / HTTP/1.1\r\r\nHost: a.test\r\n\r\n"),
    ("a space before a colon", b"GET / HTTP/1.1\r\nHost : a.test\r\n\r\n"),
    ("a space in a name", b"GET / HTTP/1.1\r\nHost: a.test\r\nX Y: z\r\n\r\n"),
    ("an empty name", b"GET / HTTP/1.1\r\nHost: a.test\r\n: x\r\n\r\n"),
    ("a line without a colon", b"GET / HTTP/1.1\r\nHost: a.test\r\nnothing\r\n\r\n"),
    ("a NUL in a value", b"GET / HTTP/1.1\r\nHost: a.test\r\nX: a\0b\r\n\r\n"),
    ("a NUL in a name", b"GET / HTTP/1.1\r\nHost: a.test\r\nX\0: b\r\n\r\n"),
    ("a DEL in a value", b"GET / HTTP/1.1\r\nHost: a.test\r\nX: a\x7fb\r\n\r\n"),
    ("a name beyond ASCII", b"GET / HTTP/1.1\r\nHost: a.test\r\nX\xc3\xa9: b\r\n\r\n"),
    ("a slash in a name", b"GET / HTTP/1.1\r\nHost: a.test\r\nX/Y: b\r\n\r\n"),
    ("two hosts", b"GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n"),
    ("two equal hosts", b"GET / HTTP/1.1\r\nHost: a.test\r\nHost: a.test\r\n\r\n"),
    ("no host", b"GET / HTTP/1.1\r\nX: y\r\n\r\n"),
    ("an empty host", b"GET / HTTP/1.1\r\nHost:\r\n\r\n"),
    ("a host with a user", b"GET / HTTP/1.1\r\nHost: x@a.test\r\n\r\n"),
    ("a host with a path", b"GET / HTTP/1.1\r\nHost: a.test/x\r\n\r\n"),
    ("a list of hosts", b"GET / HTTP/1.1\r\nHost: a.test, b.test\r\n\r\n"),
    ("a host with a space", b"GET / HTTP/1.1\r\nHost: a.test b\r\n\r\n"),
    ("another host in the target", b"GET http://b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"),
    ("two spaces in the request line", b"GET  / HTTP/1.1\r\nHost: a.test\r\n\r\n"),
    ("a tab in the request line", b"GET\t/ HTTP/1.1\r\nHost: a.test\r\n\r\n"),
    ("a space at the end of the request line", b"GET / HTTP/1.1 \r\nHost: a.test\r\n\r\n"),
    ("a space before the method", b" GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"),
    ("a path with a space", b"GET /a b HTTP/1.1\r\nHost: a.test\r\n\r\n"),
    ("a path with a fragment", b"GET /#x HTTP/1.1\r\nHost: a.test\r\n\r\n"),
    ("a path beyond ASCII", b"GET /\xff HTTP/1.1\r\nHost: a.test\r\n\r\n"),
    ("a relative path", b"GET a HTTP/1.1\r\nHost: a.test\r\n\r\n"),
    ("no version", b"GET /\r\nHost: a.test\r\n\r\n"),
    ("HTTP/0.9", b"GET / HTTP/0.9\r\nHost: a.test\r\n\r\n"),
    ("HTTP/1.2", b"GET / HTTP/1.2\r\nHost: a.test\r\n\r\n"),
    ("HTTP/01.1", b"GET / HTTP/01.1\r\nHost: a.test\r\n\r\n"),
    ("a lower-case version", b"GET / http/1.1\r\nHost: a.test\r\n\r\n"),
    ("a method that is no token", b"G(T / HTTP/1.1\r\nHost: a.test\r\n\r\n"),
    ("many empty lines first", b"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n"),
    ("a bare line feed first", b"\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n"),
    ("a chunk extension", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n"),
    ("a chunk extension with a line feed", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5;\n\r\nhello\r\n0\r\n\r\n"),
    ("a space after a chunk size", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n"),
    ("a space before a chunk size", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n"),
    ("a chunk size with 0x", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n"),
    ("a signed chunk size", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n"),
    ("an empty chunk size", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n"),
    ("a chunk size beyond numbers", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n"),
    ("a chunk size after a bare line feed", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n"),
    ("a chunk that is too long", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n"),
    ("a chunk that ends in a bare line feed", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n"),
    ("a length in the trailers", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n"),
    ("a folded trailer", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n z\r\n\r\n"),
    ("a bare line feed in the trailers", b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n"),
    ("an upgrade with a length", b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade\r\nUpgrade: x\r\nContent-Length: 5\r\n\r\nhello"),
    ("an upgrade with chunks", b"POST / HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade\r\nUpgrade: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
];

pub(crate) const SECOND: &[u8] =
    b"GET /second HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";

pub(crate) async fn echo(request: Request<Incoming>) -> crate::bed::Answer {
    let path = request.uri().path().to_owned();
    match request.into_body().collect().await {
        Ok(body) => answer(format!("[{path} {}]", body.to_bytes().len())),
        Err(_) => answer("broken"),
    }
}

#[tokio::test]
async fn whatever_can_be_read_in_two_ways_is_refused_and_the_connection_closed() {
    assert!(CASES.len() >= 60);
    let upstream = Upstream::http(echo).await;
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    let mut wrong = Vec::new();
    for (name, bytes) in CASES {
        let read = exchange(bed.http(), &[bytes, SECOND].concat()).await;
        let reply = Reply::parse(&read);
        let answers = String::from_utf8_lossy(&read).matches("HTTP/1.1 ").count();
        if reply.status != 400 || answers != 1 {
            wrong.push(format!("{name}: {answers} answers, {reply:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} cases got through:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn the_same_holds_when_bytes_come_one_at_a_time_behind_a_good_request() {
    let upstream = Upstream::http(echo).await;
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    let good = b"POST /good HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi";
    let mut wrong = Vec::new();
    for (name, bytes) in CASES.iter().step_by(5) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(bed.http()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        for byte in [good, *bytes, SECOND].concat() {
            if stream.write_all(&[byte]).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        let mut read = Vec::new();
        let _ = stream.read_to_end(&mut read).await;
        let text = String::from_utf8_lossy(&read);
        let statuses: Vec<_> = text.matches("HTTP/1.1 ").collect();
        // A client that goes on sending may lose the last answer to a reset, never gain one.
        let first = text.starts_with("HTTP/1.1 200") && text.contains("[/good 2]");
        let refused = statuses.len() == 1 || text.contains("HTTP/1.1 400");
        if !first || !refused || statuses.len() > 2 || text.contains("/second") {
            wrong.push(format!("{name}: {text}"));
        }
    }
    assert!(wrong.is_empty(), "{} cases got through:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn what_is_unusual_but_clear_passes() {
    let upstream = Upstream::http(echo).await;
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    let cases: &[(&[u8], &str)] = &[
        (b"\r\nGET /x HTTP/1.1\r\nHost: a.test\r\n\r\n", "[/x 0]"),
        (b"GET /x HTTP/1.1\r\nhOsT:a.test\r\nX:  \t y \t\r\n\r\n", "[/x 0]"),
        (b"GET http://a.test/x HTTP/1.1\r\nHost: a.test\r\n\r\n", "[/x 0]"),
        (b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 005\r\n\r\nhello", "[/x 5]"),
        (b"POST /x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n005\r\nhello\r\n000\r\n\r\n", "[/x 5]"),
        (b"GET /x HTTP/1.1\r\nHost: a.test\r\nX: \xff\xfe\r\n\r\n", "[/x 0]"),
        (b"BREW /x HTTP/1.1\r\nHost: a.test\r\n\r\n", "[/x 0]"),
    ];
    for (bytes, expected) in cases {
        let read = exchange(bed.http(), &[bytes, SECOND].concat()).await;
        let text = String::from_utf8_lossy(&read);
        assert!(text.contains(expected) && text.contains("[/second 0]"), "{bytes:?}: {text}");
    }
}

#[tokio::test]
async fn heads_have_limits() {
    let upstream = Upstream::named("c").await;
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    let long = "x".repeat(9 * 1024);
    let request = format!("GET /{long} HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(bed.send(&request).await.status, 414);
    let long = "x".repeat(40 * 1024);
    let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\nX: {long}\r\n\r\n");
    assert_eq!(bed.send(&request).await.status, 431);
    let many = "X: y\r\n".repeat(200);
    let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{many}\r\n");
    assert_eq!(bed.send(&request).await.status, 431);
    let connect = "CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80\r\n\r\n";
    assert!(matches!(bed.send(connect).await.status, 400 | 405));
    assert_eq!(upstream.hits(), 0);
}
