//! One timer for a whole connection.
//!
//! A connection waits for something almost all the time, and almost always gets it. Moving a timer
//! for every wait would cost more than the wait; this one is moved only when it would come too
//! late, and when it comes too early it is set again.

use std::pin::Pin;
use std::task::Context;

use tokio::time::{Instant, Sleep};

pub(crate) struct Watchdog {
    sleep: Pin<Box<Sleep>>,
    /// When the timer goes off.
    set: Instant,
    /// When it should.
    due: Instant,
}

impl Watchdog {
    pub(crate) fn new(due: Instant) -> Self {
        Self { sleep: Box::pin(tokio::time::sleep_until(due)), set: due, due }
    }

    pub(crate) fn until(&mut self, due: Instant) {
        self.due = due;
        if due < self.set {
            self.set = due;
            self.sleep.as_mut().reset(due);
        }
    }

    /// Whether time is up. If not, the task is woken when it is.
    pub(crate) fn is_up(&mut self, context: &mut Context<'_>) -> bool {
        while self.sleep.as_mut().poll(context).is_ready() {
            if Instant::now() >= self.due {
                return true;
            }
            self.set = self.due;
            self.sleep.as_mut().reset(self.due);
        }
        false
    }
}
