//! The body of an answer on its way to the client.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::exchange::Exchange;
use crate::upstream::Lease;

/// The body of an answer.
pub(crate) enum ProxyBody {
    Empty,
    Full(Bytes),
    Upstream(Box<UpstreamBody>),
}

/// What a target sends, as it sends it.
pub(crate) struct UpstreamBody {
    incoming: Incoming,
    exchange: Exchange,
    /// Given back for others to use when the body is at its end.
    lease: Option<Lease>,
    patience: Duration,
    /// Made when the target first keeps us waiting.
    waiting: Option<Pin<Box<Sleep>>>,
}

/// Why an answer breaks off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the target broke off: {0}")]
    Broken(#[from] hyper::Error),
    #[error("the target sent nothing for too long")]
    Idle,
}

impl UpstreamBody {
    pub(super) fn new(
        incoming: Incoming,
        exchange: Exchange,
        lease: Lease,
        patience: Duration,
    ) -> Self {
        Self { incoming, exchange, lease: Some(lease), patience, waiting: None }
    }

    fn end(&mut self) {
        self.exchange.complete();
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match Pin::new(&mut self.incoming).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    self.exchange.sent += data.len() as u64;
                }
                self.waiting = None;
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => {
                self.end();
                Poll::Ready(None)
            }
            Poll::Pending => {
                let until = Instant::now() + self.patience;
                let sleep =
                    self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
                match sleep.as_mut().poll(context) {
                    Poll::Ready(()) => Poll::Ready(Some(Err(BodyError::Idle))),
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }
}

impl Drop for UpstreamBody {
    fn drop(&mut self) {
        // Whoever knows the length stops reading with the last byte.
        if self.lease.is_some() && self.incoming.is_end_stream() {
            self.end();
        }
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Self::Upstream(body) => body.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Full(bytes) => bytes.is_empty(),
            Self::Upstream(body) => body.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Upstream(body) => body.incoming.size_hint(),
        }
    }
}
