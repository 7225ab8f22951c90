//! The short way: many requests over one connection, answers of every form, and handing over.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::bed::{Bed, Upstream, answer, exchange, global, target};

/// Answers every request on a connection with the same bytes.
async fn says(bytes: &'static [u8], close: bool) -> Upstream {
    Upstream::raw(move |mut stream| async move {
        let mut seen = Vec::new();
        loop {
            let mut part = [0; 4096];
            match stream.read(&mut part).await {
                Ok(length) if length > 0 => seen.extend_from_slice(&part[..length]),
                _ => return,
            }
            while let Some(end) = seen.windows(4).position(|window| window == b"\r\n\r\n") {
                seen.drain(..end + 4);
                let _ = stream.write_all(bytes).await;
                if close {
                    return;
                }
            }
        }
    })
    .await
}

async fn twice(upstream: &Upstream, method: &str) -> String {
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    let first = format!("{method} /1 HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let second = format!("{method} /2 HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    let read = exchange(bed.http(), format!("{first}{second}").as_bytes()).await;
    String::from_utf8(read).unwrap()
}

#[tokio::test]
async fn answers_of_every_form_arrive_whole() {
    for (bytes, method, body, count) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..], "GET", "hello", 2),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD", "\r\n\r\n", 2),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "GET", "\r\n\r\n", 2),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "GET", "\r\n\r\n", 2),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
            "GET",
            "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
            2,
        ),
        (
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "GET",
            "ok",
            2,
        ),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", "POST", "\r\n\r\n", 2),
    ] {
        let upstream = says(bytes, false).await;
        let text = twice(&upstream, method).await;
        let heads = text.matches("HTTP/1.1 ").count();
        assert_eq!(heads, count, "{method} {}: {text}", String::from_utf8_lossy(bytes));
        assert!(text.ends_with(body), "{text}");
        assert_eq!(upstream.hits(), 1, "the connection is used again");
    }
}

#[tokio::test]
async fn an_answer_that_ends_with_its_connection_ends_the_clients_too() {
    let upstream = says(b"HTTP/1.1 200 OK\r\n\r\nuntil the end", true).await;
    let text = twice(&upstream, "GET").await;
    assert!(text.to_lowercase().contains("connection: close\r\n"), "{text}");
    assert!(text.ends_with("\r\n\r\nuntil the end"), "{text}");
}

#[tokio::test]
async fn a_refused_head_has_no_body_and_the_next_request_its_own_answer() {
    // The address is somebody's, and nobody listens there.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let dead = socket.local_addr().unwrap();
    let bed = Bed::new(global(vec![target("c", &[dead])])).await;
    let request = b"HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n\
                    HEAD / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    let text = String::from_utf8(exchange(bed.http(), request).await).unwrap();
    let answers: Vec<_> = text.split("\r\n\r\n").collect();
    assert_eq!(answers.len(), 3, "{text}");
    for answer in &answers[..2] {
        assert!(
            answer.starts_with("HTTP/1.1 502") && answer.contains("content-length: "),
            "{text}"
        );
    }
    assert_eq!(answers[2], "");
}

#[tokio::test]
async fn headers_for_one_hop_stay_there() {
    let upstream = says(
        b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n\
          X-Stay: 1\r\nContent-Length: 2\r\n\r\nok",
        false,
    )
    .await;
    let text = twice(&upstream, "GET").await.to_lowercase();
    assert!(!text.contains("x-hop") && !text.contains("keep-alive"), "{text}");
    assert!(text.contains("x-stay: 1\r\n"), "{text}");
}

#[tokio::test]
async fn bytes_behind_an_answer_spoil_its_connection() {
    let upstream =
        says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n", false).await;
    let text = twice(&upstream, "GET").await;
    assert_eq!(text.matches("HTTP/1.1 200").count(), 2);
    assert_eq!(upstream.hits(), 2, "the connection is not used again");
}

#[tokio::test]
async fn a_connection_is_handed_over_in_the_middle_of_its_requests() {
    let upstream = Upstream::http(|request: http::Request<hyper::body::Incoming>| async move {
        use http_body_util::BodyExt;
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        answer(format!("[{path} {}]", body.len()))
    })
    .await;
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    let large = "x".repeat(100_000);
    let requests = [
        "GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned(),
        "POST /2 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello".to_owned(),
        "POST /3 HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
            .to_owned(),
        "GET /4 HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned(),
        format!("PUT /5 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\n{large}"),
        "GET /6 HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n".to_owned(),
    ];
    let mut stream = TcpStream::connect(bed.http()).await.unwrap();
    stream.write_all(requests.concat().as_bytes()).await.unwrap();
    let mut read = Vec::new();
    stream.read_to_end(&mut read).await.unwrap();
    let text = String::from_utf8(read).unwrap();
    let mut places = Vec::new();
    for part in ["[/1 0]", "[/2 5]", "[/3 3]", "[/4 0]", "[/5 100000]", "[/6 0]"] {
        places.push(text.find(part).unwrap_or_else(|| panic!("no {part} in {text}")));
    }
    assert!(places.is_sorted(), "answers come in the order of their requests");
}
