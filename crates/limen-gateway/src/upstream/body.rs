//! The body of a request on its way to a target.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::task::AtomicWaker;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

/// What is remembered of a body once it has been given away.
#[derive(Debug, Default)]
pub(crate) struct BodyProgress {
    started: AtomicBool,
    /// The client broke off or sent something that is no body.
    broken: AtomicBool,
    /// The target would take more, and the client has not sent it.
    waiting: AtomicBool,
    /// All of it has been passed on.
    ended: AtomicBool,
    /// Nobody waits for the rest.
    abandoned: AtomicBool,
    /// Whoever waits for more of it.
    waker: AtomicWaker,
    bytes: AtomicU64,
}

/// Why a body is not passed on to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Interrupted {
    #[error("the client broke off: {0}")]
    Broken(#[from] hyper::Error),
    #[error("the client stopped sending a body that has its answer already")]
    Abandoned,
}

/// The body that a client sends.
pub(crate) struct ClientBody {
    incoming: Incoming,
    progress: Arc<BodyProgress>,
}

/// The body of a request on its way to a target.
pub(crate) enum OutBody {
    /// Nothing: such a request can be made again.
    Empty,
    /// What the client sends, as it sends it.
    Client(ClientBody),
}

impl ClientBody {
    pub(crate) fn new(incoming: Incoming) -> (Self, Arc<BodyProgress>) {
        let progress = Arc::new(BodyProgress::default());
        (Self { incoming, progress: progress.clone() }, progress)
    }
}

impl BodyProgress {
    pub(crate) fn started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    pub(crate) fn broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    pub(crate) fn waits_for_client(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    pub(crate) fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The answer is there. What is left of the body is passed on for as long as it comes.
    pub(super) fn abandon_when_it_stalls(self: Arc<Self>, patience: Duration) {
        // There is none when a worker ends, with all that it has.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            while !self.ended() && !self.broken() {
                let before = self.bytes();
                tokio::time::sleep(patience).await;
                if before == self.bytes() {
                    self.abandoned.store(true, Ordering::Release);
                    self.waker.wake();
                    return;
                }
            }
        });
    }

    /// Whether the body is abandoned. If not, the task is woken when it is.
    fn is_abandoned(&self, context: &Context<'_>) -> bool {
        self.waker.register(context.waker());
        self.abandoned.load(Ordering::Acquire)
    }
}

impl Body for OutBody {
    type Data = Bytes;
    type Error = Interrupted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Interrupted>>> {
        let Self::Client(body) = &mut *self else { return Poll::Ready(None) };
        body.progress.started.store(true, Ordering::Relaxed);
        let polled = Pin::new(&mut body.incoming).poll_frame(context);
        body.progress.waiting.store(polled.is_pending(), Ordering::Relaxed);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    body.progress.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                }
                // Whoever knows the length stops asking with the last byte, and trailers are last.
                if frame.is_trailers() || body.incoming.is_end_stream() {
                    body.progress.ended.store(true, Ordering::Relaxed);
                }
            }
            Poll::Ready(Some(Err(_))) => body.progress.broken.store(true, Ordering::Relaxed),
            Poll::Ready(None) => body.progress.ended.store(true, Ordering::Relaxed),
            Poll::Pending if body.progress.is_abandoned(context) => {
                return Poll::Ready(Some(Err(Interrupted::Abandoned)));
            }
            Poll::Pending => {}
        }
        polled.map(|frame| frame.map(|frame| frame.map_err(Interrupted::from)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Client(body) => body.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Client(body) => body.incoming.size_hint(),
        }
    }
}
