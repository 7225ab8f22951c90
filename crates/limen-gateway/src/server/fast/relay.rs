//! Bytes to a target and back.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::super::held::Ending;
use super::attempts::{Answered, Matched};
use super::{After, Fast, Scratch, write_head};
use crate::proxy::{Exchange, Refusal};
use crate::upstream::raw::{self, BodyEnd, Framing, Watchdog, late, read_some, write_some};

/// How much of a body is read at once: larger pieces are fewer calls into the kernel.
const LARGE_PIECE: usize = 64 * 1024;

impl<I: AsyncRead + AsyncWrite + Ending + Unpin> Fast<I> {
    /// Passes an answer on to its end. `close` says whether the client wants its connection closed
    /// afterwards.
    pub(super) async fn relay(
        &mut self,
        answered: Answered,
        close: bool,
        scratch: &mut Scratch,
        matched: &Matched,
        exchange: &mut Exchange,
    ) -> After {
        let Answered { answer, mut connection, chosen } = answered;
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
        if close && body.ended() {
            self.io.ends();
        }
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

    /// Answers in place of a target. `to_head` says whether the client takes no body.
    pub(super) async fn refuse(
        &mut self,
        refusal: &Refusal,
        close: bool,
        to_head: bool,
        out: &mut Vec<u8>,
    ) -> After {
        let close = close || refusal.close || self.shared.is_stopping();
        let head = format!(
            "HTTP/1.1 {}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n{}\r\n",
            refusal.status,
            refusal.reason.len() + 1,
            if close { "connection: close\r\n" } else { "" },
        );
        out.clear();
        out.extend_from_slice(head.as_bytes());
        if !to_head {
            out.extend_from_slice(refusal.reason.as_bytes());
            out.push(b'\n');
        }
        let patience = self.shared.options.limits.head;
        if close {
            self.io.ends();
        }
        let written = write_all(&mut self.io, out, &mut self.watchdog, patience).await;
        if close || written.is_err() { After::Close } else { After::Keep }
    }
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
