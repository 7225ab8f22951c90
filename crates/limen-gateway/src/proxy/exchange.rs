//! The account of one exchange: who asked what, who answered, how long it took.

use std::sync::Arc;
use std::time::Instant;

use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};

use super::body::ProxyBody;
use super::choose::Chosen;
use super::client::Client;
use super::refusal::Refusal;
use crate::access_log::Entry;
use crate::metrics::TargetMetrics;
use crate::snapshot::{Backend, Route};
use crate::upstream::{BodyProgress, Failure, Outstanding};
use crate::worker::Shared;

/// What has happened so far. It is written down when this is dropped.
pub(crate) struct Exchange {
    shared: Arc<Shared>,
    started: Instant,
    status: u16,
    attempts: u32,
    outstanding: Option<Outstanding>,
    target: Option<(Arc<Backend>, usize)>,
    received: Option<Arc<BodyProgress>>,
    /// Bytes of a request's body that came with its head.
    pub(crate) came_along: u64,
    pub(crate) sent: u64,
    /// Whether the answer reached its end.
    complete: bool,
    entry: Option<Box<Entry>>,
}

impl Exchange {
    /// `entry` is asked for only if this request is logged.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        started: Instant,
        entry: impl FnOnce() -> Entry,
    ) -> Self {
        let entry = shared.log.picks().then(|| Box::new(entry()));
        Self {
            shared: shared.clone(),
            started,
            status: 0,
            attempts: 0,
            outstanding: None,
            target: None,
            received: None,
            came_along: 0,
            sent: 0,
            complete: false,
            entry,
        }
    }

    pub(crate) fn matched(&mut self, route: &Route) {
        if let Some(entry) = &mut self.entry {
            entry.ingress = Some(route.ingress.label.clone());
            entry.rule = Some(format!("{}{}", route.host, route.path));
        }
    }

    pub(crate) fn identified(&mut self, id: HeaderValue) {
        if let Some(entry) = &mut self.entry {
            entry.id = Some(id);
        }
    }

    pub(crate) fn receives(&mut self, progress: Option<Arc<BodyProgress>>) {
        self.received = progress;
    }

    pub(crate) fn attempts(
        &mut self,
        backend: &Arc<Backend>,
        chosen: &Chosen,
        outstanding: Outstanding,
    ) {
        self.attempts += 1;
        self.outstanding = Some(outstanding);
        self.target = Some((backend.clone(), chosen.target));
    }

    /// Which target it went to last.
    pub(crate) fn target(&self) -> Option<usize> {
        self.target.as_ref().map(|(_, target)| *target)
    }

    pub(crate) fn failed(&mut self, failure: &Failure) {
        tracing::debug!(kind = failure.kind.name(), detail = failure.detail, "attempt failed");
        if let Some(entry) = &mut self.entry {
            entry.failure = Some(format!("{}: {}", failure.kind.name(), failure.detail));
        }
    }

    /// A target has answered with this status.
    pub(crate) fn status(&mut self, status: u16) {
        self.status = status;
    }

    /// The answer has reached its end.
    pub(crate) fn complete(&mut self) {
        self.complete = true;
    }

    /// The gateway answers by itself.
    pub(crate) fn answered(mut self, response: Response<ProxyBody>) -> Response<ProxyBody> {
        self.status = response.status().as_u16();
        self.complete = true;
        response
    }

    /// The gateway refuses.
    pub(crate) fn refused(mut self, refusal: &Refusal) -> Response<ProxyBody> {
        if let Some(entry) = &mut self.entry {
            entry.refusal = Some(refusal.reason);
        }
        self.answered(refusal.response())
    }

    fn metrics(&self) -> Option<&TargetMetrics> {
        let (backend, target) = self.target.as_ref()?;
        Some(&backend.targets[*target].metrics)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let took = self.started.elapsed();
        let streamed = self.received.as_ref().map_or(0, |progress| progress.bytes());
        let received = streamed + self.came_along;
        if let Some(metrics) = self.metrics() {
            metrics.finished(self.status, took);
            if self.sent > 0 {
                metrics.bytes_sent.add(self.sent);
            }
            if received > 0 {
                metrics.bytes_received.add(received);
            }
        }
        let Some(mut entry) = self.entry.take() else { return };
        entry.status = self.status;
        entry.took = took;
        entry.attempts = self.attempts;
        entry.complete = self.complete;
        (entry.sent, entry.received) = (self.sent, received);
        if let Some((backend, target)) = &self.target {
            entry.backend = Some(backend.name.clone());
            entry.cluster = Some(backend.targets[*target].target.cluster.clone());
        }
        let address = self.outstanding.as_ref().map(Outstanding::address);
        entry.address = address.map(|address| address.endpoint.destination.to_string());
        if !self.shared.log.write(entry) {
            self.shared.metrics.log_dropped.add(1);
        }
    }
}

/// What is logged of a request before anything has happened to it.
pub(crate) fn entry_of<B>(request: &Request<B>, client: &Client) -> Entry {
    Entry {
        client: client.address.ip(),
        method: request.method().clone(),
        host: text(request.headers().get(http::header::HOST))
            .or_else(|| Some(request.uri().authority()?.to_string())),
        path: request.uri().path().to_owned(),
        version: request.version(),
        agent: text(request.headers().get(USER_AGENT)),
        tls: client.tls,
        ..Entry::default()
    }
}

fn text(value: Option<&HeaderValue>) -> Option<String> {
    Some(String::from_utf8_lossy(value?.as_bytes()).into_owned())
}
