//! HTTP/2 clients before targets that speak HTTP/1: what the short way between them has to get
//! right.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use limen_core::global::{Timeouts, TrafficRules};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::bed::{Bed, Upstream, global, target, with_traffic};
use crate::protocols::h2;

/// A target that says this to every request and keeps its connection.
async fn says(answer: impl Into<Vec<u8>>) -> Upstream {
    let answer = answer.into();
    Upstream::raw(move |mut stream| {
        let answer = answer.clone();
        async move {
            let mut head = Vec::new();
            while stream.read_buf(&mut head).await.is_ok_and(|length| length > 0) {
                if head.ends_with(b"\r\n\r\n") {
                    head.clear();
                    let _ = stream.write_all(&answer).await;
                }
            }
        }
    })
    .await
}

async fn ask(client: &mut SendRequest<Full<Bytes>>, method: Method) -> Response<Incoming> {
    let request = Request::builder().method(method).uri("http://a.test/x").body(Full::default());
    client.send_request(request.unwrap()).await.unwrap()
}

#[tokio::test]
async fn chunks_become_data_and_trailers_stay_trailers() {
    for (chunks, body, sum) in [
        ("5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nx-sum: 11\r\n\r\n", "hello world", Some("11")),
        ("5\r\nhello\r\n0\r\n\r\n", "hello", None),
        ("0\r\n\r\n", "", None),
    ] {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n";
        let upstream = says(format!("{head}{chunks}")).await;
        let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
        let mut client = h2(bed.http()).await;
        for _ in 0..3 {
            let response = ask(&mut client, Method::GET).await;
            assert!(!response.headers().contains_key("transfer-encoding"));
            let got = response.into_body().collect().await.unwrap();
            let trailer = got.trailers().map(|trailers| trailers["x-sum"].to_str().unwrap());
            assert_eq!(trailer, sum, "{chunks:?}");
            assert_eq!(got.to_bytes(), body, "{chunks:?}");
        }
    }
}

#[tokio::test]
async fn long_answers_come_whole_whatever_their_framing() {
    let body: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let mut chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for piece in body.chunks(70_001) {
        chunked.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        chunked.extend_from_slice(piece);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let length = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    for answer in [chunked, [length.as_bytes(), &body].concat()] {
        let upstream = says(answer).await;
        let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
        let mut client = h2(bed.http()).await;
        for _ in 0..3 {
            let got = ask(&mut client, Method::GET).await.into_body().collect().await.unwrap();
            assert!(got.to_bytes() == body, "something is missing or mixed up");
        }
        assert_eq!(upstream.hits(), 1, "the connection is used again");
    }
}

#[tokio::test]
async fn heads_have_a_length_and_no_body() {
    let upstream = says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\nX-A: b\r\n\r\n").await;
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    let mut client = h2(bed.http()).await;
    for _ in 0..2 {
        let response = ask(&mut client, Method::HEAD).await;
        assert_eq!(response.headers()["content-length"], "100");
        assert_eq!(response.headers()["x-a"], "b");
        assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty());
    }
}

#[tokio::test]
async fn refused_heads_have_a_length_and_no_body_either() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let bed = Bed::new(global(vec![target("c", &[socket.local_addr().unwrap()])])).await;
    let mut client = h2(bed.http()).await;
    // The second is refused by the general way, as no rule matches.
    for (uri, status) in [("http://a.test/", 502), ("http://b.test/", 404)] {
        let request = Request::head(uri).body(Full::default()).unwrap();
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.status(), status);
        assert_ne!(response.headers()["content-length"], "0");
        assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty());
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_never_taken_for_whole() {
    let timeouts = Timeouts { idle_milliseconds: 300, ..Timeouts::default() };
    for framing in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        for closes in [true, false] {
            let answer = format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n5\r\nhello\r\n");
            let upstream = Upstream::raw(move |mut stream| {
                let answer = answer.clone();
                async move {
                    let _ = stream.read(&mut [0; 4096]).await;
                    let _ = stream.write_all(answer.as_bytes()).await;
                    if !closes {
                        std::future::pending::<()>().await;
                    }
                }
            })
            .await;
            let rules =
                TrafficRules { timeouts: Some(timeouts.clone()), ..TrafficRules::default() };
            let root = with_traffic(global(vec![target("c", &[upstream.address])]), rules);
            let bed = Bed::new(root).await;
            let mut client = h2(bed.http()).await;
            for _ in 0..2 {
                client.ready().await.expect("the connection outlives the stream");
                let request = Request::get("http://a.test/x").body(Full::default()).unwrap();
                let asked = client.send_request(request);
                // The stream may be reset before its head is on its way.
                let whole = async { asked.await?.into_body().collect().await };
                let whole = tokio::time::timeout(Duration::from_secs(20), whole).await;
                assert!(whole.expect("it is not waited for").is_err(), "{framing} {closes}");
            }
        }
    }
}

#[tokio::test]
async fn a_target_that_gives_no_answer_is_passed_over() {
    let silent = Upstream::raw(|mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
    })
    .await;
    let good = Upstream::named("good").await;
    let addresses = [silent.address, good.address];
    let bed = Bed::new(global(vec![target("c", &addresses)])).await;
    let mut client = h2(bed.http()).await;
    for _ in 0..20 {
        let response = ask(&mut client, Method::GET).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "good");
    }
    assert!(silent.hits() > 0, "nobody ever asked the target that gives no answer");
}
