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
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// What is remembered of a body once it has been given away.
#[derive(Debug, Default)]
pub(crate) struct BodyProgress {
    started: AtomicBool,
    /// The client broke off or sent something that is no body.
    broken: AtomicBool,
    /// The target would take more, and the client has not sent it.
    waiting: AtomicBool,
    /// Nobody will ask for more of it: all has been passed on, or it was given up.
    gone: AtomicBool,
    /// Whoever waits for that.
    leaves: Notify,
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

impl Drop for ClientBody {
    fn drop(&mut self) {
        self.progress.gone.store(true, Ordering::Relaxed);
        self.progress.leaves.notify_one();
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

    /// Whether it is no longer being sent. Who knows the length stops asking with the last byte, so
    /// that this, and not the end of the stream, is what tells.
    pub(super) fn gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The answer is there. What is left of the body is passed on for as long as it moves. If it
    /// does not, whoever is at fault, its `connection` ends, where there is one for it alone.
    pub(super) fn abandon_when_it_stalls(
        self: Arc<Self>,
        patience: Duration,
        connection: Option<AbortHandle>,
    ) {
        // There is none when a worker ends, with all that it has.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            loop {
                let before = self.bytes();
                if tokio::time::timeout(patience, self.leaves.notified()).await.is_ok() {
                    return;
                }
                if before == self.bytes() {
                    break;
                }
            }
            match connection {
                // A target that does not read holds up its connection, which then asks for nothing.
                Some(connection) => connection.abort(),
                None => {
                    self.abandoned.store(true, Ordering::Release);
                    self.waker.wake();
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
            }
            Poll::Ready(Some(Err(_))) => body.progress.broken.store(true, Ordering::Relaxed),
            Poll::Pending if body.progress.is_abandoned(context) => {
                return Poll::Ready(Some(Err(Interrupted::Abandoned)));
            }
            Poll::Ready(None) | Poll::Pending => {}
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
