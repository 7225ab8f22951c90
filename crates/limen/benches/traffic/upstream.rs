//! What a member's pods answer with, and a client that asks a gateway.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Answers every request with a number.
pub(crate) async fn serve(number: usize) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // What goes wrong on a connection is the business of who opened it.
            tokio::spawn(async move { drop(answer(stream, number).await) });
        }
    });
    Ok(address)
}

async fn answer(mut stream: TcpStream, number: usize) -> std::io::Result<()> {
    let body = format!("{number}");
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let (mut read, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            read.drain(..end + 4);
            stream.write_all(answer.as_bytes()).await?;
        }
        let count = stream.read(&mut chunk).await?;
        if count == 0 {
            return Ok(());
        }
        read.extend_from_slice(&chunk[..count]);
    }
}

/// The number that answers a request for a host; nothing if there is no such answer.
pub(crate) async fn ask(stream: &mut TcpStream, host: &str) -> Result<Option<usize>> {
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let (mut read, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut chunk).await?;
        ensure!(count > 0, "the gateway closed a connection");
        read.extend_from_slice(&chunk[..count]);
        let text = std::str::from_utf8(&read).context("the answer is no text")?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        if body.len() >= length.unwrap_or(0) {
            return Ok(body.parse().ok());
        }
    }
}
