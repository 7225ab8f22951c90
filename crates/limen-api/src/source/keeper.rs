//! Keeps the last objects on disk, behind the back of whoever puts them in force.
//!
//! ```text
//! keep ─► one slot, the newest only ─► a thread ─► disk
//! ```
//!
//! A disk that is slow or full delays nothing: while one state is being written the next ones
//! replace each other in the slot. Many objects take a while, however small the change was, so
//! there is a rest after each write that leaves the processor to those who answer clients.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::absence::Absence;
use super::objects::Objects;
use super::{News, disk};

/// How long the last write is waited for.
const LAST: Duration = Duration::from_secs(1);
/// A write that takes longer is told of.
const SLOW: Duration = Duration::from_secs(5);
/// How many times as long as a write took is rested after it, and the longest rest.
const REST: u32 = 9;
const LONGEST_REST: Duration = Duration::from_secs(10);

/// Where the next state waits to be written.
#[derive(Default)]
struct Slot {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next: Option<Objects>,
    /// Nothing more will come.
    closed: bool,
    /// The thread has ended.
    ended: bool,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next state; nothing when there will be none.
    fn next(&self) -> Option<Objects> {
        let waiting = |state: &mut State| state.next.is_none() && !state.closed;
        let mut state =
            self.changed.wait_while(self.lock(), waiting).unwrap_or_else(PoisonError::into_inner);
        state.next.take()
    }

    /// Lets time pass, until nothing more will come.
    fn rest(&self, time: Duration) {
        let open = |state: &mut State| !state.closed;
        let _ = self.changed.wait_timeout_while(self.lock(), time, open);
    }
}

/// Keeps the last objects on disk. The thread ends when this is dropped and the last is written.
pub(super) struct Keeper(Arc<Slot>);

impl Keeper {
    /// Starts the thread. What goes wrong is told by `publish`.
    pub(super) fn start(
        folder: PathBuf,
        file_name: &'static str,
        publish: mpsc::Sender<News>,
    ) -> std::io::Result<Self> {
        let slot = Arc::new(Slot::default());
        let (theirs, name) = (slot.clone(), "limen-keeper".to_owned());
        std::thread::Builder::new().name(name).spawn(move || {
            let _ended = Ended(&theirs);
            let mut absence = Absence::default();
            while let Some(objects) = theirs.next() {
                let start = Instant::now();
                let written = disk::write(&folder, file_name, &objects);
                let now = Instant::now();
                let took = now - start;
                match written {
                    Ok(()) => {
                        if took > SLOW {
                            tracing::warn!(?took, folder = %folder.display(), "the disk is slow");
                        }
                        if absence.answered("disk", now).is_some() {
                            tracing::info!(folder = %folder.display(), "objects are kept again");
                        }
                    }
                    Err(error) => {
                        let said = absence.failed("disk", now).then_some(error);
                        if publish.blocking_send(News::NotKept(said)).is_err() {
                            return;
                        }
                    }
                }
                theirs.rest((took * REST).min(LONGEST_REST));
            }
        })?;
        Ok(Self(slot))
    }

    /// Has this written before long, unless something newer comes before. Never waits.
    pub(super) fn keep(&self, objects: Objects) {
        self.0.lock().next = Some(objects);
        self.0.changed.notify_all();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        self.0.changed.notify_all();
        // What came last is written, if the disk is not to blame.
        let _ = self.0.changed.wait_timeout_while(state, LAST, |state| !state.ended);
    }
}

/// Says that the thread has ended.
struct Ended<'a>(&'a Slot);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}
