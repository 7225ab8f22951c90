//! The way to a server, on which answers can be made late.
//!
//! ```text
//!   client ── requests ─────────────────► server
//!          ◄── answers ── wait, or not ──
//! ```
//!
//! It copies bytes and knows nothing of TLS or HTTP. Requests always go through, so whatever they do
//! is done although the client does not know it yet.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const CHUNK: usize = 64 << 10;

/// Answers that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// None.
    Nothing,
    /// All.
    Everything,
    /// Those on connections that a request has come over since the lag began. Watches that began
    /// earlier go on, provided that the server speaks HTTP/1.1 and so gives each its connection.
    NewRequests,
}

/// A lag, and its number: a connection remembers the lag that it had a request in.
#[derive(Clone, Copy)]
struct Period {
    number: u64,
    lag: Lag,
}

/// A loopback address that leads to a server. Dropping it accepts no more connections.
pub struct Detour {
    address: SocketAddr,
    period: watch::Sender<Period>,
    accepting: JoinHandle<()>,
}

impl Detour {
    /// A way to the server at a loopback port.
    pub async fn to(port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (period, periods) = watch::channel(Period { number: 0, lag: Lag::Nothing });
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(through(client, port, periods.clone()));
            }
        });
        Ok(Self { address, period, accepting })
    }

    /// The address, for clients of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes answers late from now on, or lets all go that wait.
    pub fn set(&self, lag: Lag) {
        self.period.send_modify(|period| *period = Period { number: period.number + 1, lag });
    }
}

impl Drop for Detour {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn through(client: TcpStream, port: u16, mut periods: watch::Receiver<Period>) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
    for stream in [&client, &server] {
        // Its segments are as large as they come.
        let _ = stream.set_nodelay(true);
    }
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let asked = Arc::new(AtomicU64::new(0));
    let (last_asked, now) = (asked.clone(), periods.clone());
    let asking = async move {
        let mut buffer = vec![0; CHUNK];
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            last_asked.store(now.borrow().number, Ordering::Release);
            if to_server.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    let answering = async move {
        let mut buffer = vec![0; CHUNK];
        let passes = |period: &Period| match period.lag {
            Lag::Nothing => true,
            Lag::Everything => false,
            Lag::NewRequests => asked.load(Ordering::Acquire) != period.number,
        };
        while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
            if periods.wait_for(passes).await.is_err()
                || to_client.write_all(&buffer[..read]).await.is_err()
            {
                return;
            }
        }
    };
    // Whoever ends it first ends both halves.
    tokio::select! {
        () = asking => {}
        () = answering => {}
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A server that repeats what it is told, and what it got so far.
    async fn echo() -> (u16, watch::Receiver<usize>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (got, seen) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let got = got.clone();
                tokio::spawn(async move {
                    let mut byte = [0];
                    while let Ok(1) = stream.read(&mut byte).await {
                        got.send_modify(|count| *count += 1);
                        stream.write_all(&byte).await.unwrap();
                    }
                });
            }
        });
        (port, seen)
    }

    async fn answered(stream: &mut TcpStream) -> bool {
        let answer = tokio::time::timeout(Duration::from_millis(200), stream.read_u8());
        answer.await.is_ok()
    }

    #[tokio::test]
    async fn requests_go_through_while_answers_wait() {
        let (port, mut seen) = echo().await;
        let detour = Detour::to(port).await.unwrap();
        let mut client = TcpStream::connect(detour.address()).await.unwrap();
        client.write_u8(1).await.unwrap();
        assert!(answered(&mut client).await);
        detour.set(Lag::Everything);
        client.write_u8(2).await.unwrap();
        seen.wait_for(|count| *count == 2).await.unwrap();
        assert!(!answered(&mut client).await);
        detour.set(Lag::Nothing);
        assert_eq!(client.read_u8().await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_connection_without_a_new_request_goes_on() {
        let (port, mut seen) = echo().await;
        let detour = Detour::to(port).await.unwrap();
        let mut before = TcpStream::connect(detour.address()).await.unwrap();
        detour.set(Lag::Everything);
        before.write_u8(1).await.unwrap();
        seen.wait_for(|count| *count == 1).await.unwrap();
        detour.set(Lag::NewRequests);
        assert!(answered(&mut before).await, "it was asked before");
        before.write_u8(2).await.unwrap();
        assert!(!answered(&mut before).await, "it was asked since");
        detour.set(Lag::NewRequests);
        assert!(answered(&mut before).await, "that was another lag");
    }
}
