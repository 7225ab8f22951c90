//! Those who come only to be in the way.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::answer::Answer;
use crate::bed::Bed;

/// As many as may be open from one address.
const FROM_ONE_ADDRESS: usize = 128;
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_can_take_all_places_or_keep_one_by_a_body_that_does_not_come() {
    let mut bed = Bed::start().await;
    let address = bed.dashboard.address();
    let login = "POST /api/login HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                 content-length: 20\r\n\r\n";
    let mut idle = Vec::new();
    for _ in 0..FROM_ONE_ADDRESS {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(login.as_bytes()).await.unwrap();
        idle.push(stream);
    }
    let well = "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let mut one_more = TcpStream::connect(address).await.unwrap();
    // It may be closed already, so that nothing can be sent.
    let _ = one_more.write_all(well.as_bytes()).await;
    let read = tokio::time::timeout(PATIENCE, one_more.read(&mut [0; 1])).await;
    let refused = matches!(read.expect("it is closed or answered"), Ok(0) | Err(_));
    // On a slow machine the first may have had to go before the last has come.
    let gone = tokio::time::timeout(Duration::from_secs(1), idle[0].peek(&mut [0; 1])).await;
    assert!(refused || gone.is_ok(), "one more than may come from an address is let in");

    let elsewhere = TcpSocket::new_v4().unwrap();
    elsewhere.bind(([127, 0, 0, 2], 0).into()).unwrap();
    let stream = elsewhere.connect(address).await.unwrap();
    assert_eq!(Answer::over(stream, well, None).await.status, 200);

    for mut stream in idle {
        let mut said = String::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_string(&mut said)).await;
        read.expect("it ends").unwrap();
        assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
    }
    bed.hub.stop().await;
}
