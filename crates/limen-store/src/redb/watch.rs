//! Following changes: from the window while the watch keeps up, from the log when it does not.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::Shared;
use super::window::Slice;
use crate::{Error, Result, Revision, Watch, WatchBatch, WatchFrom};

/// About how many events a batch has at most.
const BATCH: usize = 500;

/// How many moments there are for a progress mark in the time between two of the same watch.
const MOMENTS: u32 = 12;

pub(super) struct Follower {
    shared: Arc<Shared>,
    newest: watch::Receiver<Revision>,
    from: WatchFrom,
    /// Everything up to here was delivered.
    position: Revision,
    last_sent: Instant,
}

impl Follower {
    pub(super) fn new(shared: Arc<Shared>, from: WatchFrom) -> Self {
        let newest = shared.newest.subscribe();
        let position = from.after;
        Self { shared, newest, from, position, last_sent: Instant::now() }
    }

    pub(super) fn into_watch(self) -> Watch {
        // The state is gone after an error, which ends the stream.
        stream::unfold(Some(self), |state| async {
            let mut follower = state?;
            match follower.next().await {
                Ok(batch) => Some((Ok(batch), Some(follower))),
                Err(error) => Some((Err(error), None)),
            }
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<WatchBatch> {
        loop {
            let newest = *self.newest.borrow_and_update();
            while self.position < newest {
                let slice = self.slice().await?;
                self.position = slice.upto;
                if !slice.events.is_empty() {
                    return Ok(self.batch(slice));
                }
            }
            let mark = self.from.progress.map(|every| self.next_mark(every));
            tokio::select! {
                changed = self.newest.changed() => {
                    changed.map_err(|_| Error::Unavailable("the store was closed".to_owned()))?;
                }
                () = sleep_until(mark.unwrap_or_else(Instant::now)), if mark.is_some() => {
                    return Ok(self.batch(Slice { events: Vec::new(), upto: self.position }));
                }
            }
        }
    }

    /// When a quiet watch says how far it has come: a little before its time, together with others.
    /// Whoever has many watches over one connection is woken once for all of them.
    fn next_mark(&self, every: Duration) -> Instant {
        let (due, moment) = (self.last_sent + every, (every / MOMENTS).as_nanos());
        let late = due.saturating_duration_since(self.shared.opened).as_nanos();
        let late = late.checked_rem(moment).and_then(|late| u64::try_from(late).ok());
        due - Duration::from_nanos(late.unwrap_or_default())
    }

    async fn slice(&self) -> Result<Slice> {
        if let Some(slice) = self.shared.window.slice(&self.from.prefix, self.position, BATCH) {
            return Ok(slice);
        }
        let (shared, prefix, after) =
            (self.shared.clone(), self.from.prefix.clone(), self.position);
        super::off_thread(move || {
            shared.read(|view| {
                view.check_kept(after)?;
                Ok(view.events(&prefix, after, BATCH))
            })
        })
        .await
    }

    fn batch(&mut self, slice: Slice) -> WatchBatch {
        self.last_sent = Instant::now();
        WatchBatch { events: slice.events, revision: slice.upto }
    }
}
