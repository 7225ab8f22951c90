//! HTTP/1 from a client to a target that speaks it too, without anything in between.
//!
//! ```text
//! client ─► inbox ─► head ─► match, decide ─► head for the target ─► target
//!                     │ unusual                                         │
//!                     ▼                                                 ▼
//!          strict ─► hyper ─► proxy         client ◄─ head for the client, body as it comes
//! ```
//!
//! This is the way of the ordinary request: no body or a small one that has come with its head, no
//! upgrade, nothing to decide by headers. For anything else the connection is handed over, with
//! what has been read of it, to the general way, which can do everything and refuses what is
//! malformed. The two share every decision: routes, choice of address, retries, accounts.

mod head;
mod relay;
mod response;
mod watchdog;
mod write_head;

use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use http::Method;
use limen_core::decide::Ask;
use limen_core::global::{ClientLimit, Protocol};
use limen_core::route::{HostBuffer, normal_host};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::Instant;

use crate::access_log::Entry;
use crate::proxy::{
    Chosen, Client, Exchange, Refusal, ask_of, blame, choose, count, is_repeatable, may_retry,
    pay_in,
};
use crate::snapshot::{Backend, Route};
use crate::upstream::raw::{self, RawConnection};
use crate::upstream::{Failure, Outstanding, milliseconds};
use crate::worker::Shared;
use head::{Head, Parsed};
use watchdog::Watchdog;

/// A request waits in the inbox until its body is there, so only small ones may.
const SMALL_BODY: usize = 16 * 1024;

/// How the ordinary way ends.
pub(super) enum Ended<I> {
    /// The connection is done.
    Closed,
    /// Somebody else must go on with the connection; these bytes have been read from it.
    HandOver(I, Vec<u8>),
}

/// What becomes of the connection after a request.
enum After {
    Keep,
    Close,
    HandOver,
}

/// A client's connection.
pub(super) struct Fast<I> {
    io: I,
    shared: Arc<Shared>,
    client: Arc<Client>,
    inbox: Vec<u8>,
    watchdog: Watchdog,
}

/// Buffers that a request needs while it is under way, and an idle connection does not.
#[derive(Default)]
struct Scratch {
    out: Vec<u8>,
    answer: Vec<u8>,
}

thread_local!(static SCRATCH: RefCell<Vec<Scratch>> = RefCell::default());

/// Where a request goes.
struct Matched {
    ask: Ask,
    method: Method,
    host: String,
    route: Arc<Route>,
    backend: Arc<Backend>,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Fast<I> {
    pub(super) fn new(io: I, shared: Arc<Shared>, client: Arc<Client>) -> Self {
        let watchdog = Watchdog::new(Instant::now() + shared.options.limits.idle);
        Self { io, shared, client, inbox: Vec::new(), watchdog }
    }

    /// Serves requests for as long as they are ordinary.
    pub(super) async fn run(mut self) -> Ended<I> {
        let shared = self.shared.clone();
        let mut stop = pin!(shared.stop.cancelled());
        let mut registered = false;
        let mut room = Box::<Head>::default();
        loop {
            let head = loop {
                if !self.inbox.is_empty() {
                    match head::parse(&self.inbox, std::mem::take(&mut room)) {
                        Parsed::Head(head) if self.has_body(&head) => break head,
                        Parsed::Partial if self.inbox.len() < shared.options.limits.head_bytes => {}
                        _ => return Ended::HandOver(self.io, self.inbox),
                    }
                }
                if !self.read(stop.as_mut(), &mut registered).await {
                    return Ended::Closed;
                }
            };
            let mut scratch = SCRATCH.with_borrow_mut(Vec::pop).unwrap_or_default();
            let after = self.serve(&head, &mut scratch).await;
            SCRATCH.with_borrow_mut(|free| {
                if free.len() < 64 {
                    free.push(scratch);
                }
            });
            match after {
                After::Keep if !(shared.is_stopping() && self.inbox.is_empty()) => {}
                After::Keep | After::Close => {
                    relay::finish(&mut self.io).await;
                    return Ended::Closed;
                }
                After::HandOver => return Ended::HandOver(self.io, self.inbox),
            }
            room = head;
        }
    }

    fn has_body(&self, head: &Head) -> bool {
        head.body <= SMALL_BODY
            && self.inbox.len() >= head.end + head.body
            && head.target.len() <= self.shared.options.limits.uri_bytes
    }

    /// Reads more of a request. Whether there is more, and the gateway goes on.
    async fn read(&mut self, mut stop: Pin<&mut impl Future>, registered: &mut bool) -> bool {
        let limits = &self.shared.options.limits;
        let idle = self.inbox.is_empty();
        let patience = if idle { limits.idle } else { limits.head };
        self.watchdog.until(Instant::now() + patience);
        self.inbox.reserve(if idle { 1024 } else { 4096 });
        let Self { io, inbox, watchdog, shared, .. } = self;
        std::future::poll_fn(|context| {
            match pin!(io.read_buf(inbox)).poll(context) {
                Poll::Ready(read) => return Poll::Ready(read.is_ok_and(|length| length > 0)),
                Poll::Pending => {}
            }
            // Asking once is enough to be woken.
            if !std::mem::replace(registered, true) {
                let _ = stop.as_mut().poll(context);
            }
            if (idle && shared.is_stopping()) || watchdog.is_up(context) {
                return Poll::Ready(false);
            }
            Poll::Pending
        })
        .await
    }

    /// Where a request goes, if that can be said here.
    fn admit(&self, head: &Head) -> Option<Matched> {
        let text = |range: std::ops::Range<usize>| std::str::from_utf8(&self.inbox[range]).ok();
        let mut buffer = HostBuffer::default();
        let host = normal_host(text(head.host.clone())?, &mut buffer)?;
        let path = text(head.target.start..head.path_end)?;
        let method = Method::from_bytes(&self.inbox[head.method.clone()]).ok()?;
        let snapshot = self.shared.snapshot.load();
        let (_, route) = snapshot.routes.find(host, path)?;
        let backend = route.backend.as_ref()?;
        let redirect = route.redirect_to_https && self.client.tls.is_none();
        let special = redirect
            || route.ingress.client_ca.is_some()
            || backend.rules.look_at_headers()
            || backend.rules.request.is_some()
            || method == Method::CONNECT;
        let forwarded = head.forwarded_for.clone().map(|range| &self.inbox[range]);
        let address = self.client.original(forwarded);
        // Last, as whoever is let in is counted. Whoever is not is told so by the other way.
        let now = || milliseconds(std::time::Instant::now());
        let admitted = |(whose, limit): &(u64, ClientLimit)| {
            self.shared.clients.admit(*whose, address, limit, now()).is_ok()
        };
        let special = special || !route.ingress.limit.as_ref().is_none_or(admitted);
        (!special).then(|| Matched {
            ask: ask_of(backend, &self.shared.options, address),
            method,
            host: host.to_owned(),
            route: route.clone(),
            backend: backend.clone(),
        })
    }

    fn entry(&self, head: &Head, method: &Method) -> Entry {
        let text = |range: std::ops::Range<usize>| {
            String::from_utf8_lossy(&self.inbox[range]).into_owned()
        };
        Entry {
            client: self.client.address.ip(),
            method: method.clone(),
            host: Some(text(head.host.clone())),
            path: text(head.target.start..head.path_end),
            agent: head.agent.clone().map(text),
            tls: self.client.tls,
            ..Entry::default()
        }
    }

    async fn serve(&mut self, head: &Head, scratch: &mut Scratch) -> After {
        let started = std::time::Instant::now();
        let Some(matched) = self.admit(head) else { return After::HandOver };
        let Matched { method, route, backend, .. } = &matched;
        let rules = &backend.rules;
        let mut exchange = Exchange::new(&self.shared, started, || self.entry(head, method));
        exchange.matched(route);
        exchange.came_along = head.body as u64;
        let repeatable = is_repeatable(method) && head.body == 0;
        let mut left = rules.attempts;
        let mut tried = Vec::new();
        let mut now = milliseconds(started);
        pay_in(backend);
        scratch.out.clear();
        let id = write_head::for_target(
            &mut scratch.out,
            &self.inbox,
            head,
            &self.client,
            &self.shared,
            &matched.host,
        );
        exchange.identified(id);
        let refusal = loop {
            let Some(chosen) = choose(backend, matched.ask, &tried, now) else {
                exchange.forget();
                return After::HandOver;
            };
            if chosen.address.endpoint.protocol != Protocol::Http {
                exchange.forget();
                return After::HandOver;
            }
            exchange.attempts(backend, &chosen, Outstanding::new(chosen.address.clone()));
            let metrics = &backend.targets[chosen.target].metrics;
            count(backend, &chosen);
            let to_head = *method == Method::HEAD;
            match self.attempt(&chosen, backend, scratch, to_head).await {
                Ok((answer, connection)) => {
                    let status = answer.status;
                    if let Some(load) = answer.load {
                        backend.targets[chosen.target].flow.reported(load);
                    }
                    let failed = matches!(status, 502..=504);
                    if failed {
                        blame(backend, &chosen.address);
                    } else {
                        chosen.address.succeeded();
                    }
                    let again =
                        failed && repeatable && left > 0 && rules.statuses.contains(&status);
                    if !again || !may_retry(backend) {
                        let reply = relay::Reply { answer, connection, close: head.close };
                        let after =
                            self.relay(reply, scratch, &matched, &chosen, &mut exchange).await;
                        self.inbox.drain(..head.end + head.body);
                        return after;
                    }
                }
                Err(failure) => {
                    metrics.failures.add(1);
                    exchange.failed(&failure);
                    if failure.kind.blames_address() {
                        blame(backend, &chosen.address);
                    }
                    let again = (failure.kind.unseen() || repeatable) && left > 0;
                    if !again || !may_retry(backend) {
                        break Refusal::upstream(failure.kind.status());
                    }
                }
            }
            left -= 1;
            metrics.retries.add(1);
            tried.push(chosen.address);
            now = milliseconds(std::time::Instant::now());
        };
        self.inbox.drain(..head.end + head.body);
        // Only the account of it is wanted here.
        drop(exchange.refused(&refusal));
        self.refuse(&refusal, head.close, &mut scratch.answer).await
    }

    /// Sends the request to one address and reads the head of its answer.
    async fn attempt(
        &mut self,
        chosen: &Chosen,
        backend: &Backend,
        scratch: &mut Scratch,
        to_head: bool,
    ) -> Result<(response::AnswerHead, RawConnection), Failure> {
        let endpoint = &chosen.address.endpoint;
        let rules = &backend.rules;
        let mut connection = match raw::take_idle(endpoint) {
            Some(connection) => connection,
            None => raw::open(endpoint, rules.connect, rules.max_connections).await?,
        };
        self.watchdog.until(Instant::now() + rules.response);
        let answer =
            relay::ask(&mut connection, scratch, to_head, &mut self.watchdog).await.map_err(
                |(kind, reason)| Failure::new(kind, format!("{}: {reason}", endpoint.destination)),
            )?;
        Ok((answer, connection))
    }
}
