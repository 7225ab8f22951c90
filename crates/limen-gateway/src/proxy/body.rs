//! The body of an answer on its way to the client.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::exchange::Exchange;
use crate::upstream::Lease;
use crate::upstream::raw::RawBody;

thread_local! {
    /// What became of asking a body for more, for those who cannot see it being asked.
    static NOTED: Cell<Option<Poll<()>>> = const { Cell::new(None) };
}

/// Polls something that has a body in it. Also says whether the body, when it was last asked, had
/// something to give or has to be waited for; nothing if it was not asked.
pub(crate) fn noting_body<T>(poll: impl FnOnce() -> T) -> (T, Option<Poll<()>>) {
    NOTED.set(None);
    let polled = poll();
    (polled, NOTED.take())
}

/// The body of an answer.
pub(crate) enum ProxyBody {
    Empty,
    Full(Bytes),
    Upstream(Box<UpstreamBody>),
}

/// What a target sends, as it sends it.
pub(crate) struct UpstreamBody {
    source: Source,
    exchange: Exchange,
    patience: Duration,
    /// Made when the target first keeps us waiting.
    waiting: Option<Pin<Box<Sleep>>>,
}

/// Where the body comes from.
enum Source {
    /// The connection is given back for others to use when the body is at its end.
    Hyper(Incoming, Option<Lease>),
    Raw(RawBody),
}

/// Why an answer breaks off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the target broke off: {0}")]
    Broken(#[from] hyper::Error),
    #[error("the target broke off: {0}")]
    Lost(#[from] std::io::Error),
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
        Self { source: Source::Hyper(incoming, Some(lease)), exchange, patience, waiting: None }
    }

    fn end(&mut self) {
        self.exchange.complete();
        if let Source::Hyper(_, lease) = &mut self.source
            && let Some(lease) = lease.take()
        {
            lease.give_back(self.patience);
        }
    }

    fn poll_source(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.source {
            Source::Hyper(incoming, _) => Pin::new(incoming)
                .poll_frame(context)
                .map(|frame| frame.map(|frame| frame.map_err(BodyError::from))),
            Source::Raw(raw) => raw
                .poll_frame(context)
                .map(|frame| frame.map(|frame| frame.map_err(BodyError::from))),
        }
    }

    fn is_end(&self) -> bool {
        match &self.source {
            Source::Hyper(incoming, _) => incoming.is_end_stream(),
            Source::Raw(raw) => raw.is_end(),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.poll_source(context) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    self.exchange.sent += data.len() as u64;
                }
                self.waiting = None;
                Poll::Ready(Some(Ok(frame)))
            }
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
            failed @ Poll::Ready(Some(Err(_))) => failed,
        }
    }
}

impl Drop for UpstreamBody {
    fn drop(&mut self) {
        // Whoever knows the length stops reading with the last byte.
        if self.is_end() {
            self.end();
        }
    }
}

impl ProxyBody {
    /// The answer to `HEAD` has the length of a body and none of it. HTTP/1 sees to that by itself.
    pub(crate) fn for_head(mut response: Response<Self>) -> Response<Self> {
        if let Self::Full(text) = response.body() {
            let length = HeaderValue::from(text.len());
            response.headers_mut().insert(CONTENT_LENGTH, length);
            *response.body_mut() = Self::Empty;
        }
        response
    }

    /// What comes over a plain connection. What has come as a whole is accounted for at once.
    pub(crate) fn raw(mut body: RawBody, mut exchange: Exchange, patience: Duration) -> Self {
        if let Some(whole) = body.whole() {
            exchange.sent += whole.len() as u64;
            exchange.complete();
            return if whole.is_empty() { Self::Empty } else { Self::Full(whole) };
        }
        let body = UpstreamBody { source: Source::Raw(body), exchange, patience, waiting: None };
        Self::Upstream(Box::new(body))
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Self::Upstream(body) => body.poll(context),
        };
        NOTED.set(Some(if polled.is_ready() { Poll::Ready(()) } else { Poll::Pending }));
        polled
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Full(bytes) => bytes.is_empty(),
            Self::Upstream(body) => body.is_end(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Upstream(body) => match &body.source {
                Source::Hyper(incoming, _) => incoming.size_hint(),
                Source::Raw(raw) => raw.size_hint(),
            },
        }
    }
}
