//! No user takes the server from the others.
//!
//! ```text
//!   request ──► Flow::room ──► Room for its body, or 429
//!     body  ──► Flow::enter ──► a seat is free: Permit
//!                          └──► all are taken: wait in the user's own queue ──► Permit, or 429
//! ```
//!
//! A body is there before its request takes a seat: who sends slowly keeps nobody else from
//! writing. All bodies together are bounded, and nobody may hold more than is left for others.
//!
//! There are so many seats for requests that change something and so many for those that read.
//! While all are taken, each user waits in a queue of their own, and freed seats go to the queues
//! in turn: a user with a thousand waiting requests gets as many as a user with one. Queues, and
//! all of them together, are bounded in length and time. A watch holds its seat until it has begun,
//! since it would never give it back otherwise; health checks and `system:masters` always get in, so that somebody can see
//! to an overloaded server.

mod room;
mod turns;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::auth::{Identity, MASTERS};
use crate::error::{ApiError, ApiResult};
use room::Rooms;
use turns::{Arrival, Turns};

/// What kind of request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// It changes something.
    Mutating,
    /// It reads, or begins a watch.
    ReadOnly,
    /// It asks for the server's health: let in at once.
    Health,
}

/// How much is let in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Seats for requests that change something.
    pub mutating: usize,
    /// Seats for requests that read.
    pub read_only: usize,
    /// How many requests of one user may wait for seats of one kind.
    pub queue_length: usize,
    /// How many requests of all users may.
    pub total_queue_length: usize,
    /// How long a request may wait.
    pub wait: Duration,
    /// How many bytes the bodies of all requests may have that are under way.
    pub bodies: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            mutating: 200,
            read_only: 400,
            queue_length: 50,
            total_queue_length: 5_000,
            wait: Duration::from_secs(15),
            bodies: 256 * 1024 * 1024,
        }
    }
}

/// Lets requests in.
#[derive(Debug)]
pub(crate) struct Flow {
    mutating: Arc<Pool>,
    read_only: Arc<Pool>,
    wait: Duration,
    rooms: Mutex<Rooms>,
    rejected: AtomicU64,
}

/// Room for a body, which is free again when it is dropped.
#[derive(Debug)]
#[must_use = "the room is free again when it is dropped"]
pub(crate) struct Room<'a> {
    flow: &'a Flow,
    user: &'a str,
    bytes: usize,
}

/// Leave to go on; the seat is free again when it is dropped.
#[derive(Debug)]
#[must_use = "the seat is free again when the permit is dropped"]
pub(crate) struct Permit {
    pool: Option<Arc<Pool>>,
}

impl Flow {
    /// A flow within these limits.
    pub(crate) fn new(limits: &Limits) -> Self {
        let pool = |seats| {
            let turns = Turns::new(seats, limits.queue_length, limits.total_queue_length);
            Arc::new(Pool { turns: Mutex::new(turns) })
        };
        Self {
            mutating: pool(limits.mutating),
            read_only: pool(limits.read_only),
            wait: limits.wait,
            rooms: Mutex::new(Rooms::new(limits.bodies)),
            rejected: AtomicU64::new(0),
        }
    }

    /// How many requests were turned away so far.
    pub(crate) fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// Room for a body of so many bytes, if the user does not hold too much already. Nobody needs
    /// any for nothing.
    pub(crate) fn room<'a>(
        &'a self,
        user: &'a Identity,
        bytes: usize,
    ) -> ApiResult<Option<Room<'a>>> {
        if bytes == 0 || user.is_in(MASTERS) {
            return Ok(None);
        }
        match self.rooms().take(&user.name, bytes) {
            Some(bytes) => Ok(Some(Room { flow: self, user: &user.name, bytes })),
            None => Err(self.turn_away()),
        }
    }

    /// As with the turns, a poisoned lock is as good as any.
    fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn_away(&self) -> ApiError {
        self.rejected.fetch_add(1, Ordering::Relaxed);
        ApiError::too_many_requests("Too many requests, please try again later.", 1)
    }

    /// Waits for the user's turn. A request that is dropped meanwhile leaves its place.
    pub(crate) async fn enter(&self, user: &Identity, class: Class) -> ApiResult<Permit> {
        let pool = match class {
            _ if user.is_in(MASTERS) => return Ok(Permit { pool: None }),
            Class::Health => return Ok(Permit { pool: None }),
            Class::Mutating => &self.mutating,
            Class::ReadOnly => &self.read_only,
        };
        let (call, called) = oneshot::channel();
        let arrival = pool.turns().arrive(&user.name, call);
        match arrival {
            Arrival::Seated => return Ok(Permit { pool: Some(Arc::clone(pool)) }),
            Arrival::Waiting(ticket) => {
                let _place = Place { pool, user: &user.name, ticket };
                if let Ok(Ok(permit)) = tokio::time::timeout(self.wait, called).await {
                    return Ok(permit);
                }
            }
            Arrival::Full => {}
        }
        Err(self.turn_away())
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.flow.rooms().give_back(self.user, self.bytes);
    }
}

#[derive(Debug)]
struct Pool {
    turns: Mutex<Turns<oneshot::Sender<Permit>>>,
}

impl Pool {
    /// Nothing under this lock can panic half-way, so a poisoned one is as good as any.
    fn turns(&self) -> MutexGuard<'_, Turns<oneshot::Sender<Permit>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(mut pool) = self.pool.take() else { return };
        // Who was called may be gone already; then the seat goes to the next.
        loop {
            let next = pool.turns().leave();
            let Some(call) = next else { return };
            match call.send(Self { pool: Some(pool) }) {
                Ok(()) => return,
                Err(mut unwanted) => match unwanted.pool.take() {
                    Some(again) => pool = again,
                    None => return,
                },
            }
        }
    }
}

/// A place in a queue, which is left when the request is dropped or called.
struct Place<'a> {
    pool: &'a Pool,
    user: &'a str,
    ticket: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.pool.turns().give_up(self.user, self.ticket);
    }
}

#[cfg(test)]
mod tests;
