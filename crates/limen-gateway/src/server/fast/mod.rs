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

mod attempts;
mod head;
mod http2;
mod relay;
mod write_head;

use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use http::Method;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::Instant;

use super::held::Ending;
use crate::access_log::Entry;
use crate::proxy::{Client, Exchange, pay_in};
use crate::upstream::raw::Watchdog;
use crate::worker::Shared;
use attempts::{Matched, Wanted};
use head::{Head, Parsed};
pub(super) use http2::serve as serve_http2_request;

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

/// Buffers that are kept for later requests, at most.
const FREE_BUFFERS: usize = 256;

impl Scratch {
    fn take() -> Self {
        SCRATCH.with_borrow_mut(Vec::pop).unwrap_or_default()
    }

    fn give_back(self) {
        SCRATCH.with_borrow_mut(|free| {
            if free.len() < FREE_BUFFERS {
                free.push(self);
            }
        });
    }
}

impl<I: AsyncRead + AsyncWrite + Ending + Unpin> Fast<I> {
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
            let mut begun = false;
            let head = loop {
                if !self.inbox.is_empty() {
                    match head::parse(&self.inbox, std::mem::take(&mut room)) {
                        Parsed::Head(head) if self.has_body(&head) => break head,
                        Parsed::Partial if self.inbox.len() < shared.options.limits.head_bytes => {}
                        _ => return Ended::HandOver(self.io, self.inbox),
                    }
                }
                if !self.read(stop.as_mut(), &mut registered, &mut begun).await {
                    return Ended::Closed;
                }
            };
            let mut scratch = Scratch::take();
            let after = self.serve(&head, &mut scratch).await;
            scratch.give_back();
            match after {
                After::Keep if !(shared.is_stopping() && self.inbox.is_empty()) => {}
                After::Keep | After::Close => {
                    relay::finish(&mut self.io, shared.options.limits.head).await;
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

    /// Reads more of a request. Whether there is more, and the gateway goes on. A head that has
    /// `begun` has its time as a whole, however many pieces it comes in.
    async fn read(
        &mut self,
        mut stop: Pin<&mut impl Future>,
        registered: &mut bool,
        begun: &mut bool,
    ) -> bool {
        let limits = &self.shared.options.limits;
        let idle = self.inbox.is_empty();
        if idle {
            self.watchdog.until(Instant::now() + limits.idle);
        } else if !std::mem::replace(begun, true) {
            self.watchdog.until(Instant::now() + limits.head);
        }
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
        let wanted = Wanted {
            method: Method::from_bytes(&self.inbox[head.method.clone()]).ok()?,
            host: text(head.host.clone())?,
            path: text(head.target.start..head.path_end)?,
            forwarded_for: head.forwarded_for.clone().map(|range| &self.inbox[range]),
            without_body: head.body == 0,
        };
        Matched::new(&self.shared, &self.client, wanted)
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
        let mut exchange = Exchange::new(&self.shared, started, || self.entry(head, method));
        exchange.matched(route);
        exchange.came_along = head.body as u64;
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
        let asked = matched.ask_targets(started, scratch, &mut self.watchdog, &mut exchange).await;
        match asked {
            Ok(answered) => {
                let after =
                    self.relay(answered, head.close, scratch, &matched, &mut exchange).await;
                self.inbox.drain(..head.end + head.body);
                after
            }
            Err(refusal) => {
                self.inbox.drain(..head.end + head.body);
                // Only the account of it is wanted here.
                drop(exchange.refused(&refusal));
                let to_head = *method == Method::HEAD;
                self.refuse(&refusal, head.close, to_head, &mut scratch.answer).await
            }
        }
    }
}
