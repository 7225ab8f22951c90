//! Reading, at the newest revision or at an older one.

use tokio::time::timeout;

use super::Etcd;
use super::endpoints::Repeat;
use super::failure::Outcome;
use super::keyspace::{number, revision};
use super::wire::{RangeRequest, RangeResponse, WatchCreateRequest, WatchRequest, WatchUnion};
use crate::{Entry, Error, Page, Range, Result, Revision};

/// How many entries are read in one call. With the largest values that etcd takes, twice as many
/// would not fit into one message.
const PAGE: usize = 1000;

impl Etcd {
    pub(super) async fn revision(&self) -> Result<Revision> {
        let request = RangeRequest { key: self.keys.place(b""), ..RangeRequest::default() };
        let answer = self.endpoints.call(request, Repeat::Freely).await?;
        Ok(read_at(&answer))
    }

    pub(super) async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Option<Entry>> {
        let request = RangeRequest { key: self.keys.place(key), ..RangeRequest::default() };
        let found = self.read(request, at).await?.kvs.into_iter().next();
        // The empty key has another one's place.
        Ok(found.map(|kv| self.keys.entry(kv)).filter(|entry| entry.key == key))
    }

    pub(super) async fn range(&self, range: &Range) -> Result<Page> {
        let span = self.keys.span(&range.prefix);
        let mut start = match &range.after {
            Some(key) if *key >= range.prefix => self.keys.after(key),
            _ => span.start,
        };
        let mut at = range.at;
        let mut wanted = range.limit.unwrap_or(usize::MAX);
        let mut entries = Vec::new();
        loop {
            // etcd takes 0 for "no limit", so that one entry is read even if none is wanted.
            let limit = wanted.clamp(1, PAGE) as i64;
            let request =
                RangeRequest { key: start, range_end: span.end.clone(), limit, revision: 0 };
            let answer = self.read(request, at).await?;
            let revision = at.unwrap_or_else(|| read_at(&answer));
            at = Some(revision);
            if wanted == 0 {
                return Ok(Page { revision, entries, more: !answer.kvs.is_empty() });
            }

            wanted -= answer.kvs.len();
            entries.extend(answer.kvs.into_iter().map(|kv| self.keys.entry(kv)));
            match entries.last() {
                Some(last) if answer.more && wanted > 0 => start = self.keys.after(&last.key),
                _ => return Ok(Page { revision, entries, more: answer.more }),
            }
        }
    }

    /// Whether a watch after `revision` misses nothing.
    pub(super) async fn check_kept(&self, revision: Revision) -> Result<()> {
        let request = RangeRequest { key: self.keys.place(b""), ..RangeRequest::default() };
        match self.read(request, Some(revision)).await {
            Ok(_) | Err(Error::FutureRevision { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn read(&self, mut request: RangeRequest, at: Option<Revision>) -> Result<RangeResponse> {
        // Nothing happened between 0, which etcd takes for "the newest", and 1.
        request.revision = at.map_or(0, |at| number(at).max(1));
        let failure = match self.endpoints.call(request, Repeat::Freely).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        Err(match (failure.outcome(), at) {
            (Outcome::Compacted, Some(requested)) => self.compacted(requested).await,
            (Outcome::FutureRevision, Some(requested)) => {
                Error::FutureRevision { requested, newest: self.revision().await? }
            }
            _ => failure.into(),
        })
    }

    /// The error for a revision that was compacted.
    ///
    /// etcd tells how far it was compacted only to a watch that starts before that. If it does
    /// not, the newest revision can be read as well.
    pub(super) async fn compacted(&self, requested: Revision) -> Error {
        let told = timeout(self.endpoints.call_timeout(), self.told_to_a_watch(requested)).await;
        match told {
            Ok(Some(oldest)) => Error::Compacted { requested, oldest },
            _ => match self.revision().await {
                Ok(oldest) => Error::Compacted { requested, oldest },
                Err(error) => error,
            },
        }
    }

    async fn told_to_a_watch(&self, requested: Revision) -> Option<Revision> {
        let create = WatchCreateRequest {
            key: self.keys.place(b""),
            start_revision: 1,
            ..WatchCreateRequest::default()
        };
        let create = WatchRequest { request_union: Some(WatchUnion::Create(create)) };
        let mut stream = self.endpoints.open(create).await.ok()?;
        loop {
            let answer = stream.answers.message().await.ok()??;
            if answer.canceled {
                // An endpoint that lags behind may not have compacted that far yet.
                return Some(revision(answer.compact_revision))
                    .filter(|&oldest| oldest > requested);
            }
        }
    }
}

fn read_at(answer: &RangeResponse) -> Revision {
    revision(answer.header.as_ref().map_or(0, |header| header.revision))
}
