//! Watches: changes as they happen, one JSON document for each.
//!
//! A watch follows the store and shows what the client's selectors let through: an object that
//! comes to match is added, one that ceases to match is deleted, whatever happened to it otherwise.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use limen_store::{Error as StoreError, Event, Revision, Watch, WatchFrom};
use serde_json::{Value, json};

use super::{Api, Scope};
use crate::answer::{Body, Form, Tables, Wanted};
use crate::error::{ApiError, ApiResult};
use crate::request::Options;
use crate::storage::{StoredObject, store_error};

/// How often a quiet watch says how far it has come, as in Kubernetes.
const BOOKMARK: Duration = Duration::from_secs(60);
/// How long a watch goes on when the client does not say.
const LIFETIME: std::ops::Range<u64> = 1800..3600;

impl Api {
    pub(crate) async fn watch(
        self: Arc<Self>,
        scope: Scope,
        options: Options,
        wanted: Wanted,
    ) -> ApiResult<Response<Body>> {
        scope.check_fields(&options.fields)?;
        let stream = Stream::open(self, scope, options, wanted).await?;
        let chunks = futures::stream::unfold(stream, |mut stream| async move {
            let chunk = stream.next().await?;
            Some((Ok(Frame::data(chunk)), stream))
        });
        let mut response = Response::new(StreamBody::new(chunks).boxed_unsync());
        *response.status_mut() = StatusCode::OK;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        Ok(response)
    }
}

/// One client's watch.
struct Stream {
    api: Arc<Api>,
    scope: Scope,
    options: Options,
    wanted: Wanted,
    /// What there is to say before the first change.
    initial: Vec<u8>,
    source: Source,
    /// Done when the watch is to end: after its time, or when the server stops.
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
    position: Revision,
    /// Only the first table of a watch has column definitions.
    header_sent: bool,
}

enum Source {
    Following(Watch),
    /// The client was told why, and the stream ends.
    Ended,
}

impl Stream {
    async fn open(
        api: Arc<Api>,
        scope: Scope,
        options: Options,
        wanted: Wanted,
    ) -> ApiResult<Self> {
        let lifetime = match options.timeout_seconds {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()),
            _ => Duration::from_secs(rand::random_range(LIFETIME)),
        };
        let stopping = api.stopping.clone();
        let end = Box::pin(async move {
            let _ = tokio::time::timeout(lifetime, stopping.cancelled()).await;
        });
        let mut stream = Self {
            api,
            scope,
            options,
            wanted,
            initial: Vec::new(),
            source: Source::Ended,
            end,
            position: Revision::default(),
            header_sent: false,
        };
        let from_now = stream.options.version.unwrap_or(0) == 0;
        let with_state = match stream.options.send_initial_events {
            Some(wanted) => wanted,
            None => from_now,
        };
        stream.position = if with_state {
            stream.api.check_not_too_new(stream.options.version).await?;
            stream.add_state().await?
        } else {
            let newest = stream.api.store.revision().await.map_err(|error| store_error(&error))?;
            match stream.options.version.map(Revision) {
                // The client knows a store that was replaced by an older one, and would wait for
                // changes that it takes for seen. Within the stream, clients understand that they
                // have to list anew; told at its start, they would just try again.
                Some(position) if position > newest => {
                    let message = format!("too new resource version: {position} ({newest})");
                    stream.end_with(&ApiError::expired(message));
                    return Ok(stream);
                }
                Some(position) if !from_now => position,
                _ => newest,
            }
        };
        stream.follow().await?;
        Ok(stream)
    }

    /// Shows what is there already, and says when that is done if the client asked for it.
    async fn add_state(&mut self) -> ApiResult<Revision> {
        let options = self.options.clone().of_now();
        let listing = self.api.select(&self.scope, &options).await?;
        let mut out = Vec::new();
        for stored in &listing.items {
            self.write(&mut out, "ADDED", stored);
        }
        if self.options.send_initial_events == Some(true) && self.options.bookmarks {
            self.write_bookmark(&mut out, listing.revision, true);
        }
        self.initial = out;
        Ok(listing.revision)
    }

    async fn follow(&mut self) -> ApiResult<()> {
        let from = WatchFrom {
            prefix: self.scope.place().prefix(),
            after: self.position,
            progress: self.options.bookmarks.then_some(BOOKMARK),
        };
        match self.api.store.watch(from).await {
            Ok(watch) => self.source = Source::Following(watch),
            Err(StoreError::Compacted { requested, oldest }) => {
                let message = format!("too old resource version: {requested} ({oldest})");
                self.end_with(&ApiError::expired(message));
            }
            Err(error) => return Err(store_error(&error)),
        }
        Ok(())
    }

    async fn next(&mut self) -> Option<Bytes> {
        if !self.initial.is_empty() {
            return Some(std::mem::take(&mut self.initial).into());
        }
        loop {
            let Source::Following(watch) = &mut self.source else { return None };
            let item = tokio::select! {
                item = watch.next() => item,
                () = &mut self.end => None,
            };
            let Some(item) = item else {
                self.source = Source::Ended;
                if !self.options.bookmarks {
                    return None;
                }
                let mut out = Vec::new();
                self.write_bookmark(&mut out, self.position, false);
                return Some(out.into());
            };
            let mut out = Vec::new();
            match item {
                Ok(batch) => {
                    self.position = batch.revision;
                    for event in &batch.events {
                        self.write_event(&mut out, event);
                    }
                    if batch.events.is_empty() {
                        self.write_bookmark(&mut out, batch.revision, false);
                    }
                }
                Err(StoreError::Compacted { requested, oldest }) => {
                    let message = format!("too old resource version: {requested} ({oldest})");
                    self.end_with(&ApiError::expired(message));
                    out = std::mem::take(&mut self.initial);
                }
                Err(error) => {
                    self.end_with(&store_error(&error));
                    out = std::mem::take(&mut self.initial);
                }
            }
            if !out.is_empty() {
                return Some(out.into());
            }
        }
    }

    fn end_with(&mut self, error: &ApiError) {
        self.source = Source::Ended;
        let event = json!({"type": "ERROR", "object": error.status()});
        self.initial = format!("{event}\n").into_bytes();
    }

    fn write_event(&mut self, out: &mut Vec<u8>, event: &Event) {
        let matching = |entry: &Option<limen_store::Entry>| {
            let stored = StoredObject::new(entry.clone()?);
            self.scope.selects(&event.key, &stored, &self.options).then_some(stored)
        };
        match (matching(&event.previous), matching(&event.current)) {
            (None, None) => {}
            (None, Some(stored)) => self.write(out, "ADDED", &stored),
            (Some(_), Some(stored)) => self.write(out, "MODIFIED", &stored),
            (Some(_), None) => {
                // What was, as of the moment at which it ceased to be (or to match).
                let last = event.current.clone().or_else(|| event.previous.clone());
                if let Some(entry) = last {
                    self.write(out, "DELETED", &StoredObject::at(entry, event.revision));
                }
            }
        }
    }

    fn write(&mut self, out: &mut Vec<u8>, kind: &str, stored: &StoredObject) {
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        if self.wanted.form == Form::Object && !self.scope.converts() {
            stored.write_json(out, Some((&self.scope.api_version(), &self.scope.kind.kind)));
        } else {
            let shown = self.shown(&self.scope.read(stored));
            out.extend_from_slice(shown.to_string().as_bytes());
        }
        out.extend_from_slice(b"}\n");
    }

    fn shown(&mut self, object: &Value) -> Value {
        match self.wanted.form {
            Form::Object => object.clone(),
            Form::Metadata | Form::MetadataList => self.wanted.metadata_only(object),
            Form::Table => {
                let include = self.options.include_object.as_deref();
                let now = self.api.now().as_second();
                let tables = Tables::new(&self.scope.kind, self.wanted, include, now);
                let metadata =
                    json!({"resourceVersion": object["metadata"]["resourceVersion"].clone()});
                let header = !std::mem::replace(&mut self.header_sent, true);
                tables.table(&metadata, std::slice::from_ref(object), header)
            }
        }
    }

    fn write_bookmark(&mut self, out: &mut Vec<u8>, revision: Revision, initial_end: bool) {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        // To those who want tables or metadata, a bookmark is an object like any other.
        let object = self.shown(&json!({
            "kind": self.scope.kind.kind,
            "apiVersion": self.scope.api_version(),
            "metadata": metadata,
        }));
        let event = json!({"type": "BOOKMARK", "object": object});
        out.extend_from_slice(format!("{event}\n").as_bytes());
    }
}
