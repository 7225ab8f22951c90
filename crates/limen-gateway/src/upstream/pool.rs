//! Idle connections, one pool for each worker.
//!
//! The pool is in the worker's thread and nowhere else, so taking a connection and giving it back
//! needs no lock. A connection is given back when the answer's body has been read to its end, and
//! the request's body has been sent to its end.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::body::BodyProgress;
use super::connect::{Sender, connect};
use super::endpoint::Endpoint;
use super::failure::{Failure, FailureKind};

/// Connections that nobody uses are kept for this long: shorter than what servers commonly allow.
const IDLE: Duration = Duration::from_secs(50);

/// Idle connections to one endpoint, at most.
const MOST: usize = 512;

/// The idle connections of one worker.
#[derive(Default)]
pub(crate) struct Pool {
    endpoints: HashMap<u64, Idle>,
}

#[derive(Default)]
struct Idle {
    /// The one used last is used next, so that the others can age.
    http1: Vec<(Sender, Instant)>,
    http2: Option<Sender>,
}

thread_local!(static POOL: RefCell<Pool> = RefCell::default());

impl Pool {
    fn take(&mut self, endpoint: u64) -> Option<Sender> {
        let idle = self.endpoints.get_mut(&endpoint)?;
        if let Some(Sender::Http2(sender)) = &idle.http2 {
            if !sender.is_closed() {
                return Some(Sender::Http2(sender.clone()));
            }
            idle.http2 = None;
        }
        while let Some((sender, since)) = idle.http1.pop() {
            if let Sender::Http1(inner, _) = &sender
                && !inner.is_closed()
                && since.elapsed() < IDLE
            {
                return Some(sender);
            }
        }
        None
    }

    fn put(&mut self, endpoint: u64, sender: Sender) {
        let idle = self.endpoints.entry(endpoint).or_default();
        if sender.is_http2() {
            idle.http2 = Some(sender);
        } else if idle.http1.len() < MOST {
            idle.http1.push((sender, Instant::now()));
        }
    }

    /// Closes what has been idle for too long, in this thread's pool.
    pub(crate) fn tidy() {
        POOL.with_borrow_mut(|pool| {
            pool.endpoints.retain(|_, idle| {
                idle.http1.retain(|(_, since)| since.elapsed() < IDLE);
                !idle.http1.is_empty() || idle.http2.is_some()
            });
        });
    }
}

/// A connection that somebody uses.
pub(crate) struct Lease {
    endpoint: u64,
    sender: Option<Sender>,
    /// What is sent over it, if it is more than a head.
    body: Option<Arc<BodyProgress>>,
    /// Nobody may use it afterwards.
    last: bool,
}

/// A connection to an endpoint: an idle one, or a new one.
pub(crate) async fn lease(
    endpoint: &Arc<Endpoint>,
    server_name: &str,
    patience: Duration,
    most: u32,
) -> Result<Lease, Failure> {
    loop {
        let Some(mut sender) = POOL.with_borrow_mut(|pool| pool.take(endpoint.id)) else { break };
        let ready = async {
            match &mut sender {
                Sender::Http1(sender, _) => sender.ready().await.is_ok(),
                Sender::Http2(sender) => sender.ready().await.is_ok(),
            }
        };
        match tokio::time::timeout(patience, ready).await {
            Ok(true) => return Ok(Lease::new(endpoint, sender)),
            Ok(false) => {}
            Err(_) => {
                let detail = format!("an idle connection to {} was busy", endpoint.destination);
                return Err(Failure::new(FailureKind::Unsent, detail));
            }
        }
    }
    // Rare, and larger than all the rest of a request: boxed, so that not every request is moved
    // about with room for it.
    let sender = Box::pin(connect(endpoint, server_name, patience, most)).await?;
    if let Sender::Http2(sender) = &sender {
        let copy = Sender::Http2(sender.clone());
        POOL.with_borrow_mut(|pool| pool.put(endpoint.id, copy));
    }
    Ok(Lease::new(endpoint, sender))
}

impl Lease {
    fn new(endpoint: &Endpoint, sender: Sender) -> Self {
        Self { endpoint: endpoint.id, sender: Some(sender), body: None, last: false }
    }

    pub(crate) fn sender(&mut self) -> &mut Sender {
        self.sender.as_mut().expect("a lease has its sender until it is given back")
    }

    /// What is sent over it, and has to end before anybody else can use it.
    pub(crate) fn carries(&mut self, body: Option<&Arc<BodyProgress>>) {
        self.body = body.cloned();
    }

    /// Who uses it now is the last: the two sides may disagree about what comes next on it.
    pub(crate) fn is_last(&mut self) {
        self.last = true;
    }

    /// Gives the connection back for others to use. If a body is still being sent over it, the
    /// connection ends with that, or when nothing of it has moved for so long.
    pub(crate) fn give_back(mut self, patience: Duration) {
        let Some(sender) = self.sender.take() else { return };
        if let Some(body) = self.body.take().filter(|body| !body.gone()) {
            let connection = match sender {
                Sender::Http1(_, connection) => Some(connection),
                Sender::Http2(_) => None,
            };
            body.abandon_when_it_stalls(patience, connection);
        } else if !sender.is_http2() && !self.last {
            POOL.with_borrow_mut(|pool| pool.put(self.endpoint, sender));
        }
    }
}
