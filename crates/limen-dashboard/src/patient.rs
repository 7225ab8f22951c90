//! A connection whose other end has to take what it is sent, and not at its leisure.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Fails when nothing of what is to be sent is taken for some time.
pub(crate) struct Patient<S> {
    stream: S,
    limit: Duration,
    /// Runs while nothing is taken.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, stalled: None }
    }

    fn judge<T>(&mut self, context: &mut Context<'_>, sent: Poll<Result<T>>) -> Poll<Result<T>> {
        if sent.is_ready() {
            self.stalled = None;
            return sent;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "nothing is taken")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(context, sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let sent = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, sent)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let sent = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, sent)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn who_takes_nothing_is_given_up() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut patient = Patient::new(near, Duration::from_millis(20));
        patient.write_all(b"four").await.unwrap();
        let refused = patient.write_all(b"more").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TimedOut);
        let mut taken = [0; 4];
        far.read_exact(&mut taken).await.unwrap();
        patient.write_all(b"last").await.unwrap();
        far.read_exact(&mut taken).await.unwrap();
        assert_eq!(&taken, b"last");
    }
}
