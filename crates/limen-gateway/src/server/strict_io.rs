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

/// A stream whose bytes are checked on the way in.
///
/// Where the bytes go wrong the reader gets a NUL in their place, and then the end. A NUL is wrong
/// everywhere in HTTP, so the reader answers 400 and closes, in order behind the requests before.
pub(super) struct StrictIo<I> {
    inner: I,
    strict: Strict,
    spoilt: Spoilt,
    /// Runs while a head has begun and not ended.
    deadline: Option<Pin<Box<Sleep>>>,
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
    pub(super) fn new(inner: I, shared: Arc<Shared>, client: Arc<Client>) -> Self {
        let strict = Strict::new(shared.options.limits.head_bytes);
        Self { inner, strict, spoilt: Spoilt::No, deadline: None, shared, client }
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
            return Pin::new(&mut this.inner).poll_read(context, buffer);
        }
        let before = buffer.filled().len();
        match Pin::new(&mut this.inner).poll_read(context, buffer) {
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
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
