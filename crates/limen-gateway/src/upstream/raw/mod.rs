//! Plain connections to targets, and HTTP/1 over them without a task for each connection.

mod answer;
mod ask;
mod body;
mod watchdog;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use super::connect::{Open, tcp};
use super::endpoint::Endpoint;
use super::failure::{Failure, FailureKind};
pub(crate) use answer::{AnswerHead, Framing};
pub(crate) use ask::{ask, late, read_some, write_some};
pub(crate) use body::{BodyEnd, RawBody};
pub(crate) use watchdog::Watchdog;

/// Connections that nobody uses are kept for this long: shorter than what servers commonly allow.
const IDLE: Duration = Duration::from_secs(50);

/// Idle connections to one endpoint, at most.
const MOST: usize = 512;

/// A connection to a target. It counts as open until it is dropped.
pub(crate) struct RawConnection {
    pub(crate) stream: TcpStream,
    pub(crate) reused: bool,
    _open: Open,
}

thread_local! {
    static IDLE_CONNECTIONS: RefCell<HashMap<u64, Vec<(RawConnection, Instant)>>> =
        RefCell::default();
}

/// An idle connection of this worker that is still good, if there is one.
pub(crate) fn take_idle(endpoint: &Endpoint) -> Option<RawConnection> {
    IDLE_CONNECTIONS.with_borrow_mut(|idle| {
        let idle = idle.get_mut(&endpoint.id)?;
        loop {
            let (mut connection, since) = idle.pop()?;
            // An idle connection with something to read was closed, or has gone mad.
            let quiet = matches!(
                connection.stream.try_read(&mut [0]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock
            );
            if quiet && since.elapsed() < IDLE {
                connection.reused = true;
                return Some(connection);
            }
        }
    })
}

/// Gives a connection back for others to use.
pub(crate) fn give_back(endpoint: &Endpoint, connection: RawConnection, now: Instant) {
    IDLE_CONNECTIONS.with_borrow_mut(|idle| {
        let idle = idle.entry(endpoint.id).or_default();
        if idle.len() < MOST {
            idle.push((connection, now));
        }
    });
}

/// A new connection, unless there are `most` already.
pub(crate) async fn open(
    endpoint: &Arc<Endpoint>,
    patience: Duration,
    most: u32,
) -> Result<RawConnection, Failure> {
    let open = Open::new(endpoint, most)?;
    let failed = |error: &dyn std::fmt::Display| {
        let detail = format!("cannot connect to {}: {error}", endpoint.destination);
        Failure::new(FailureKind::Connect, detail)
    };
    let stream = tokio::time::timeout(patience, tcp(&endpoint.destination))
        .await
        .map_err(|_| failed(&"no answer in time"))?
        .map_err(|error| failed(&error))?;
    Ok(RawConnection { stream, reused: false, _open: open })
}

/// Closes what has been idle for too long, in this thread.
pub(crate) fn tidy() {
    IDLE_CONNECTIONS.with_borrow_mut(|idle| {
        idle.retain(|_, connections| {
            connections.retain(|(_, since)| since.elapsed() < IDLE);
            !connections.is_empty()
        });
    });
}
