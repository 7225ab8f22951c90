//! Sending a request to one target after the other until one answers.
//!
//! A request is tried again when the target cannot have acted on it (no connection, or nothing was
//! sent), or when acting twice does no harm (idempotent, without a body) and the connection broke
//! or the answer says to come back. Never otherwise: a request reaches two targets only if it may.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use limen_core::decide::{Ask, LOAD_HEADER, may_eject, utilisation};
use limen_core::global::Protocol;

use super::choose::{Chosen, choose, count, may_retry, pay_in};
use super::exchange::Exchange;
use super::forward::for_http2;
use super::mirror::mirror;
use super::refusal::{self, Refusal};
use crate::health::look_after;
use crate::snapshot::Backend;
use crate::upstream::{
    Address, BodyProgress, Endpoint, Failure, FailureKind, Lease, OutBody, Outstanding, lease,
    milliseconds,
};

/// The attempts of one request.
pub(super) struct Attempts<'a> {
    pub(super) backend: &'a Arc<Backend>,
    pub(super) host: &'a str,
    pub(super) progress: Option<&'a Arc<BodyProgress>>,
    pub(super) ask: Ask,
}

impl Attempts<'_> {
    /// The first answer, with the connection that it comes over.
    pub(super) async fn run(
        &self,
        request: Request<OutBody>,
        exchange: &mut Exchange,
    ) -> Result<(Response<Incoming>, Lease), Refusal> {
        let backend = self.backend;
        let upgrade = request.headers().contains_key(http::header::UPGRADE);
        let repeatable = is_repeatable(request.method()) && self.progress.is_none() && !upgrade;
        let mut left = backend.rules.attempts;
        let mut tried: Vec<Arc<Address>> = Vec::new();
        let mut next = request;
        pay_in(backend);
        if self.progress.is_none() && !upgrade {
            mirror(backend, self.host, || copy(&next));
        }
        loop {
            let now = milliseconds(Instant::now());
            let chosen = choose(backend, self.ask, &tried, now).ok_or(refusal::NO_TARGET)?;
            let again = repeatable.then(|| copy(&next));
            exchange.attempts(backend, &chosen, Outstanding::new(chosen.address.clone()));
            let metrics = &backend.targets[chosen.target].metrics;
            count(backend, &chosen);
            let (failure, unsent) = match self.once(&chosen, next, upgrade).await {
                Ok((response, lease)) => {
                    let status = response.status().as_u16();
                    let load = response.headers().get(LOAD_HEADER);
                    if let Some(load) = load.and_then(|load| utilisation(load.to_str().ok()?)) {
                        backend.targets[chosen.target].flow.reported(load);
                    }
                    if !matches!(status, 502..=504) {
                        chosen.address.succeeded();
                        return Ok((response, lease));
                    }
                    blame(backend, &chosen.address, None);
                    let retry = left > 0 && backend.rules.statuses.contains(&status);
                    match again.filter(|_| retry && may_retry(backend)) {
                        Some(again) => next = again,
                        None => return Ok((response, lease)),
                    }
                    left -= 1;
                    metrics.retries.add(1);
                    tried.push(chosen.address);
                    continue;
                }
                Err(Lost::Refused(refusal)) => return Err(refusal),
                Err(Lost::Failed(failure, unsent)) => (failure, unsent),
            };
            metrics.failures.add(1);
            exchange.failed(&failure);
            if failure.kind.blames_address() {
                blame(backend, &chosen.address, Some(failure.kind));
            }
            let started = self.progress.is_some_and(|body| body.started());
            let another = match (unsent, again) {
                (Some(unsent), _) if failure.kind.unseen() && !started => Some(*unsent),
                (_, again) => again,
            };
            match another.filter(|_| left > 0 && may_retry(backend)) {
                Some(another) => next = another,
                None => return Err(Refusal::upstream(failure.kind.status())),
            }
            left -= 1;
            metrics.retries.add(1);
            tried.push(chosen.address);
        }
    }

    async fn once(
        &self,
        chosen: &Chosen,
        request: Request<OutBody>,
        upgrade: bool,
    ) -> Result<(Response<Incoming>, Lease), Lost> {
        let rules = &self.backend.rules;
        let endpoint = &chosen.address.endpoint;
        let leased = lease(endpoint, self.host, rules.connect, rules.max_connections).await;
        let mut lease = match leased {
            Ok(lease) => lease,
            Err(failure) => return Err(Lost::Failed(failure, Some(Box::new(request)))),
        };
        let (mut head, body) = request.into_parts();
        if lease.sender().is_http2() {
            if upgrade {
                return Err(Lost::Refused(refusal::NO_TUNNEL));
            }
            for_http2(&mut head, endpoint.protocol == Protocol::Https);
        }
        lease.carries(self.progress);
        if upgrade {
            lease.is_last();
        }
        let request = Request::from_parts(head, body);
        match self.send(&mut lease, request, endpoint).await? {
            Ok(response) => Ok((response, lease)),
            Err(mut error) => {
                let unsent = error.take_message().map(back_to_http1).map(Box::new);
                let kind = match &unsent {
                    Some(_) => FailureKind::Unsent,
                    None if self.progress.is_some_and(|body| body.broken()) => FailureKind::Client,
                    None => FailureKind::Broken,
                };
                let detail = format!("{}: {}", endpoint.destination, error.error());
                Err(Lost::Failed(Failure::new(kind, detail), unsent))
            }
        }
    }

    /// Sends a request and waits for the head of the answer, for as long as that may take.
    async fn send(
        &self,
        lease: &mut Lease,
        request: Request<OutBody>,
        endpoint: &Endpoint,
    ) -> Result<Result<Response<Incoming>, TrySendError<Request<OutBody>>>, Lost> {
        let mut sending = pin!(lease.sender().send(request));
        loop {
            let before = self.progress.map(|body| body.bytes());
            match tokio::time::timeout(self.backend.rules.response, sending.as_mut()).await {
                Ok(sent) => return Ok(sent),
                // As long as the body moves, the target cannot be expected to answer.
                Err(_) if before != self.progress.map(|body| body.bytes()) => {}
                Err(_) => {
                    let to = &endpoint.destination;
                    let stalled = self.progress.is_some_and(|body| body.waits_for_client());
                    let failure = if stalled {
                        let detail = format!("{to} waits for a body that does not come");
                        Failure::new(FailureKind::Stalled, detail)
                    } else {
                        Failure::new(FailureKind::Slow, format!("{to} gave no answer in time"))
                    };
                    return Err(Lost::Failed(failure, None));
                }
            }
        }
    }
}

/// Counts a failure against an address: of an attempt, or one that its answer tells of.
pub(crate) fn blame(backend: &Backend, address: &Arc<Address>, kind: Option<FailureKind>) {
    let rules = &backend.rules.outliers;
    let now = milliseconds(Instant::now());
    let may = || {
        let (ejected, all) = backend.ejected(now);
        may_eject(rules, ejected, all)
    };
    if address.failed(rules, now, may) {
        let to = &address.endpoint.destination;
        tracing::warn!(backend = backend.name, address = %to, "ejected after failures in a row");
        tokio::spawn(look_after(address.clone(), kind == Some(FailureKind::Connect)));
    }
}

enum Lost {
    Failed(Failure, Option<Box<Request<OutBody>>>),
    Refused(Refusal),
}

/// The same request once more. Only for requests without a body.
fn copy(request: &Request<OutBody>) -> Request<OutBody> {
    let mut copy = Request::new(OutBody::Empty);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    copy
}

/// Undoes [`for_http2`], as the next target may speak something else.
fn back_to_http1(request: Request<OutBody>) -> Request<OutBody> {
    let (mut head, body) = request.into_parts();
    if head.version == http::Version::HTTP_2 {
        head.version = http::Version::HTTP_11;
        if let Some(host) = head.uri.authority()
            && let Ok(host) = http::HeaderValue::try_from(host.as_str())
        {
            head.headers.insert(http::header::HOST, host);
        }
        let path = head.uri.path_and_query().cloned();
        head.uri = path.map_or_else(|| http::Uri::from_static("/"), http::Uri::from);
    }
    Request::from_parts(head, body)
}

/// `TRACE` is left out: it is answered by whoever gets it.
pub(crate) fn is_repeatable(method: &Method) -> bool {
    method.is_idempotent() && *method != Method::TRACE
}
