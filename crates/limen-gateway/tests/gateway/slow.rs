//! HTTP/2 clients that take what they are sent slowly, but steadily.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::bed::{Bed, Upstream, global, objects, options, target};

/// A gateway with this patience before a target whose answer has this length.
async fn bed(patience: Duration, length: usize) -> (Bed, Upstream) {
    let long = Upstream::raw(move |mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let _ = stream.write_all(&[head.as_bytes(), &vec![b'x'; length]].concat()).await;
        let _ = stream.read(&mut [0; 4096]).await;
    })
    .await;
    let mut options = options();
    options.limits.idle = patience;
    let bed = Bed::with(options, objects([global(vec![target("c", &[long.address])])])).await;
    (bed, long)
}

/// An answer to a client that gives the gateway so much room. With a `TE` header it comes by the
/// general way.
async fn ask(bed: &Bed, room: u32, te: Option<&'static str>) -> Response<Incoming> {
    let io = TokioIo::new(TcpStream::connect(bed.http()).await.unwrap());
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(room).initial_connection_window_size(65_535);
    let (mut client, connection) = builder.handshake(io).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::new(Full::<Bytes>::default());
    *request.uri_mut() = "http://a.test/".parse().unwrap();
    request.headers_mut().extend(te.map(|te| (http::header::TE, HeaderValue::from_static(te))));
    client.send_request(request).await.unwrap()
}

/// How much of an answer comes to a client that takes some at once and then a byte in `pace`.
async fn taken(response: Response<Incoming>, at_once: usize, pace: Duration) -> usize {
    let mut body = response.into_body();
    let mut taken = 0;
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        taken += length;
        if taken > at_once {
            tokio::time::sleep(pace * u32::try_from(length).unwrap()).await;
        }
    }
    taken
}

#[tokio::test]
async fn who_takes_a_long_answer_steadily_gets_all_of_it() {
    const LENGTH: usize = 1_200_000;
    let (bed, _long) = bed(Duration::from_secs(3), LENGTH).await;
    let response = ask(&bed, 65_535, Some("trailers")).await;
    assert_eq!(taken(response, 500_000, Duration::from_micros(12)).await, LENGTH);
}

#[tokio::test]
async fn who_takes_the_end_of_an_answer_steadily_gets_all_of_it() {
    // In one piece, so that the gateway is done with it at once.
    const LENGTH: usize = 15 * 1024;
    let (bed, _long) = bed(Duration::from_secs(2), LENGTH).await;
    let response = ask(&bed, 1024, None).await;
    assert_eq!(taken(response, 0, Duration::from_micros(400)).await, LENGTH);
}
