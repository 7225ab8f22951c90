//! A request to a target, and the head of its answer.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use super::RawConnection;
use super::answer::AnswerHead;
use super::watchdog::Watchdog;
use crate::upstream::FailureKind;

/// The head of an answer, at most.
const LONGEST_HEAD: usize = 64 * 1024;

/// How much is read at once while a head is expected. Most answers fit as a whole.
const PIECE: usize = 16 * 1024;

/// Sends what is in `out` and reads the head of the answer. What comes after it in `answer` is the
/// beginning of its body.
pub(crate) async fn ask(
    connection: &mut RawConnection,
    out: &[u8],
    answer: &mut Vec<u8>,
    to_head: bool,
    watchdog: &mut Watchdog,
) -> Result<AnswerHead, (FailureKind, &'static str)> {
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
            super::answer::parse(answer, to_head).map_err(|reason| (FailureKind::Broken, reason))?
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

pub(crate) fn late() -> std::io::Error {
    std::io::ErrorKind::TimedOut.into()
}

pub(crate) async fn read_some(
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

pub(crate) async fn write_some(
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
