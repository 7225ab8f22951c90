//! HTTP/2, gRPC, upgrades, expectations, streams.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Version};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use limen_core::global::Protocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::bed::{Bed, Reply, Upstream, answer, global, objects, options, target};

pub(crate) async fn h2(address: SocketAddr) -> http2::SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Answers like a gRPC server: a message, and the status in a trailer.
async fn grpc(request: Request<Incoming>) -> crate::bed::Answer {
    let version = request.version();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    trailers.insert("x-version", format!("{version:?}").parse().unwrap());
    let frames = [Frame::data(body), Frame::trailers(trailers)];
    let frames = futures::stream::iter(frames.map(Ok));
    Response::new(BodyExt::boxed(StreamBody::new(frames)))
}

#[tokio::test]
async fn grpc_passes_with_its_trailers() {
    let upstream = Upstream::http(grpc).await;
    let mut target = target("c", &[upstream.address]);
    target.protocol = Protocol::H2c;
    let bed = Bed::new(global(vec![target])).await;
    let mut client = h2(bed.http()).await;
    for _ in 0..3 {
        let request = Request::post("http://a.test/s/m")
            .header("te", "trailers")
            .body(Full::new(Bytes::from_static(b"message")))
            .unwrap();
        let response = client.send_request(request).await.unwrap();
        assert_eq!((response.status().as_u16(), response.version()), (200, Version::HTTP_2));
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
        assert_eq!(body.trailers().unwrap()["x-version"], "HTTP/2.0");
        assert_eq!(body.to_bytes(), "message");
    }
}

#[tokio::test]
async fn every_version_reaches_every_version() {
    let upstream = Upstream::http(|request: Request<Incoming>| async move {
        answer(format!("{:?} {:?}", request.version(), request.headers().get("cookie")))
    })
    .await;
    for (protocol, version) in [(Protocol::Http, "HTTP/1.1"), (Protocol::H2c, "HTTP/2.0")] {
        let mut target = target("c", &[upstream.address]);
        target.protocol = protocol;
        let bed = Bed::new(global(vec![target])).await;
        assert!(bed.get("/").await.body.starts_with(version));
        let mut client = h2(bed.http()).await;
        let request = Request::get("http://a.test/")
            .header("cookie", "a=b")
            .header("cookie", "c=d")
            .body(Full::default())
            .unwrap();
        let response = client.send_request(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, format!("{version} Some(\"a=b; c=d\")"));
    }
}

#[tokio::test]
async fn http2_requests_with_two_hosts_are_refused() {
    let upstream = Upstream::named("c").await;
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    let mut client = h2(bed.http()).await;
    let request =
        Request::get("http://a.test/").header("host", "b.test").body(Full::default()).unwrap();
    assert_eq!(client.send_request(request).await.unwrap().status(), 400);
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn upgraded_connections_are_tunnels() {
    let upstream = Upstream::raw(|mut stream| async move {
        let mut head = [0; 2048];
        let length = stream.read(&mut head).await.unwrap();
        let head = String::from_utf8_lossy(&head[..length]).to_lowercase();
        assert!(head.contains("connection: upgrade") && head.contains("upgrade: websocket"), "{head}");
        let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhi";
        stream.write_all(answer.as_bytes()).await.unwrap();
        let (mut read, mut write) = stream.split();
        let _ = tokio::io::copy(&mut read, &mut write).await;
    })
    .await;
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    let mut stream = TcpStream::connect(bed.http()).await.unwrap();
    let request = "GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut read = vec![0; 4096];
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\nhi") {
        let length = stream.read(&mut read).await.unwrap();
        assert!(length > 0, "{}", String::from_utf8_lossy(&got));
        got.extend_from_slice(&read[..length]);
    }
    assert_eq!(Reply::parse(&got).status, 101);
    // Bytes that are no HTTP at all come back as they are.
    stream.write_all(b"\x00\n\n\r\x01frames").await.unwrap();
    let mut echo = [0; 11];
    stream.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"\x00\n\n\r\x01frames");
}

#[tokio::test]
async fn nobody_else_gets_a_connection_on_which_an_upgrade_was_refused() {
    let upstream = Upstream::raw(|mut stream| async move {
        let mut seen = Vec::new();
        while stream.read_buf(&mut seen).await.is_ok_and(|length| length > 0) {
            if seen.ends_with(b"\r\n\r\n") {
                seen.clear();
                let refused = b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n";
                let _ = stream.write_all(refused).await;
            }
        }
    })
    .await;
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    for asked in 1..=3 {
        let request = "GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: close, upgrade\r\n\
                       Upgrade: x\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(bed.send(request).await.status, 426);
        assert_eq!(upstream.hits(), asked, "the connection is used again");
    }
}

#[tokio::test]
async fn expectations_are_met_and_heads_have_no_body() {
    let upstream = Upstream::http(|request: Request<Incoming>| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        answer(format!("got {}", body.len()))
    })
    .await;
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    let mut stream = TcpStream::connect(bed.http()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\
                Connection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).await.unwrap();
    assert!(go_on.starts_with(b"HTTP/1.1 100 Continue\r\n"));
    stream.write_all(b"body").await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(Reply::parse(&rest).body, "got 4");

    let reply = bed.send("HEAD / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await;
    assert_eq!((reply.status, reply.body.as_str()), (200, ""));
    assert_eq!(reply.header("content-length"), Some("5"));
    let odd = "GET / HTTP/1.1\r\nHost: a.test\r\nExpect: magic\r\nConnection: close\r\n\r\n";
    assert_eq!(bed.send(odd).await.status, 417);
}

#[tokio::test]
async fn answers_are_streamed_while_they_are_made() {
    let (send, receive) = mpsc::channel::<Bytes>(1);
    let receive = std::sync::Arc::new(tokio::sync::Mutex::new(Some(receive)));
    let upstream = Upstream::http(move |_| {
        let receive = receive.clone();
        async move {
            let mut receive = receive.lock().await.take().unwrap();
            let stream = futures::stream::poll_fn(move |context| {
                receive.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
            });
            Response::new(BodyExt::boxed(StreamBody::new(stream)))
        }
    })
    .await;
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    let mut stream = TcpStream::connect(bed.http()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await.unwrap();
    let mut got = Vec::new();
    for part in ["one", "two", "three"] {
        send.send(Bytes::from(part)).await.unwrap();
        while !got.windows(part.len()).any(|window| window == part.as_bytes()) {
            let mut read = [0; 1024];
            let length = stream.read(&mut read).await.unwrap();
            got.extend_from_slice(&read[..length]);
        }
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_back_the_target() {
    let (sent, mut seen) = mpsc::unbounded_channel();
    let upstream = Upstream::raw(move |mut stream| {
        let sent = sent.clone();
        async move {
            let _ = stream.read(&mut [0; 2048]).await;
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut total = 0_u64;
            while stream.write_all(&[b'x'; 65536]).await.is_ok() {
                total += 65536;
                let _ = sent.send(total);
            }
        }
    })
    .await;
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    let mut stream = TcpStream::connect(bed.http()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await.unwrap();
    // It is held back when it has written nothing for a while.
    let mut total = 0;
    while let Ok(Some(more)) = tokio::time::timeout(Duration::from_millis(300), seen.recv()).await {
        total = more;
        assert!(total < 64 << 20, "the gateway takes in whatever it is sent");
    }
    assert!(total > 0);
}

#[tokio::test]
async fn the_proxy_header_names_the_client() {
    let upstream = Upstream::http(|request: Request<Incoming>| async move {
        answer(request.headers()["x-forwarded-for"].as_bytes().to_vec())
    })
    .await;
    let mut options = options();
    options.proxy_protocol = true;
    let bed = Bed::with(options, objects([global(vec![target("c", &[upstream.address])])])).await;
    let header =
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x09\x0a\x00\x00\x01\x00\x01\x00\x50";
    let request = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    let reply = crate::bed::exchange(bed.http(), &[&header[..], request].concat()).await;
    assert_eq!(Reply::parse(&reply).body, "192.0.2.9");
    assert!(crate::bed::exchange(bed.http(), request).await.is_empty());
}

#[tokio::test]
async fn both_sides_may_speak_ipv6() {
    let listener = tokio::net::TcpListener::bind("[::1]:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let length = stream.read(&mut head).await.unwrap();
            let head = String::from_utf8_lossy(&head[..length]).to_lowercase();
            let named = head.contains("x-forwarded-for: ::1\r\n")
                && head.contains("forwarded: for=\"[::1]\";proto=http;host=\"[::1]\"");
            let body = if named { "six" } else { "odd" };
            let answer =
                format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let mut options = options();
    options.http = vec!["[::1]:0".parse().unwrap()];
    let mut root = global(vec![target("c", &[address])]);
    root.rules[0].host = String::new();
    let bed = Bed::with(options, objects([root])).await;
    let port = bed.http().port();
    for unusual in ["", "TE: trailers\r\n"] {
        let request =
            format!("GET / HTTP/1.1\r\nHost: [::1]:{port}\r\n{unusual}Connection: close\r\n\r\n");
        assert_eq!(bed.send(&request).await.body, "six", "{unusual:?}");
    }
}
