//! How long things may take, and who waits for whom.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use limen_core::global::{
    HealthCheck, HealthCheckKind, Protocol, Timeouts, TrafficRules, UpstreamTls,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::bed::{Bed, Upstream, answer, eventually, global, target, with_traffic};

fn rules(timeouts: Timeouts) -> TrafficRules {
    TrafficRules { timeouts: Some(timeouts), ..TrafficRules::default() }
}

#[tokio::test]
async fn a_request_as_a_whole_has_its_time() {
    let slow = Upstream::http(|_| async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        answer("late")
    })
    .await;
    let timeouts = Timeouts { request_milliseconds: Some(200), ..Timeouts::default() };
    let root = with_traffic(global(vec![target("c", &[slow.address])]), rules(timeouts));
    let reply = Bed::new(root).await.get("/").await;
    assert_eq!(reply.status, 504);
    assert!(reply.body.contains("longer than it may"), "{reply:?}");
}

#[tokio::test]
async fn an_answer_that_stops_coming_is_broken_off() {
    let stops = Upstream::raw(|mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        let half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf";
        let _ = stream.write_all(half.as_bytes()).await;
        std::future::pending::<()>().await;
    })
    .await;
    let timeouts = Timeouts { idle_milliseconds: 200, ..Timeouts::default() };
    let root = with_traffic(global(vec![target("c", &[stops.address])]), rules(timeouts));
    let bed = Bed::new(root).await;
    // The second is served by the general way.
    for unusual in ["", "TE: trailers\r\n"] {
        let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{unusual}\r\n");
        let mut stream = TcpStream::connect(bed.http()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        let ended = stream.read_to_end(&mut read);
        let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
        assert!(ended.is_ok(), "it is waited for, for ever: {unusual:?}");
        assert!(read.ends_with(b"half"), "{}", String::from_utf8_lossy(&read));
    }
}

#[tokio::test]
async fn a_target_that_does_not_read_holds_back_the_client() {
    let deaf = Upstream::raw(|mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let bed = Bed::new(global(vec![target("c", &[deaf.address])])).await;
    let mut stream = TcpStream::connect(bed.http()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut sent = 0;
    while let Ok(Ok(())) =
        tokio::time::timeout(Duration::from_secs(1), stream.write_all(&[b'x'; 65536])).await
    {
        sent += 65536;
        assert!(sent < 64 << 20, "the gateway takes in whatever it is sent");
    }
    assert!(sent > 0);
}

#[tokio::test]
async fn nobody_waits_for_the_upload_of_somebody_else() {
    // Says no before it has seen the body, and keeps its connection.
    let hasty = Upstream::raw(|mut stream| async move {
        let mut seen = Vec::new();
        let mut said = false;
        while stream.read_buf(&mut seen).await.is_ok_and(|length| length > 0) {
            let head = seen.windows(4).any(|window| window == b"\r\n\r\n");
            if head && !std::mem::replace(&mut said, true) {
                let no = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno";
                let _ = stream.write_all(no).await;
            }
        }
    })
    .await;
    let timeouts = Timeouts { idle_milliseconds: 1000, ..Timeouts::default() };
    let root = with_traffic(global(vec![target("c", &[hasty.address])]), rules(timeouts));
    let bed = Bed::new(root).await;
    let mut uploading = TcpStream::connect(bed.http()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\n\r\nsome";
    uploading.write_all(head.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    while !read.ends_with(b"no") {
        assert!(uploading.read_buf(&mut read).await.unwrap() > 0);
    }
    // Served by the general way, which is where the connection would be waited for.
    let request = "GET / HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nConnection: close\r\n\r\n";
    assert_eq!(bed.send(request).await.status, 401);
    assert_eq!(hasty.hits(), 2, "over a connection of its own");
    let ended = tokio::time::timeout(Duration::from_secs(20), uploading.read(&mut [0])).await;
    assert!(ended.is_ok(), "what is left of an upload that has its answer is waited for, for ever");
}

#[tokio::test]
async fn an_upload_that_has_ended_leaves_its_connection_to_others() {
    let reads = Upstream::raw(|mut stream| async move {
        let mut seen = Vec::new();
        while stream.read_buf(&mut seen).await.is_ok_and(|length| length > 0) {
            if seen.ends_with(b"END") || seen.ends_with(b"\r\n0\r\n\r\n") {
                seen.clear();
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
            }
        }
    })
    .await;
    let bed = Bed::new(global(vec![target("c", &[reads.address])])).await;
    let large = "x".repeat(100_000);
    let head = "POST / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n";
    for body in [
        format!("Content-Length: 100003\r\n\r\n{large}END"),
        format!("Transfer-Encoding: chunked\r\n\r\n186a0\r\n{large}\r\n0\r\n\r\n"),
        format!("Content-Length: 100003\r\n\r\n{large}END"),
    ] {
        assert_eq!(bed.send(&format!("{head}{body}")).await.body, "ok");
    }
    assert_eq!(reads.hits(), 1, "the connection is used again");
}

#[tokio::test]
async fn an_upload_over_http2_that_is_complete_but_not_ended_leaves_its_connection_to_others() {
    let reads = Upstream::raw(|mut stream| async move {
        let mut seen = Vec::new();
        while stream.read_buf(&mut seen).await.is_ok_and(|length| length > 0) {
            if seen.ends_with(b"END") {
                seen.clear();
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
            }
        }
    })
    .await;
    let bed = Bed::new(global(vec![target("c", &[reads.address])])).await;
    let io = TokioIo::new(TcpStream::connect(bed.http()).await.unwrap());
    let (mut client, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..3 {
        let (frames, body) = futures::channel::mpsc::unbounded();
        let all = Frame::data(Bytes::from_static(b"END"));
        frames.unbounded_send(Ok::<_, Infallible>(all)).unwrap();
        let request = Request::post("http://a.test/").header("content-length", 3);
        let response = client.send_request(request.body(StreamBody::new(body)).unwrap()).await;
        let text = response.unwrap().into_body().collect().await.unwrap().to_bytes();
        assert_eq!(text, "ok");
        // Only now does the client say that nothing more comes.
        drop(frames);
    }
    assert_eq!(reads.hits(), 1, "the connection is used again");
}

#[tokio::test]
async fn a_target_that_answers_and_then_does_not_read_is_given_up() {
    let deaf = Upstream::raw(|mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        let no = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno";
        let _ = stream.write_all(no).await;
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let timeouts = Timeouts { idle_milliseconds: 1000, ..Timeouts::default() };
    let root = with_traffic(global(vec![target("c", &[deaf.address])]), rules(timeouts));
    let bed = Bed::new(root).await;
    let mut stream = TcpStream::connect(bed.http()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    while !read.ends_with(b"no") {
        assert!(stream.read_buf(&mut read).await.unwrap() > 0);
    }
    let uploaded = async { while stream.write_all(&[b'x'; 65536]).await.is_ok() {} };
    let ended = tokio::time::timeout(Duration::from_secs(30), uploaded).await;
    assert!(ended.is_ok(), "a target that does not read is waited for, for ever");
}

#[tokio::test]
async fn probes_need_no_more_than_a_connection_where_that_is_asked_for() {
    let first = Upstream::named("first").await;
    let second = Upstream::named("second").await;
    let check = HealthCheck {
        kind: HealthCheckKind::Tcp,
        interval_milliseconds: 20,
        ..HealthCheck::default()
    };
    let rules = TrafficRules {
        failover: vec!["first".to_owned()],
        health_check: Some(check),
        ..TrafficRules::default()
    };
    let address = first.address;
    let targets = vec![target("first", &[address]), target("second", &[second.address])];
    let bed = Bed::new(with_traffic(global(targets), rules)).await;
    let targets = async || bed.admin("/targets").await.body;
    eventually("it is found well", async || targets().await.contains("Healthy")).await;
    drop(first);
    eventually("it is found gone", async || targets().await.contains("Unhealthy")).await;
    assert_eq!(bed.get("/").await.body, "second");
    let _back = TcpListener::bind(address).await.unwrap();
    eventually("it is found back", async || !targets().await.contains("Unhealthy")).await;
}

#[tokio::test]
async fn probes_over_tls_find_out_who_does_not_speak_it() {
    let (connected, mut connections) = mpsc::unbounded_channel();
    let plain = Upstream::raw(move |_| {
        let _ = connected.send(());
        async {}
    })
    .await;
    let check = HealthCheck {
        kind: HealthCheckKind::Https,
        interval_milliseconds: 20,
        ..HealthCheck::default()
    };
    let rules = TrafficRules {
        health_check: Some(check),
        upstream_tls: Some(UpstreamTls::default()),
        ..TrafficRules::default()
    };
    let mut target = target("c", &[plain.address]);
    target.protocol = Protocol::Https;
    let bed = Bed::new(with_traffic(global(vec![target]), rules)).await;
    eventually("it is found not to speak TLS", async || {
        bed.admin("/targets").await.body.contains("Unhealthy")
    })
    .await;
    assert!(connections.recv().await.is_some());
}
