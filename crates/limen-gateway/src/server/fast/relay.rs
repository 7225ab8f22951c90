//! Bytes to a target and back.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::response::{self, AnswerHead, Chunks, Framing};
use super::watchdog::Watchdog;
use super::{After, Fast, Matched, Scratch, write_head};
use crate::proxy::{Chosen, Exchange, Refusal};
use crate::upstream::FailureKind;
use crate::upstream::raw::{self, RawConnection};

/// The head of an answer, at most.
const LONGEST_HEAD: usize = 64 * 1024;

/// How much is read at once while a head is expected. Most answers fit as a whole.
const PIECE: usize = 16 * 1024;

/// And of a body that is longer: larger pieces are fewer calls into the kernel.
const LARGE_PIECE: usize = 64 * 1024;

/// An answer whose head has come.
pub(super) struct Reply {
    pub(super) answer: AnswerHead,
    pub(super) connection: RawConnection,
    /// Whether the client wants its connection closed afterwards.
    pub(super) close: bool,
}

/// Sends what is in `out` and reads the head of the answer.
pub(super) async fn ask(
    connection: &mut RawConnection,
    scratch: &mut Scratch,
    to_head: bool,
    watchdog: &mut Watchdog,
) -> Result<AnswerHead, (FailureKind, &'static str)> {
    let Scratch { out, answer } = scratch;
    let reused = connection.reused;
    let broken = |error: std::io::Error, unsent: bool| match error.kind() {
        std::io::ErrorKind::TimedOut => (FailureKind::Slow, "no answer in time"),
        _ if unsent => (FailureKind::Unsent, "the connection was closed before it was used"),
        _ => (FailureKind::Broken, "the connection broke"),
    };
    let mut written = 0;
    while written < out.len() {
        match write_some(&mut connection.stream, &out[written..], watchdog).await {
            Ok(length) => written += length,
            Err(error) => return Err(broken(error, reused && written == 0)),
        }
    }
    answer.clear();
    loop {
        answer.reserve(PIECE);
        match read_some(&mut connection.stream, answer, watchdog).await {
            Ok(0) => return Err((FailureKind::Broken, "the connection was closed")),
            Ok(_) => {}
            Err(error) => return Err(broken(error, false)),
        }
        while let Some(head) =
            response::parse(answer, to_head).map_err(|reason| (FailureKind::Broken, reason))?
        {
            match head.status {
                101 => return Err((FailureKind::Broken, "switched protocols unasked")),
                100..200 => drop(answer.drain(..head.end)),
                _ => return Ok(head),
            }
        }
        if answer.len() > LONGEST_HEAD {
            return Err((FailureKind::Broken, "the head of the answer is too long"));
        }
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> Fast<I> {
    /// Passes an answer on to its end.
    pub(super) async fn relay(
        &mut self,
        reply: Reply,
        scratch: &mut Scratch,
        matched: &Matched,
        chosen: &Chosen,
        exchange: &mut Exchange,
    ) -> After {
        let Reply { answer, mut connection, close } = reply;
        let close = close || answer.framing == Framing::Close || self.shared.is_stopping();
        let Scratch { out, answer: piece } = scratch;
        exchange.status(answer.status);
        out.clear();
        let (client, route) = (&self.client, &matched.route);
        write_head::for_client(out, piece, &answer, close, client, route, &self.shared);
        let mut body = BodyEnd::new(answer.framing);
        let patience = matched.backend.rules.idle;
        let Ok(used) = body.take(&piece[answer.end..]) else { return After::Close };
        let mut clean = used == piece.len() - answer.end;
        out.extend_from_slice(&piece[answer.end..answer.end + used]);
        exchange.sent += used as u64;
        if write_all(&mut self.io, out, &mut self.watchdog, patience).await.is_err() {
            return After::Close;
        }
        while !body.ended() {
            piece.clear();
            piece.reserve(LARGE_PIECE);
            self.watchdog.until(Instant::now() + patience);
            match read_some(&mut connection.stream, piece, &mut self.watchdog).await {
                Ok(0) if body.ends_with_connection() => break,
                Ok(0) | Err(_) => return After::Close,
                Ok(_) => {}
            }
            let Ok(used) = body.take(piece) else { return After::Close };
            clean &= used == piece.len();
            exchange.sent += used as u64;
            let written =
                write_all(&mut self.io, &piece[..used], &mut self.watchdog, patience).await;
            if written.is_err() {
                return After::Close;
            }
        }
        exchange.complete();
        if answer.keep && clean {
            let endpoint = &chosen.address.endpoint;
            raw::give_back(endpoint, connection, Instant::now().into_std());
        }
        if close { After::Close } else { After::Keep }
    }

    /// Answers in place of a target.
    pub(super) async fn refuse(
        &mut self,
        refusal: &Refusal,
        close: bool,
        out: &mut Vec<u8>,
    ) -> After {
        let close = close || refusal.close || self.shared.is_stopping();
        let text = format!(
            "HTTP/1.1 {}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n{}\r\n{}\n",
            refusal.status,
            refusal.reason.len() + 1,
            if close { "connection: close\r\n" } else { "" },
            refusal.reason,
        );
        out.clear();
        out.extend_from_slice(text.as_bytes());
        let patience = self.shared.options.limits.head;
        let written = write_all(&mut self.io, out, &mut self.watchdog, patience).await;
        if close || written.is_err() { After::Close } else { After::Keep }
    }
}

/// Finds the end of a body.
enum BodyEnd {
    Left(u64),
    Chunks(Chunks),
    Connection,
}

impl BodyEnd {
    fn new(framing: Framing) -> Self {
        match framing {
            Framing::None => Self::Left(0),
            Framing::Length(length) => Self::Left(length),
            Framing::Chunked => Self::Chunks(Chunks::default()),
            Framing::Close => Self::Connection,
        }
    }

    /// How many of these bytes belong to the body.
    fn take(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        match self {
            Self::Left(left) => {
                let used = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= used as u64;
                Ok(used)
            }
            Self::Chunks(chunks) => chunks.feed(bytes),
            Self::Connection => Ok(bytes.len()),
        }
    }

    fn ended(&self) -> bool {
        match self {
            Self::Left(left) => *left == 0,
            Self::Chunks(chunks) => chunks.ended(),
            Self::Connection => false,
        }
    }

    fn ends_with_connection(&self) -> bool {
        matches!(self, Self::Connection)
    }
}

fn late() -> std::io::Error {
    std::io::ErrorKind::TimedOut.into()
}

async fn read_some(
    io: &mut (impl AsyncRead + Unpin),
    into: &mut Vec<u8>,
    watchdog: &mut Watchdog,
) -> std::io::Result<usize> {
    poll_fn(|context| match pin!(io.read_buf(into)).poll(context) {
        Poll::Pending if watchdog.is_up(context) => Poll::Ready(Err(late())),
        polled => polled,
    })
    .await
}

async fn write_some(
    io: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    watchdog: &mut Watchdog,
) -> std::io::Result<usize> {
    poll_fn(|context| match Pin::new(&mut *io).poll_write(context, bytes) {
        Poll::Pending if watchdog.is_up(context) => Poll::Ready(Err(late())),
        Poll::Ready(Ok(0)) => Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
        polled => polled,
    })
    .await
}

async fn write_all(
    io: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
    watchdog: &mut Watchdog,
    patience: Duration,
) -> std::io::Result<()> {
    while !bytes.is_empty() {
        watchdog.until(Instant::now() + patience);
        let length = write_some(io, bytes, watchdog).await?;
        bytes = &bytes[length..];
    }
    // Nothing to do for a socket; TLS has records of its own to send.
    poll_fn(|context| match Pin::new(&mut *io).poll_flush(context) {
        Poll::Pending if watchdog.is_up(context) => Poll::Ready(Err(late())),
        polled => polled,
    })
    .await
}

/// Closes a connection so that the other side gets everything that was sent.
pub(super) async fn finish(io: &mut (impl AsyncRead + AsyncWrite + Unpin), patience: Duration) {
    // TLS has a last record to send, which a client may never take.
    let _ = tokio::time::timeout(patience, io.shutdown()).await;
}
