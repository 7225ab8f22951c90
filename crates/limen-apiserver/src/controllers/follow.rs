//! Following a part of the store for ever.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use limen_store::{Entry, Error, Event, Range, Revision, Watch, WatchFrom};
use tokio::time::{Instant, sleep, sleep_until};

use crate::api::Api;

/// How long to wait before trying again when the store cannot be reached.
const PAUSE: Duration = Duration::from_millis(500);

/// What a follower sees.
pub(super) enum Seen {
    /// Everything under the prefix, at the start and whenever the thread was lost: whatever was
    /// remembered is to be forgotten.
    State(Vec<Entry>),
    /// Changes since then.
    Events(Vec<Arc<Event>>),
    /// It is time to try again what did not work.
    Tick,
}

/// The state under a prefix, and then every change.
pub(super) struct Follower {
    api: Arc<Api>,
    prefix: Bytes,
    tick: Duration,
    next_tick: Instant,
    watch: Option<Watch>,
}

impl Follower {
    /// Follows a prefix, with a tick now and then.
    pub(super) fn new(api: &Arc<Api>, prefix: String, tick: Duration) -> Self {
        let next_tick = Instant::now() + tick;
        Self { api: api.clone(), prefix: prefix.into(), tick, next_tick, watch: None }
    }

    /// What happens next; `None` when the API is stopping.
    pub(super) async fn next(&mut self) -> Option<Seen> {
        let stopping = self.api.stopping.clone();
        tokio::select! {
            () = stopping.cancelled() => None,
            seen = self.wait() => Some(seen),
        }
    }

    async fn wait(&mut self) -> Seen {
        loop {
            let Some(watch) = &mut self.watch else {
                match self.begin().await {
                    Ok(entries) => return Seen::State(entries),
                    Err(error) => {
                        tracing::debug!(%error, "the store cannot be followed");
                        sleep(PAUSE).await;
                        continue;
                    }
                }
            };
            tokio::select! {
                item = watch.next() => match item {
                    Some(Ok(batch)) => return Seen::Events(batch.events),
                    // Compacted or cut off: start anew.
                    _ => self.watch = None,
                },
                () = sleep_until(self.next_tick) => {
                    self.next_tick = Instant::now() + self.tick;
                    return Seen::Tick;
                }
            }
        }
    }

    async fn begin(&mut self) -> Result<Vec<Entry>, Error> {
        let (entries, after) = state(&self.api, &self.prefix).await?;
        let from = WatchFrom { prefix: self.prefix.clone(), after, progress: None };
        self.watch = Some(self.api.store.watch(from).await?);
        Ok(entries)
    }
}

/// Everything under a prefix, and the revision that it is of.
pub(super) async fn state(api: &Api, prefix: &Bytes) -> Result<(Vec<Entry>, Revision), Error> {
    let mut range = Range { limit: Some(1000), ..Range::prefix(prefix.clone()) };
    let mut entries = Vec::new();
    loop {
        let page = api.store.range(range.clone()).await?;
        range.at = Some(page.revision);
        range.after = page.entries.last().map(|entry| entry.key.clone());
        entries.extend(page.entries);
        if !page.more {
            return Ok((entries, page.revision));
        }
    }
}
