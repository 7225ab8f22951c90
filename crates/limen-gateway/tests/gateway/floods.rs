//! Clients that cost more than they should: others are served meanwhile, and nothing piles up.

use std::time::Duration;

use limen_core::global::{Timeouts, TrafficRules};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

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
        for bytes in [&b""[..], b"G", b"PRI", b"\x16\x03\x01", PREFACE] {
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
    let timeouts = Timeouts { response_milliseconds: 200, ..Timeouts::default() };
    let rules = TrafficRules { timeouts: Some(timeouts), ..TrafficRules::default() };
    let bed = Bed::new(with_traffic(global(vec![target("c", &[reads.address])]), rules)).await;
    for length in [100, 100_000] {
        let mut stream = TcpStream::connect(bed.http()).await.unwrap();
        let head = format!("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(b"half").await.unwrap();
        let mut read = Vec::new();
        let ended = stream.read_to_end(&mut read);
        let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
        assert!(ended.is_ok(), "a body of {length} bytes is waited for, for ever");
        assert_eq!(Reply::parse(&read).status, 504, "{length}");
    }
}
