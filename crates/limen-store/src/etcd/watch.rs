//! Following changes: one gRPC stream per watch, opened anew wherever it breaks.
//!
//! ```text
//!   etcd ─► answers ─► Batches ─► WatchBatch, up to the position
//!             │ broken                              │
//!             └──── opened anew after the position ◄┘
//! ```
//!
//! The position is the last event that was delivered, or where etcd said in answer to a progress
//! request that there is nothing more to tell. The revision in the header of an answer with events
//! is no position: while a watch catches up it runs ahead of the events.
//!
//! Nothing is read before the consumer asks for it, so HTTP/2 makes etcd wait for a slow one.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use tokio::time::{Instant, sleep, sleep_until};
use tonic::Status;

use super::Etcd;
use super::batches::Batches;
use super::endpoints::Stream;
use super::failure::{outcome, words};
use super::keyspace::{number, revision};
use super::wire::{
    self, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse, WatchUnion,
};
use crate::{Error, Event, Result, Revision, Watch, WatchBatch, WatchFrom};

pub(super) struct Follower {
    etcd: Arc<Etcd>,
    from: WatchFrom,
    /// Everything up to here was delivered.
    position: Revision,
    /// `None` while there is no connection.
    stream: Option<Stream<WatchRequest>>,
    batches: Batches,
    /// When to ask etcd how far the watch has come, or to stop waiting for its answer.
    due: Instant,
    asked: bool,
    /// How long to wait before the stream is opened anew.
    backoff: Duration,
}

/// Even if the caller does not want to know: a position that stays behind gets compacted, and then
/// the watch could not go on after a broken connection.
const ASK_INTERVAL: Duration = Duration::from_secs(60);
/// etcd does not answer while the watch catches up, nor before anything has happened since it was
/// opened; then the position is as good an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(250);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LAST_BACKOFF: Duration = Duration::from_secs(5);

impl Follower {
    pub(super) async fn start(etcd: Arc<Etcd>, from: WatchFrom) -> Result<Self> {
        let mut follower = Self {
            etcd,
            position: from.after,
            stream: None,
            batches: Batches::default(),
            due: Instant::now(),
            asked: false,
            backoff: Duration::ZERO,
            from,
        };
        follower.ask_later();
        follower.open().await.map_err(|trouble| trouble.error)?;
        Ok(follower)
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
            let Some(stream) = &mut self.stream else {
                self.open_anew().await?;
                continue;
            };
            tokio::select! {
                answer = stream.answers.message() => {
                    let batch = match answer {
                        Ok(Some(answer)) => self.receive(answer).await?,
                        Ok(None) => self.lose(&Status::unavailable("the stream was closed"))?,
                        Err(status) => self.lose(&status)?,
                    };
                    if let Some(batch) = batch {
                        return Ok(batch);
                    }
                }
                () = sleep_until(self.due), if self.asked => {
                    self.ask_later();
                    if self.from.progress.is_some() {
                        return Ok(self.mark());
                    }
                }
                () = sleep_until(self.due), if !self.asked => {
                    let ask = WatchUnion::Progress(WatchProgressRequest {});
                    // If it is full, etcd has not taken the last one yet.
                    let _ = stream.requests.try_send(WatchRequest { request_union: Some(ask) });
                    self.asked = true;
                    self.due = Instant::now() + ANSWER_TIMEOUT;
                }
            }
        }
    }

    async fn receive(&mut self, answer: WatchResponse) -> Result<Option<WatchBatch>> {
        self.backoff = Duration::ZERO;
        if answer.canceled {
            return Err(self.canceled(&answer));
        }
        if answer.events.is_empty() {
            return Ok(self.progressed(&answer));
        }
        let mut events = Vec::with_capacity(answer.events.len());
        for event in answer.events {
            match self.event(event) {
                Some(event) => events.push(Arc::new(event)),
                // What the key was before has been compacted, so the position has been, too.
                None => return Err(self.etcd.compacted(self.position).await),
            }
        }
        let batch = self.batches.add(events, answer.fragment);
        if let Some(batch) = &batch {
            self.position = batch.revision;
            self.ask_later();
        }
        Ok(batch)
    }

    fn progressed(&mut self, answer: &WatchResponse) -> Option<WatchBatch> {
        if answer.watch_id != WatchResponse::ALL_WATCHES {
            return None;
        }
        let upto = revision(answer.header.as_ref()?.revision);
        // An endpoint that lags behind knows less than was delivered already.
        self.position = self.position.max(upto);
        self.ask_later();
        self.from.progress.map(|_| self.mark())
    }

    fn mark(&self) -> WatchBatch {
        WatchBatch { events: Vec::new(), revision: self.position }
    }

    /// `None` if the previous entry is missing although there was one.
    fn event(&self, event: wire::Event) -> Option<Event> {
        let previous = event.prev_kv.map(|kv| self.etcd.keys.entry(kv));
        let kv = event.kv.unwrap_or_default();
        let deleted = event.kind == wire::Event::DELETE;
        let created = !deleted && kv.create_revision == kv.mod_revision;
        if !created && previous.is_none() {
            return None;
        }
        let current = self.etcd.keys.entry(kv);
        Some(Event {
            key: current.key.clone(),
            revision: current.modified,
            current: (!deleted).then_some(current),
            previous,
        })
    }

    fn canceled(&self, answer: &WatchResponse) -> Error {
        if answer.compact_revision > 0 {
            let oldest = revision(answer.compact_revision);
            return Error::Compacted { requested: self.position, oldest };
        }
        Error::Unavailable(format!("etcd ended the watch: {}", answer.cancel_reason))
    }

    /// Forgets a stream that broke, unless opening it anew would be in vain.
    fn lose(&mut self, status: &Status) -> Result<Option<WatchBatch>> {
        if !outcome(status).may_pass() {
            return Err(Error::Unavailable(format!("etcd ended the watch: {}", words(status))));
        }
        tracing::debug!(reason = words(status), position = %self.position, "a watch broke off");
        self.stream = None;
        self.batches = Batches::default();
        self.ask_later();
        Ok(None)
    }

    async fn open_anew(&mut self) -> Result<()> {
        sleep(self.backoff).await;
        // Until something is received, as etcd may take the stream and break it off at once.
        self.backoff = (self.backoff * 2).clamp(FIRST_BACKOFF, LAST_BACKOFF);
        match self.open().await {
            Err(Trouble { error, may_pass: true }) => {
                tracing::debug!(%error, position = %self.position, "a watch waits for etcd");
                Ok(())
            }
            result => result.map_err(|trouble| trouble.error),
        }
    }

    /// Opens the stream after the position, which must not have been compacted.
    async fn open(&mut self) -> Result<(), Trouble> {
        let span = self.etcd.keys.span(&self.from.prefix);
        let create = WatchCreateRequest {
            key: span.start,
            range_end: span.end,
            start_revision: number(self.position).saturating_add(1),
            prev_kv: true,
            fragment: true,
        };
        let create = WatchRequest { request_union: Some(WatchUnion::Create(create)) };
        let stream = self.etcd.endpoints.open(create).await.map_err(|failure| Trouble {
            may_pass: failure.outcome().may_pass(),
            error: failure.into(),
        })?;
        if stream.first.canceled {
            return Err(Trouble { error: self.canceled(&stream.first), may_pass: false });
        }
        // etcd looks for compacted revisions later, and lets one of them pass that the store does
        // not. What is compacted after this the watch is told of.
        self.etcd
            .check_kept(self.position)
            .await
            .map_err(|error| Trouble { may_pass: matches!(error, Error::Unavailable(_)), error })?;
        self.stream = Some(stream);
        Ok(())
    }

    fn ask_later(&mut self) {
        self.asked = false;
        self.due = Instant::now() + self.from.progress.unwrap_or(ASK_INTERVAL);
    }
}

/// Why a stream could not be opened, and whether it is worth trying again.
struct Trouble {
    error: Error,
    may_pass: bool,
}
