//! Clients that cost more than they should: others are served meanwhile, and nothing piles up.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use limen_core::global::{Outliers, Timeouts, TrafficRules};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::bed::{Bed, Reply, Upstream, global, objects, options, target, with_traffic};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// What the kernel keeps for both sides is well below this.
const TOO_MUCH: usize = 64 << 20;

async fn gives_up(stream: &mut TcpStream) -> bool {
    let mut read = Vec::new();
    let ended = stream.read_to_end(&mut read);
    tokio::time::timeout(Duration::from_secs(20), ended).await.is_ok()
}

#[tokio::test]
async fn frames_that_want_an_answer_are_not_taken_in_when_answers_are_not() {
    let upstream = Upstream::named("c").await;
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    let ping = b"\0\0\x08\x06\0\0\0\0\0pingpong";
    let settings = b"\0\0\0\x04\0\0\0\0\0";
    for frame in [&ping[..], settings] {
        let mut stream = TcpStream::connect(bed.http()).await.unwrap();
        stream.write_all(PREFACE).await.unwrap();
        let many = frame.repeat(4096);
        let mut sent = 0;
        // Either the connection is closed, or nothing more is read from it.
        while let Ok(Ok(())) =
            tokio::time::timeout(Duration::from_secs(1), stream.write_all(&many)).await
        {
            sent += many.len();
            assert!(sent < TOO_MUCH, "{sent} bytes of frames were taken in");
        }
        assert_eq!(bed.get("/").await.body, "c", "others are served");
    }
}

#[tokio::test]
async fn connections_on_which_nothing_is_asked_are_closed() {
    let upstream = Upstream::named("c").await;
    let mut options = options();
    options.limits.idle = Duration::from_millis(200);
    options.limits.head = Duration::from_millis(200);
    let bed = Bed::with(options, objects([global(vec![target("c", &[upstream.address])])])).await;
    let https = bed.gateway.https()[0];
    for address in [bed.http(), https] {
        for bytes in [&b""[..], b"G", b"PRI", b"PRI ", b"\x16\x03\x01", &PREFACE[..24], PREFACE] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            assert!(gives_up(&mut stream).await, "{address} waits for ever after {bytes:?}");
        }
    }
    assert_eq!(bed.get("/").await.body, "c");
}

#[tokio::test]
async fn bodies_that_stop_coming_are_given_up() {
    let reads = Upstream::raw(|mut stream| async move {
        while let Ok(1..) = stream.read(&mut [0; 65536]).await {}
    })
    .await;
    // Long enough for the gateway to find out who keeps whom waiting, however busy the machine is.
    let timeouts = Timeouts { response_milliseconds: 2000, ..Timeouts::default() };
    let outliers = Some(Outliers { consecutive_failures: 1, ..Outliers::default() });
    let rules = TrafficRules { timeouts: Some(timeouts), outliers, ..TrafficRules::default() };
    let targets = vec![target("c", &[reads.address]), target("d", &[reads.address])];
    let bed = Bed::new(with_traffic(global(targets), rules)).await;
    for length in [100, 100_000] {
        let mut stream = TcpStream::connect(bed.http()).await.unwrap();
        let head = format!("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(b"half").await.unwrap();
        let mut read = Vec::new();
        let ended = stream.read_to_end(&mut read);
        let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
        assert!(ended.is_ok(), "a body of {length} bytes is waited for, for ever");
        assert_eq!(Reply::parse(&read).status, 408, "{length}");
    }
    let targets = bed.admin("/targets").await.body;
    assert!(!targets.contains("\"ejected\": true"), "nor is the target to blame: {targets}");
}

/// An HTTP/2 client, and the task of its connection, which answers whatever wants an answer.
async fn http2_client(
    address: SocketAddr,
) -> (SendRequest<Full<Bytes>>, JoinHandle<hyper::Result<()>>) {
    let stream = TcpStream::connect(address).await.unwrap();
    let io = TokioIo::new(stream);
    let (client, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    (client, tokio::spawn(connection))
}

/// With a `TE` header it is served by the general way.
fn ask(host: &str, te: Option<&'static str>) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::default());
    *request.uri_mut() = format!("http://{host}/").parse().unwrap();
    request.headers_mut().extend(te.map(|te| (http::header::TE, HeaderValue::from_static(te))));
    request
}

async fn whole(response: Response<Incoming>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test]
async fn http2_connections_are_closed_when_nothing_is_asked_on_them() {
    let upstream = Upstream::named("c").await;
    let mut options = options();
    options.limits.idle = Duration::from_millis(400);
    let bed = Bed::with(options, objects([global(vec![target("c", &[upstream.address])])])).await;
    for requests in 0..3 {
        let (mut client, connection) = http2_client(bed.http()).await;
        for _ in 0..requests {
            assert_eq!(whole(client.send_request(ask("a.test", None)).await.unwrap()).await, "c");
        }
        let ended = tokio::time::timeout(Duration::from_secs(20), connection).await;
        assert!(ended.is_ok(), "it stays for ever after {requests} requests");
        drop(client);
    }
}

#[tokio::test]
async fn http2_connections_stay_for_as_long_as_an_answer_takes() {
    let patience = Duration::from_millis(200);
    for parts in [
        ["", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate"],
        ["HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nla", "te"],
    ] {
        let slow = Upstream::raw(move |mut stream| async move {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(parts[0].as_bytes()).await;
            tokio::time::sleep(patience * 8).await;
            let _ = stream.write_all(parts[1].as_bytes()).await;
        })
        .await;
        let mut options = options();
        options.limits.idle = patience;
        let bed = Bed::with(options, objects([global(vec![target("c", &[slow.address])])])).await;
        for te in [None, Some("trailers")] {
            let (mut client, _connection) = http2_client(bed.http()).await;
            let response = client.send_request(ask("a.test", te)).await.unwrap();
            assert_eq!(whole(response).await, "late", "{te:?} {parts:?}");
        }
    }
}

#[tokio::test]
async fn http2_streams_that_are_given_no_room_are_given_up_and_others_go_on() {
    let (ended, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let endless = Upstream::raw(move |mut stream| {
        let ended = ended.clone();
        async move {
            let _ = stream.read(&mut [0; 4096]).await;
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n";
            let _ = stream.write_all(head.as_bytes()).await;
            while stream.write_all(&[b'x'; 65536]).await.is_ok() {}
            let _ = ended.send(());
        }
    })
    .await;
    let good = Upstream::named("good").await;
    let mut other = global(vec![target("c", &[good.address])]);
    other.rules[0].host = "b.test".into();
    let mut options = options();
    options.limits.idle = Duration::from_secs(3);
    let roots = objects([global(vec![target("c", &[endless.address])]), other]);
    let bed = Bed::with(options, roots).await;
    let (mut client, _connection) = http2_client(bed.http()).await;
    for te in [None, Some("trailers")] {
        let response = client.send_request(ask("a.test", te)).await.unwrap();
        let given_up = tokio::time::timeout(Duration::from_secs(30), ends.recv()).await;
        assert!(given_up.is_ok(), "a stream that is given no room holds a target: {te:?}");
        assert!(response.into_body().collect().await.is_err(), "it is not whole");
        let answer = client.send_request(ask("b.test", te)).await.unwrap();
        assert_eq!(whole(answer).await, "good");
    }
}
