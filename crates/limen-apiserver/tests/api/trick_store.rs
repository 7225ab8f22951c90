//! A store that fails, is slow, or keeps the garbage collector waiting, when a test says so.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::StreamExt;
use limen_store::{
    Entry, Error, Expect, Page, Range, RedbStore, Result, Revision, Store, Txn, Watch, WatchFrom,
};
use tokio::sync::watch;

use crate::server::{Hub, options, store};

pub(crate) struct TrickStore {
    inner: RedbStore,
    /// What it fails at.
    failing: Mutex<Option<Failing>>,
    failures: AtomicUsize,
    /// How long each write takes at least.
    delay: Mutex<Duration>,
    /// Whether watches of everything, which only the garbage collector has, tell what they know.
    tells: watch::Sender<bool>,
}

#[derive(Clone, Copy)]
pub(crate) enum Failing {
    /// Lookups of single keys.
    Gets,
    /// Lists of what begins like this.
    Ranges(&'static str),
    /// Changes to what is there already and begins like this.
    Updates(&'static str),
}

impl TrickStore {
    /// A server on such a store. What is in the token file is known to it.
    pub(crate) async fn serve(tokens: &str) -> (Arc<Self>, Hub) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.csv");
        std::fs::write(&path, tokens).unwrap();
        let store = Arc::new(Self::open(folder.path()));
        let mut options = options(folder.path(), store.clone());
        options.token_file = Some(path);
        (store, Hub::start_with(folder, options).await)
    }

    fn open(folder: &Path) -> Self {
        let tells = watch::Sender::new(true);
        Self {
            inner: store(folder),
            failing: Mutex::default(),
            failures: AtomicUsize::new(0),
            delay: Mutex::default(),
            tells,
        }
    }

    /// Fails at this from now on, or at nothing.
    pub(crate) fn fail(&self, at: Option<Failing>) {
        *self.failing.lock().unwrap() = at;
    }

    /// Writes as slowly as a busy disk from now on.
    pub(crate) fn slow_down(&self, delay: Duration) {
        *self.delay.lock().unwrap() = delay;
    }

    /// Waits until it has failed so often.
    pub(crate) async fn has_failed(&self, times: usize) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.failures.load(Ordering::Relaxed) < times {
            assert!(Instant::now() < deadline, "{:?} of {times} failures", self.failures);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Lets the garbage collector know what happens, or not yet.
    pub(crate) fn tell(&self, tells: bool) {
        self.tells.send_replace(tells);
    }

    fn check(&self, fails: impl Fn(Failing) -> bool) -> Result<()> {
        match *self.failing.lock().unwrap() {
            Some(at) if fails(at) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                Err(Error::Unavailable("this is a test".to_owned()))
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Store for TrickStore {
    async fn revision(&self) -> Result<Revision> {
        self.inner.revision().await
    }

    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Option<Entry>> {
        self.check(|failing| matches!(failing, Failing::Gets))?;
        self.inner.get(key, at).await
    }

    async fn range(&self, range: Range) -> Result<Page> {
        let fails = |prefix: &str| range.prefix.starts_with(prefix.as_bytes());
        self.check(|failing| matches!(failing, Failing::Ranges(prefix) if fails(prefix)))?;
        self.inner.range(range).await
    }

    async fn commit(&self, txn: Txn) -> Result<Revision> {
        let fails = |prefix: &str| {
            txn.writes.iter().any(|write| {
                write.key.starts_with(prefix.as_bytes())
                    && matches!(write.expect, Expect::Modified(_))
            })
        };
        self.check(|failing| matches!(failing, Failing::Updates(prefix) if fails(prefix)))?;
        let delay = *self.delay.lock().unwrap();
        tokio::time::sleep(delay).await;
        self.inner.commit(txn).await
    }

    async fn watch(&self, from: WatchFrom) -> Result<Watch> {
        let is_of_everything = from.prefix.is_empty();
        let watch = self.inner.watch(from).await?;
        if !is_of_everything {
            return Ok(watch);
        }
        let tells = self.tells.subscribe();
        let later = watch.then(move |batch| {
            let mut tells = tells.clone();
            async move {
                let _ = tells.wait_for(|tells| *tells).await;
                batch
            }
        });
        Ok(later.boxed())
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.inner.compact(revision).await
    }
}
