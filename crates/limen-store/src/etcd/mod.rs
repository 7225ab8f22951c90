//! The store in etcd, spoken to over gRPC.
//!
//! ```text
//!   get, range ─► Range ───┐
//!   commit ─────► Txn ─────┤                  ┌─► etcd
//!   (a ttl) ────► Lease ───┼─► endpoints ─────┼─► etcd
//!   compact ────► Compact ─┤   the next one   └─► etcd
//!   watch ──────► Watch ───┘   when one fails
//! ```
//!
//! etcd's revisions are the store's, its transactions carry the expectations, and its watches the
//! events, so nothing is kept here but connections and a few leases. Reads are linearizable.
//!
//! A call that failed is made again only where that can do no harm. A commit whose fate is not
//! known is reported as [`Error::Unknown`] and never repeated.

mod batches;
mod commit;
mod endpoints;
mod failure;
mod keyspace;
mod lease;
mod options;
mod read;
mod watch;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;

use self::endpoints::{Endpoints, Repeat};
use self::failure::Outcome;
use self::keyspace::Keyspace;
use self::lease::Leases;
use self::watch::Follower;
use self::wire::CompactionRequest;
use crate::{Entry, Error, Page, Range, Result, Revision, Store, Txn, Watch, WatchFrom};

pub use self::options::{EtcdOptions, EtcdTls};

/// A store in etcd 3.5 or later.
pub struct EtcdStore {
    etcd: Arc<Etcd>,
}

/// What calls and watches have in common.
struct Etcd {
    endpoints: Endpoints,
    keys: Keyspace,
    leases: Leases,
}

impl EtcdStore {
    /// Connects to etcd, and makes sure that it answers.
    ///
    /// Afterwards connections that break are made anew as they are needed.
    pub async fn connect(options: EtcdOptions) -> Result<Self> {
        let etcd = Etcd {
            endpoints: Endpoints::new(&options)?,
            keys: Keyspace::new(options.prefix),
            leases: Leases::default(),
        };
        etcd.revision().await?;
        Ok(Self { etcd: Arc::new(etcd) })
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn revision(&self) -> Result<Revision> {
        self.etcd.revision().await
    }

    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Option<Entry>> {
        self.etcd.get(key, at).await
    }

    async fn range(&self, range: Range) -> Result<Page> {
        self.etcd.range(&range).await
    }

    async fn commit(&self, txn: Txn) -> Result<Revision> {
        txn.validate()?;
        self.etcd.commit(&txn).await
    }

    async fn watch(&self, from: WatchFrom) -> Result<Watch> {
        Ok(Follower::start(self.etcd.clone(), from).await?.into_watch())
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        let request = CompactionRequest { revision: keyspace::number(revision) };
        let Err(failure) = self.etcd.endpoints.call(request, Repeat::Freely).await else {
            return Ok(());
        };
        match failure.outcome() {
            Outcome::Compacted => Ok(()),
            Outcome::FutureRevision => {
                let newest = self.etcd.revision().await?;
                Err(Error::FutureRevision { requested: revision, newest })
            }
            _ => Err(failure.into()),
        }
    }
}
