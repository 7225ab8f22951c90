//! A client's socket that sends in one piece what belongs together.
//!
//! A TLS 1.3 handshake ends with tickets that no client waits for, and a connection with a record
//! that says so. Sent by itself, each of them costs a call into the kernel, a segment and a wake of
//! the client, which is more than it costs to make. So they travel with the answer.
//!
//! ```text
//! shaking   the server's part goes out when the client has to be waited for; tickets do not ─┐
//! through   whatever is written goes out at once, behind the tickets ◄───────────────────────┘
//! last      the last answer waits for the record that ends the connection
//! ```

use std::io::{ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Of a last answer no more is held than this.
const MOST: usize = 64 * 1024;

/// When what is written goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Shaking,
    Through,
    Last,
}

/// A socket, and what waits to be sent on it.
#[derive(Debug)]
pub(super) struct Held<I> {
    io: I,
    held: Vec<u8>,
    /// How much of it has been sent.
    sent: usize,
    mode: Mode,
}

/// Knows when its last answer comes.
pub(super) trait Ending {
    /// What is written from now on may wait until the connection is shut down.
    fn ends(&mut self);
}

impl Ending for TcpStream {
    fn ends(&mut self) {}
}

impl<I> Ending for TlsStream<Held<I>> {
    fn ends(&mut self) {
        self.get_mut().0.mode = Mode::Last;
    }
}

impl<I> Held<I> {
    /// A socket on which a handshake begins.
    pub(super) fn new(io: I) -> Self {
        Self { io, held: Vec::new(), sent: 0, mode: Mode::Shaking }
    }

    /// The handshake is over. What is held goes with what is written or flushed next.
    pub(super) fn shaken(&mut self) {
        self.mode = Mode::Through;
    }
}

impl<I: AsyncWrite + Unpin> Held<I> {
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        while self.sent < self.held.len() {
            let left = &self.held[self.sent..];
            match ready!(Pin::new(&mut self.io).poll_write(context, left))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                length => self.sent += length,
            }
        }
        // An idle connection needs no room.
        (self.held, self.sent) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }

    fn hold(&mut self, parts: &[IoSlice<'_>]) -> usize {
        let length = parts.iter().map(|part| part.len()).sum();
        self.held.reserve(length);
        for part in parts {
            self.held.extend_from_slice(part);
        }
        length
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncRead for Held<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        // Whoever is waited for may be waiting for what is held.
        if read.is_pending()
            && self.mode == Mode::Shaking
            && let Poll::Ready(Err(error)) = self.poll_send(context)
        {
            return Poll::Ready(Err(error));
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Held<I> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        if self.mode == Mode::Through && self.held.is_empty() {
            return Pin::new(&mut self.io).poll_write_vectored(context, parts);
        }
        if self.held.len() >= MOST {
            ready!(self.poll_send(context))?;
        }
        let length = self.hold(parts);
        if self.mode == Mode::Through {
            // Taken is taken: what does not go out now goes out with the next write or flush.
            if let Poll::Ready(Err(error)) = self.poll_send(context) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.mode != Mode::Through {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Keeps every piece that is sent, and never has anything to read.
    #[derive(Default)]
    struct Pieces {
        sent: Vec<String>,
        /// How much is taken of what is sent, at most.
        room: Option<usize>,
    }

    impl AsyncRead for Pieces {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Pieces {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<Result<usize>> {
            let length = self.room.unwrap_or(bytes.len()).min(bytes.len());
            if length == 0 {
                return Poll::Pending;
            }
            self.room = self.room.map(|room| room - length);
            self.sent.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
            Poll::Ready(Ok(length))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
            self.sent.push("end".to_owned());
            Poll::Ready(Ok(()))
        }
    }

    /// Whether somebody who wants to read has to wait.
    async fn waits(held: &mut Held<Pieces>) -> bool {
        let mut byte = [0];
        futures::poll!(Box::pin(held.read(&mut byte))).is_pending()
    }

    #[tokio::test]
    async fn tickets_go_with_what_is_sent_next() {
        let mut held = Held::new(Pieces::default());
        held.write_all(b"server's part ").await.unwrap();
        held.flush().await.unwrap();
        assert!(held.io.sent.is_empty());
        assert!(waits(&mut held).await);
        assert_eq!(held.io.sent, ["server's part "], "the client has to be waited for");
        held.write_all(b"tickets ").await.unwrap();
        held.flush().await.unwrap();
        held.shaken();
        assert!(waits(&mut held).await);
        held.write_all(b"answer ").await.unwrap();
        held.write_all(b"body ").await.unwrap();
        assert_eq!(held.io.sent[1..], ["tickets answer ", "body "]);
    }

    #[tokio::test]
    async fn a_flush_after_the_handshake_sends_what_is_held() {
        let mut held = Held::new(Pieces::default());
        held.write_all(b"finished").await.unwrap();
        held.shaken();
        held.flush().await.unwrap();
        assert_eq!(held.io.sent, ["finished"]);
    }

    #[tokio::test]
    async fn the_last_answer_goes_with_the_end() {
        let mut held = Held::new(Pieces::default());
        held.shaken();
        held.mode = Mode::Last;
        held.write_all(b"answer ").await.unwrap();
        held.flush().await.unwrap();
        held.write_all(b"last record").await.unwrap();
        assert!(held.io.sent.is_empty());
        held.shutdown().await.unwrap();
        assert_eq!(held.io.sent, ["answer last record", "end"]);
    }

    #[tokio::test]
    async fn what_was_not_taken_at_once_is_sent_later_and_in_order() {
        let mut held = Held::new(Pieces { room: Some(4), ..Pieces::default() });
        held.write_all(b"tickets ").await.unwrap();
        held.shaken();
        held.write_all(b"answer").await.unwrap();
        assert!(futures::poll!(Box::pin(held.flush())).is_pending());
        held.io.room = None;
        held.flush().await.unwrap();
        assert_eq!(held.io.sent.concat(), "tickets answer");
        let much = "x".repeat(2 * MOST);
        held.io.room = Some(0);
        held.mode = Mode::Last;
        held.write_all(much.as_bytes()).await.unwrap();
        let more = futures::poll!(Box::pin(held.write(b"y")));
        assert!(more.is_pending(), "there is an end to what is held");
    }
}
