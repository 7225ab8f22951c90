//! The store in one file, on redb.
//!
//! ```text
//!   commit, compact ─► writer thread ─► log ─► window of the newest events ─► watches that keep up
//!                           └─► delta ─ ─ many at a time ─ ─► index
//!   get, range ─────────► delta, index ─► log
//!   watches that fell behind ─────────► log
//! ```
//!
//! Log and index are in the file; the delta has what the index lacks. The writer is the only one
//! to write; readers see the newest commit without waiting for it.

mod backend;
mod delta;
mod disk;
#[cfg(test)]
mod fake_disk;
mod file;
mod housekeeping;
mod layout;
mod log;
mod record;
mod tables;
#[cfg(test)]
mod tests;
mod versions;
mod view;
mod watch;
mod window;
mod writer;

use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;

use async_trait::async_trait;
use tokio::sync::{Semaphore, mpsc, oneshot};

use self::disk::{Medium, Outcome, without_panic};
use self::file::StoreFile;
use self::view::View;
use self::watch::Follower;
use self::window::Window;
use self::writer::{Request, Work, Writer};
use crate::{Entry, Error, Page, Range, Result, Revision, Store, Txn, Watch, WatchFrom};

/// How a [`RedbStore`] uses memory.
#[derive(Clone, Debug)]
pub struct RedbOptions {
    /// Bytes of the file to keep in memory.
    pub cache_bytes: usize,
    /// Bytes of the newest events to keep in memory, for watches that keep up.
    pub window_bytes: usize,
    /// Bytes of index rows to keep in memory before they are folded into the file.
    pub delta_bytes: usize,
}

impl Default for RedbOptions {
    fn default() -> Self {
        Self { cache_bytes: 24 << 20, window_bytes: 16 << 20, delta_bytes: 1 << 20 }
    }
}

/// A store in one file of this process.
pub struct RedbStore {
    shared: Arc<Shared>,
    /// `None` once the store is being dropped.
    requests: Option<mpsc::Sender<Request>>,
    /// Bytes of transactions that may wait for the writer, in units of [`UNIT`].
    waiting: Arc<Semaphore>,
    writer: Option<JoinHandle<()>>,
}

/// The most bytes of transactions that wait for the writer at a time; more wait outside.
const WAITING: usize = 64 << 20;
const UNIT: usize = 1 << 10;

impl RedbStore {
    /// Opens the store in the file at `path`, and makes it if there is none.
    ///
    /// The folder must exist. This blocks for as long as redb needs to check a file that was not
    /// closed properly.
    pub fn open(path: impl Into<PathBuf>, options: &RedbOptions) -> Result<Self> {
        Self::open_on(Medium::File(path.into()), options)
    }

    fn open_on(medium: Medium, options: &RedbOptions) -> Result<Self> {
        let (file, newest) = medium.open(options.cache_bytes)?;
        let path = medium.path();
        let shared = Arc::new(Shared {
            medium,
            cache_bytes: options.cache_bytes,
            delta_bytes: options.delta_bytes,
            file: RwLock::new(State::Open(file)),
            window: Window::new(newest, options.window_bytes),
            newest: tokio::sync::watch::Sender::new(newest),
            opened: tokio::time::Instant::now(),
        });

        let (requests, receiver) = mpsc::channel(writer::GROUP);
        let writer = Writer::new(shared.clone(), receiver, newest);
        let thread = std::thread::Builder::new()
            .name("limen-store".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
                match runtime {
                    Ok(runtime) => runtime.block_on(writer.run()),
                    Err(error) => tracing::error!(%error, "the store cannot start its writer"),
                }
            })
            .map_err(|error| Error::Open { path, reason: error.to_string() })?;
        Ok(Self {
            shared,
            requests: Some(requests),
            waiting: Arc::new(Semaphore::new(WAITING / UNIT)),
            writer: Some(thread),
        })
    }

    async fn request(&self, work: Work, bytes: usize) -> Result<Revision> {
        let closed = || Error::Unavailable("the store was closed".to_owned());
        let units = u32::try_from(bytes / UNIT + 1).expect("a transaction is small");
        let permit = self.waiting.clone().acquire_many_owned(units).await.map_err(|_| closed())?;
        let (answer, outcome) = oneshot::channel();
        let request = Request { work, answer, _permit: permit };
        let requests = self.requests.as_ref().ok_or_else(closed)?;
        requests.send(request).await.map_err(|_| closed())?;
        // The writer answers every request that it has taken, unless it is torn down.
        outcome.await.map_err(|_| Error::Unknown("the store was closed".to_owned()))?
    }
}

#[async_trait]
impl Store for RedbStore {
    async fn revision(&self) -> Result<Revision> {
        Ok(self.shared.window.newest())
    }

    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Option<Entry>> {
        // A few page reads, mostly from memory: quicker than a hop to another thread.
        self.shared.read(|view| {
            let at = view.resolve(at)?;
            Ok(view.get(key, at))
        })
    }

    async fn range(&self, range: Range) -> Result<Page> {
        let shared = self.shared.clone();
        off_thread(move || {
            shared.read(|view| {
                let at = view.resolve(range.at)?;
                Ok(view.range(&range, at))
            })
        })
        .await
    }

    async fn commit(&self, txn: Txn) -> Result<Revision> {
        txn.validate()?;
        let bytes = txn.bytes();
        self.request(Work::Commit(txn), bytes).await
    }

    async fn watch(&self, from: WatchFrom) -> Result<Watch> {
        self.shared.read(|view| {
            view.check_kept(from.after)?;
            Ok(Ok(()))
        })?;
        Ok(Follower::new(self.shared.clone(), from).into_watch())
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.request(Work::Compact(revision), 0).await?;
        Ok(())
    }
}

impl Drop for RedbStore {
    /// Waits for the writer to finish what it has taken and to close the file, so that it can be
    /// opened again at once.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the writer of the store panicked");
        }
    }
}

/// Runs a read that may take long where it keeps no other task waiting.
async fn off_thread<T: Send + 'static>(
    read: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(read)
        .await
        .map_err(|error| Error::Unavailable(format!("a read was cut short: {error}")))?
}

/// What the writer, the readers and the watches have in common.
struct Shared {
    medium: Medium,
    cache_bytes: usize,
    delta_bytes: usize,
    file: RwLock<State>,
    window: Window,
    newest: tokio::sync::watch::Sender<Revision>,
    opened: tokio::time::Instant,
}

enum State {
    Open(StoreFile),
    /// An I/O error happened; the writer opens the file anew as soon as it can.
    Broken,
    Closed,
}

impl Shared {
    /// Runs `read` on the newest commit. Its outer error is the caller's fault, the inner one the
    /// file's.
    fn read<T>(&self, read: impl FnOnce(&View) -> Result<Outcome<T>>) -> Result<T> {
        let answer = self.with_file(|file| {
            without_panic(|| {
                let view = View::open(file)?;
                match read(&view) {
                    Ok(outcome) => outcome.map(Ok),
                    Err(refusal) => Ok(Err(refusal)),
                }
            })
        })?;
        answer.map_err(|fault| fault.while_reading(&self.medium.path()))?
    }

    /// Runs `work` on the open file. Readers share it; [`Shared::break_off`] waits for them.
    fn with_file<T>(&self, work: impl FnOnce(&StoreFile) -> T) -> Result<T> {
        match &*self.file.read().expect("panics are caught inside") {
            State::Open(file) => Ok(work(file)),
            State::Broken => Err(Error::Unavailable(format!(
                "{} is being opened anew after an I/O error",
                self.medium.path().display()
            ))),
            State::Closed => Err(Error::Unavailable("the store was closed".to_owned())),
        }
    }

    fn set(&self, state: State) {
        *self.file.write().expect("panics are caught inside") = state;
    }

    fn is_broken(&self) -> bool {
        matches!(*self.file.read().expect("panics are caught inside"), State::Broken)
    }

    fn break_off(&self) {
        self.set(State::Broken);
    }

    fn close(&self) {
        self.set(State::Closed);
    }

    /// Opens the file after [`Shared::break_off`], and says at which revision it is.
    fn reopen(&self) -> Result<Revision> {
        let (file, newest) = self.medium.open(self.cache_bytes).map_err(|error| match error {
            Error::Open { .. } | Error::InUse { .. } => Error::Unavailable(error.to_string()),
            error => error,
        })?;
        self.set(State::Open(file));
        Ok(newest)
    }
}
