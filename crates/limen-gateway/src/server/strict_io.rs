//! A client's stream that shows its reader only what is beyond doubt.

use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::strict::Strict;
use crate::proxy::Client;
use crate::worker::Shared;

/// A stream of which something has been read already, and whose bytes are checked on the way in.
///
/// What has been read is given once more, and then the rest. Where the bytes go wrong the reader gets a NUL in their place, and then the end. A NUL is wrong
/// everywhere in HTTP, so the reader answers 400 and closes, in order behind the requests before.
pub(super) struct StrictIo<I> {
    inner: I,
    read: Vec<u8>,
    /// How much of it has been given.
    given: usize,
    strict: Strict,
    spoilt: Spoilt,
    /// Runs while a head has begun and not ended.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Runs while the client takes nothing of what is sent to it.
    stuck: Option<Pin<Box<Sleep>>>,
    shared: Arc<Shared>,
    client: Arc<Client>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spoilt {
    No,
    Mark,
    Ended,
}

impl<I> StrictIo<I> {
    pub(super) fn new(inner: I, read: Vec<u8>, shared: Arc<Shared>, client: Arc<Client>) -> Self {
        let strict = Strict::new(shared.options.limits.head_bytes);
        Self {
            inner,
            read,
            given: 0,
            strict,
            spoilt: Spoilt::No,
            deadline: None,
            stuck: None,
            shared,
            client,
        }
    }

    /// What came of sending something, unless the client has not taken anything for too long.
    fn sent<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<std::io::Result<T>>,
    ) -> Poll<std::io::Result<T>> {
        // What a tunnel carries has times of its own.
        if polled.is_ready() || self.client.tunnel.load(Ordering::Relaxed) {
            self.stuck = None;
            return polled;
        }
        let patience = self.shared.options.limits.idle;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        match stuck.as_mut().poll(context) {
            Poll::Ready(()) => {
                Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client takes nothing")))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<I: AsyncRead + Unpin> StrictIo<I> {
    fn poll_raw(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let left = &self.read[self.given..];
        if left.is_empty() {
            (self.read, self.given) = (Vec::new(), 0);
            return Pin::new(&mut self.inner).poll_read(context, buffer);
        }
        let length = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..length]);
        self.given += length;
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for StrictIo<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = &mut *self;
        match this.spoilt {
            Spoilt::No => {}
            Spoilt::Mark => {
                buffer.put_slice(&[0]);
                this.spoilt = Spoilt::Ended;
                return Poll::Ready(Ok(()));
            }
            Spoilt::Ended => return Poll::Ready(Ok(())),
        }
        if this.client.tunnel.load(Ordering::Relaxed) {
            return this.poll_raw(context, buffer);
        }
        let before = buffer.filled().len();
        match this.poll_raw(context, buffer) {
            Poll::Ready(Ok(())) => {}
            Poll::Pending => {
                if let Some(deadline) = &mut this.deadline
                    && deadline.as_mut().poll(context).is_ready()
                {
                    let error = Error::new(ErrorKind::TimedOut, "the head took too long");
                    return Poll::Ready(Err(error));
                }
                return Poll::Pending;
            }
            failed => return failed,
        }
        if let Err(violation) = this.strict.feed(&buffer.filled()[before..]) {
            this.shared.metrics.malformed.add(1);
            tracing::debug!(reason = violation.reason, "malformed request");
            buffer.set_filled(before + violation.good);
            if buffer.remaining() > 0 {
                buffer.put_slice(&[0]);
                this.spoilt = Spoilt::Ended;
            } else {
                this.spoilt = Spoilt::Mark;
            }
        }
        if !this.strict.in_head() {
            this.deadline = None;
        } else if this.deadline.is_none() {
            let patience = this.shared.options.limits.head;
            this.deadline = Some(Box::pin(tokio::time::sleep(patience)));
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for StrictIo<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.sent(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.sent(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(context);
        self.sent(context, polled)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(context);
        self.sent(context, polled)
    }
}
