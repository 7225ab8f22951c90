//! The streams of one HTTP/2 connection: how long the connection may be without any, and how long
//! one of them may be without a client that takes what it is sent.
//!
//! A stream ends for us when its last piece is with hyper. The client may take a while longer, so
//! a connection that still sends is not without streams.
//!
//! hyper has no such times. A connection on which nothing is asked would stay for ever, and so
//! would a stream that its client gives no room, with the connection to its target.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::{Instant, Sleep};

use crate::proxy::noting_body;
use crate::upstream::raw::Watchdog;

/// A connection is idle when nothing was seen so often in a row, over as long as it may be idle.
const LOOKS: u8 = 4;

/// Frames that are about the connection itself are fewer bytes than this between two looks.
const CHATTER: u64 = 512;

/// What there has been on one connection.
#[derive(Default)]
struct Counts {
    /// How many streams.
    asked: AtomicUsize,
    /// How many bytes for the client.
    written: AtomicU64,
}

/// Runs the streams of one connection. Each of them has a copy of this for as long as it lives.
#[derive(Clone)]
pub(super) struct Streams {
    counts: Arc<Counts>,
    patience: Duration,
}

impl Streams {
    /// `patience` is for clients that ask nothing, and for those that take nothing.
    pub(super) fn new(patience: Duration) -> Self {
        Self { counts: Arc::default(), patience }
    }

    /// So many bytes have been sent to the client.
    pub(super) fn wrote(&self, bytes: usize) {
        self.counts.written.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        self.counts.asked.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(while_taken(stream, self.clone()));
    }
}

/// Runs a stream to its end, or until its client has taken nothing of it for too long.
async fn while_taken(stream: impl Future<Output = ()>, streams: Streams) {
    let mut stream = pin!(stream);
    // Made when the client first keeps us waiting.
    let mut watchdog = None;
    let mut stuck = false;
    poll_fn(|context| {
        let (polled, body) = noting_body(|| stream.as_mut().poll(context));
        if polled.is_ready() {
            return Poll::Ready(());
        }
        match body {
            // There is something to send, and it is not sent.
            Some(Poll::Ready(())) => {
                let due = Instant::now() + streams.patience;
                watchdog.get_or_insert_with(|| Watchdog::new(due)).until(due);
                stuck = true;
            }
            Some(Poll::Pending) => stuck = false,
            None => {}
        }
        // To drop a stream is to reset it.
        let up = stuck && watchdog.as_mut().is_some_and(|watchdog| watchdog.is_up(context));
        if up { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Finds out that a connection has been without a stream for too long.
pub(super) struct Idle {
    streams: Streams,
    /// The copies of `streams` that belong to no stream.
    others: usize,
    /// How many streams there had been when it was last looked at.
    seen: usize,
    /// How many bytes there had been then.
    written: u64,
    /// How often in a row nothing was seen.
    quiet: u8,
    /// Whether the client knows that it is to leave.
    told: bool,
    sleep: Pin<Box<Sleep>>,
    registered: bool,
}

/// What is to be done about a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// The client is told to leave, and may finish what it has begun.
    Tell,
    End,
}

impl Idle {
    /// For a connection that has its copies of `streams` and no stream yet.
    pub(super) fn new(streams: Streams) -> Self {
        let sleep = Box::pin(tokio::time::sleep(pause(&streams)));
        let others = Arc::strong_count(&streams.counts);
        Self {
            streams,
            others,
            seen: 0,
            written: 0,
            quiet: 0,
            told: false,
            sleep,
            registered: false,
        }
    }

    /// What is to be done now. The task is woken when that changes.
    pub(super) fn look(&mut self, context: &mut Context<'_>) -> Due {
        // Asking once is enough to be woken, and cheaper than asking on every wake.
        if self.registered && !self.sleep.is_elapsed() {
            return Due::Nothing;
        }
        let mut due = Due::Nothing;
        while self.sleep.as_mut().poll(context).is_ready() {
            self.sleep.as_mut().reset(Instant::now() + pause(&self.streams));
            due = self.count();
        }
        self.registered = true;
        due
    }

    fn count(&mut self) -> Due {
        let counts = &self.streams.counts;
        let asked = counts.asked.load(Ordering::Relaxed);
        let written = counts.written.load(Ordering::Relaxed);
        let open = Arc::strong_count(counts) > self.others;
        let busy = open || asked != self.seen || written - self.written > CHATTER;
        (self.seen, self.written) = (asked, written);
        self.quiet = if busy { 0 } else { self.quiet + 1 };
        if self.quiet < LOOKS {
            return Due::Nothing;
        }
        self.quiet = 0;
        // Who has asked for nothing is not owed a word.
        if std::mem::replace(&mut self.told, true) || asked == 0 { Due::End } else { Due::Tell }
    }
}

fn pause(streams: &Streams) -> Duration {
    (streams.patience / u32::from(LOOKS)).max(Duration::from_millis(1))
}
