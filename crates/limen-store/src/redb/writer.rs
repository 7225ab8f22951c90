//! The one writer: a thread that owns the file's write side.
//!
//! ```text
//!   commit() ─┐
//!   commit() ─┼─► queue ─► apply all that wait ─► one sync ─► window, watches ─► answers
//!   compact()─┘
//! ```
//!
//! Whatever waits while one group is being synced makes up the next group. Nothing is seen or
//! answered before its group is on disk, conflicts included, since they show what others in the
//! group have written.
//!
//! In between, the thread deletes keys whose time has come, folds the delta into the index when it
//! is full, removes compacted versions a few at a time, and opens the file anew after an I/O
//! error, which redb answers by refusing all work.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redb::WriteTransaction;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::Shared;
use super::backend;
use super::disk::{Fault, Outcome, without_panic};
use super::file::StoreFile;
use super::layout::META_COMPACTED;
use super::tables::Tables;
use crate::{Error, Event, Result, Revision, Txn};

/// Something for the writer to do.
pub(super) struct Request {
    pub(super) work: Work,
    pub(super) answer: oneshot::Sender<Result<Revision>>,
    /// Gives back the bytes that the request holds in memory.
    pub(super) _permit: OwnedSemaphorePermit,
}

pub(super) enum Work {
    Commit(Txn),
    Compact(Revision),
}

/// The most requests that share one sync.
pub(super) const GROUP: usize = 1024;
/// How many records housekeeping touches at a time, so that writers never wait long for it.
const STEP: usize = 256;
/// How long nothing must have been written before the file is readied for a quick start.
const SETTLE: Duration = Duration::from_secs(1);
/// How long to wait before opening the file anew after that failed.
const REOPEN: Duration = Duration::from_millis(200);

pub(super) struct Writer {
    shared: Arc<Shared>,
    requests: mpsc::Receiver<Request>,
    revision: Revision,
    next_deadline: Option<u64>,
    cleaning: bool,
    /// Something was committed since the file was last readied for a quick start.
    unsettled: bool,
}

/// What a group came to.
#[derive(Default)]
struct Group {
    outcomes: Vec<Result<Revision>>,
    events: Vec<Arc<Event>>,
    /// Whether there is anything to commit.
    dirty: bool,
    /// Whether the index has all of the delta.
    folded: bool,
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        requests: mpsc::Receiver<Request>,
        revision: Revision,
    ) -> Self {
        // What a former run left to do shows in the tables; look at once.
        let next_deadline = Some(0);
        Self { shared, requests, revision, next_deadline, cleaning: true, unsettled: false }
    }

    /// Works until the last handle of the store is gone.
    pub(super) async fn run(mut self) {
        let mut group = Vec::with_capacity(GROUP);
        loop {
            let wait = self.until_next_duty();
            let received = tokio::time::timeout(wait, self.requests.recv_many(&mut group, GROUP));
            if received.await == Ok(0) {
                break;
            }
            self.turn(&mut group);
        }
        // The next start has less to do then.
        if self.unsettled {
            self.turn(&mut group);
        }
        self.shared.close();
    }

    fn until_next_duty(&self) -> Duration {
        if self.shared.is_broken() {
            return REOPEN;
        }
        if self.cleaning {
            return Duration::ZERO;
        }
        let settle = if self.unsettled { SETTLE } else { Duration::from_secs(3600) };
        let deadline = self.next_deadline.map(|at| at.saturating_sub(unix_milliseconds()));
        settle.min(deadline.map_or(Duration::MAX, Duration::from_millis))
    }

    /// Carries out a group of requests, which may be empty, and what is due besides.
    fn turn(&mut self, requests: &mut Vec<Request>) {
        if let Err(error) = self.reopen_if_broken() {
            answer_all(requests, &error);
            return;
        }
        if let Err(error) = self.check_room(requests) {
            // Housekeeping would need room too; try it again when there may be some.
            self.cleaning = false;
            self.next_deadline = Some(unix_milliseconds() + 1000);
            answer_all(requests, &error);
            return;
        }

        let shared = self.shared.clone();
        let attempt = shared.with_file(|file| {
            without_panic(|| {
                let txn = file.database.begin_write()?;
                let group = self.apply(file, &txn, requests)?;
                Ok((txn, group))
            })
        });
        let (txn, group) = match attempt {
            Ok(Ok(staged)) => staged,
            Ok(Err(fault)) => return self.fail(requests, &fault, Error::Unavailable),
            Err(error) => return answer_all(requests, &error),
        };
        if group.dirty {
            if let Err(fault) = without_panic(|| Ok(txn.commit()?)) {
                return self.fail(requests, &fault, Error::Unknown);
            }
            self.unsettled = true;
            if group.folded {
                let _ = shared.with_file(StoreFile::renew_delta);
            }
            self.publish(group.events);
        } else if requests.is_empty() && self.unsettled {
            self.settle(txn);
        } else if let Err(fault) = without_panic(|| Ok(txn.abort()?)) {
            return self.fail(requests, &fault, Error::Unavailable);
        }
        for (request, outcome) in requests.drain(..).zip(group.outcomes) {
            // A caller that went away wants no answer.
            let _ = request.answer.send(outcome);
        }
    }

    fn apply(
        &mut self,
        file: &StoreFile,
        txn: &WriteTransaction,
        requests: &[Request],
    ) -> Outcome<Group> {
        let now = unix_milliseconds();
        let mut tables = Tables::open(txn, file.delta())?;
        let mut group = Group::default();
        let mut newest = self.revision;

        for request in requests {
            let outcome = match &request.work {
                Work::Commit(txn) => match tables.apply(txn, newest.next(), now)? {
                    Ok(events) => {
                        if !events.is_empty() {
                            newest = newest.next();
                        }
                        group.events.extend(events);
                        Ok(newest)
                    }
                    Err(error) => Err(error),
                },
                Work::Compact(requested) if *requested > newest => {
                    Err(Error::FutureRevision { requested: *requested, newest })
                }
                Work::Compact(revision) => {
                    if *revision > tables.compacted()? {
                        tables.set(META_COMPACTED, *revision)?;
                        self.cleaning = true;
                        group.dirty = true;
                    }
                    Ok(newest)
                }
            };
            group.outcomes.push(outcome);
        }

        if self.next_deadline.is_some_and(|at| at <= now) {
            for txn in tables.expired(now, STEP)? {
                if let Ok(events) = tables.apply(&txn, newest.next(), now)? {
                    newest = newest.next();
                    group.events.extend(events);
                }
            }
        }
        self.next_deadline = tables.next_deadline()?;
        if newest != self.revision {
            tables.flush(newest)?;
            group.dirty = true;
        }
        let full = tables.delta.bytes() >= self.shared.delta_bytes;
        if full || (self.cleaning && tables.compacted()? > tables.indexed()?) {
            tables.fold(newest)?;
            group.folded = true;
            group.dirty = true;
        }
        if self.cleaning {
            let before = tables.cleaned()?;
            self.cleaning = tables.clean(STEP)?;
            group.dirty |= tables.cleaned()? != before;
        }
        Ok(group)
    }

    /// Makes committed events known.
    fn publish(&mut self, events: Vec<Arc<Event>>) {
        let Some(newest) = events.last().map(|event| event.revision) else { return };
        self.revision = newest;
        self.shared.window.push(events, newest);
        self.shared.newest.send_replace(newest);
    }

    /// Commits once more in the way that lets the next start skip the check of the whole file,
    /// which redb otherwise makes after a crash, and with nothing left to fold. Too dear for every
    /// commit, cheap when idle.
    fn settle(&mut self, mut txn: WriteTransaction) {
        txn.set_quick_repair(true);
        self.unsettled = false;
        let newest = self.revision;
        let settled = self.shared.with_file(|file| {
            without_panic(|| {
                Tables::open(&txn, file.delta())?.fold(newest)?;
                txn.commit()?;
                file.renew_delta();
                Ok(())
            })
        });
        if let Ok(Err(fault)) = settled {
            self.fail(&mut Vec::new(), &fault, Error::Unknown);
        }
    }

    /// Refuses a group that might not fit. redb gives up for good on a file that it could not
    /// write to, so it had better not come to that.
    fn check_room(&self, requests: &[Request]) -> Result<()> {
        let Some(available) = self.shared.medium.available() else { return Ok(()) };
        let unfolded = self.shared.with_file(|file| file.delta().len())?;
        let needed = room_needed(requests, unfolded);
        if available >= needed {
            return Ok(());
        }
        Err(Error::DiskFull { path: self.shared.medium.path(), available, needed })
    }

    /// After an I/O error the state of the file is known again only once it has been reopened.
    fn fail(
        &mut self,
        requests: &mut Vec<Request>,
        fault: &Fault,
        error: impl FnOnce(String) -> Error,
    ) {
        let path = self.shared.medium.path();
        let detail = format!("{}: {}", path.display(), fault.detail());
        tracing::error!(file = %path.display(), fault = fault.detail(), "writing to the store failed");
        self.shared.break_off();
        let _ = self.reopen_if_broken();
        answer_all(requests, &error(detail));
    }

    fn reopen_if_broken(&mut self) -> Result<()> {
        if !self.shared.is_broken() {
            return Ok(());
        }
        let newest = self.shared.reopen()?;
        // A commit that failed may be in the file all the same; watches find it there.
        self.revision = newest;
        self.shared.window.reset(newest);
        self.shared.newest.send_replace(newest);
        self.next_deadline = Some(0);
        self.cleaning = true;
        Ok(())
    }
}

fn answer_all(requests: &mut Vec<Request>, error: &Error) {
    for request in requests.drain(..) {
        let _ = request.answer.send(Err(error.clone()));
    }
}

/// A generous estimate of how much a group makes the file grow: every page from the root to the
/// leaf of both trees is written anew for each key, and then some for redb's own records. What is
/// yet to be folded will take about a page for each row.
fn room_needed(requests: &[Request], unfolded: usize) -> u64 {
    const RESERVE: u64 = (1 << 20) + backend::STRETCH;
    const PER_WRITE: usize = 32 << 10;
    const PER_ROW: usize = 4 << 10;
    let growth: usize = requests
        .iter()
        .map(|request| match &request.work {
            Work::Commit(txn) => txn.writes.len() * PER_WRITE + 2 * txn.bytes(),
            Work::Compact(_) => 0,
        })
        .sum();
    RESERVE + (growth + unfolded * PER_ROW) as u64
}

fn unix_milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
