//! One target after the other, until one of them answers.
//!
//! The same rules as for the general way hold: a request is tried again only where the target
//! cannot have acted on it, or where acting twice does no harm.

use std::sync::Arc;
use std::time::Instant;

use http::Method;
use limen_core::decide::Ask;
use limen_core::global::ClientLimit;
use limen_core::route::{HostBuffer, normal_host};

use super::Scratch;
use crate::proxy::{
    Chosen, Client, Exchange, NO_TARGET, Refusal, ask_of, blame, choose, count, is_repeatable,
    may_retry,
};
use crate::snapshot::{Backend, Route};
use crate::upstream::raw::{self, AnswerHead, RawConnection, Watchdog};
use crate::upstream::{Failure, Outstanding, milliseconds};
use crate::worker::Shared;

/// What the place of a request depends on.
pub(super) struct Wanted<'a> {
    pub(super) method: Method,
    pub(super) host: &'a str,
    pub(super) path: &'a str,
    /// What proxies in front say about who asks.
    pub(super) forwarded_for: Option<&'a [u8]>,
    /// Whether nothing comes after the head.
    pub(super) without_body: bool,
}

/// Where a request goes.
pub(super) struct Matched {
    pub(super) ask: Ask,
    pub(super) method: Method,
    pub(super) host: String,
    pub(super) route: Arc<Route>,
    pub(super) backend: Arc<Backend>,
    /// Whether asking twice does no harm.
    repeatable: bool,
}

/// A target has answered: this is the head of it, and the rest comes from there.
pub(super) struct Answered {
    pub(super) answer: AnswerHead,
    pub(super) connection: RawConnection,
    pub(super) chosen: Chosen,
}

impl Matched {
    /// Where a request goes, if that can be said here. If so it is counted, and must be served here.
    pub(super) fn new(shared: &Shared, client: &Client, wanted: Wanted<'_>) -> Option<Self> {
        let mut buffer = HostBuffer::default();
        let host = normal_host(wanted.host, &mut buffer)?;
        let snapshot = shared.snapshot.load();
        let (_, route) = snapshot.routes.find(host, wanted.path)?;
        let backend = route.backend.as_ref()?;
        let redirect = route.redirect_to_https && client.tls.is_none();
        let special = redirect
            || route.ingress.client_ca.is_some()
            || !backend.plain
            || backend.rules.look_at_headers()
            || backend.rules.request.is_some()
            || wanted.method == Method::CONNECT;
        let address = client.original(wanted.forwarded_for);
        // Last, as whoever is let in is counted. Whoever is not is told so by the other way.
        let now = || milliseconds(Instant::now());
        let admitted = |(whose, limit): &(u64, ClientLimit)| {
            shared.clients.admit(*whose, address, limit, now()).is_ok()
        };
        let special = special || !route.ingress.limit.as_ref().is_none_or(admitted);
        (!special).then(|| Self {
            ask: ask_of(backend, &shared.options, address),
            repeatable: wanted.without_body && is_repeatable(&wanted.method),
            method: wanted.method,
            host: host.to_owned(),
            route: route.clone(),
            backend: backend.clone(),
        })
    }

    /// Asks targets with what is in `scratch.out`. What has come of the answer is then in
    /// `scratch.answer`.
    pub(super) async fn ask_targets(
        &self,
        started: Instant,
        scratch: &mut Scratch,
        watchdog: &mut Watchdog,
        exchange: &mut Exchange,
    ) -> Result<Answered, Refusal> {
        let Self { backend, repeatable, .. } = self;
        let rules = &backend.rules;
        let mut left = rules.attempts;
        let mut tried = Vec::new();
        let mut now = milliseconds(started);
        loop {
            let chosen = choose(backend, self.ask, &tried, now).ok_or(NO_TARGET)?;
            exchange.attempts(backend, &chosen, Outstanding::new(chosen.address.clone()));
            let metrics = &backend.targets[chosen.target].metrics;
            count(backend, &chosen);
            match self.attempt(&chosen, scratch, watchdog).await {
                Ok((answer, connection)) => {
                    let status = answer.status;
                    if let Some(load) = answer.load {
                        backend.targets[chosen.target].flow.reported(load);
                    }
                    let failed = matches!(status, 502..=504);
                    if failed {
                        blame(backend, &chosen.address, None);
                    } else {
                        chosen.address.succeeded();
                    }
                    let again =
                        failed && *repeatable && left > 0 && rules.statuses.contains(&status);
                    if !again || !may_retry(backend) {
                        return Ok(Answered { answer, connection, chosen });
                    }
                }
                Err(failure) => {
                    metrics.failures.add(1);
                    exchange.failed(&failure);
                    if failure.kind.blames_address() {
                        blame(backend, &chosen.address, Some(failure.kind));
                    }
                    let again = (failure.kind.unseen() || *repeatable) && left > 0;
                    if !again || !may_retry(backend) {
                        return Err(Refusal::upstream(failure.kind.status()));
                    }
                }
            }
            left -= 1;
            metrics.retries.add(1);
            tried.push(chosen.address);
            now = milliseconds(Instant::now());
        }
    }

    /// Sends the request to one address and reads the head of its answer.
    async fn attempt(
        &self,
        chosen: &Chosen,
        scratch: &mut Scratch,
        watchdog: &mut Watchdog,
    ) -> Result<(AnswerHead, RawConnection), Failure> {
        let endpoint = &chosen.address.endpoint;
        let rules = &self.backend.rules;
        let mut connection = match raw::take_idle(endpoint) {
            Some(connection) => connection,
            None => Box::pin(raw::open(endpoint, rules.connect, rules.max_connections)).await?,
        };
        watchdog.until(tokio::time::Instant::now() + rules.response);
        let to_head = self.method == Method::HEAD;
        let Scratch { out, answer } = scratch;
        let asked = raw::ask(&mut connection, out, answer, to_head, watchdog).await;
        let failed =
            |(kind, reason)| Failure::new(kind, format!("{}: {reason}", endpoint.destination));
        Ok((asked.map_err(failed)?, connection))
    }
}
