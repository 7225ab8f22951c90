//! Requests as bytes, and what is answered.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Answer {
    /// Reads to the end, or to the end of the first line that has `until` in it.
    pub(crate) async fn to(address: SocketAddr, request: &str, until: Option<&str>) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        Self::over(stream, request, until).await
    }

    /// The same over a connection that is there.
    pub(crate) async fn over<S>(mut stream: S, request: &str, until: Option<&str>) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        let read = async {
            loop {
                let text = String::from_utf8_lossy(&bytes);
                let found = until.and_then(|until| text.find(until).map(|at| &text[at..]));
                if found.is_some_and(|rest| rest.contains('\n')) {
                    return;
                }
                if stream.read_buf(&mut bytes).await.unwrap() == 0 {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), read).await.expect("an answer");
        let text = String::from_utf8(bytes).unwrap();
        let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Self { status, text }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.text.lines().take_while(|line| !line.is_empty());
        let mut pairs = lines.filter_map(|line| line.split_once(": "));
        pairs.find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value))
    }

    pub(crate) fn body(&self) -> Value {
        let body = self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_default()
    }
}
