//! Many watches of the same keys: how quickly all of them have every event, in order.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::StreamExt;
use limen_store::{Revision, Store, Txn, Watch, WatchFrom};

use crate::Scale;
use crate::report::{median, ratio, row, table};
use crate::subject::Subject;
use crate::writes::value;

pub(crate) async fn run(scale: Scale) -> Result<()> {
    table(
        &format!("{} watches x {} events of 2 KB", scale.watchers, scale.events),
        &["", "limen events/s", "etcd events/s", "ratio"],
    );
    let subjects = [Subject::redb()?, Subject::etcd().await?];
    let mut live = [Vec::new(), Vec::new()];
    let mut replay = [Vec::new(), Vec::new()];
    for round in 0..scale.rounds {
        for (n, subject) in subjects.iter().enumerate() {
            let store = &subject.store;
            let after = store.revision().await?;
            let start = Instant::now();
            let watches = open(store, scale, after).await?;
            write(store, scale, round).await?;
            finish(watches).await.with_context(|| format!("live, {}", subject.name))?;
            let delivered = (scale.watchers * scale.events) as f64;
            live[n].push(delivered / start.elapsed().as_secs_f64());

            let start = Instant::now();
            let watches = open(store, scale, after).await?;
            finish(watches).await.with_context(|| format!("replay, {}", subject.name))?;
            replay[n].push(delivered / start.elapsed().as_secs_f64());
        }
    }
    for (label, [limen, etcd]) in
        [("while 256 writers make them", &mut live), ("replayed from the past", &mut replay)]
    {
        let (limen, etcd) = (median(limen), median(etcd));
        row(&[label.to_owned(), format!("{limen:.0}"), format!("{etcd:.0}"), ratio(limen / etcd)]);
    }
    Ok(())
}

type Follower = tokio::task::JoinHandle<Result<()>>;

async fn open(store: &Arc<dyn Store>, scale: Scale, after: Revision) -> Result<Vec<Follower>> {
    let mut followers = Vec::new();
    for _ in 0..scale.watchers {
        let from = WatchFrom { prefix: Bytes::from_static(b"watched/"), after, progress: None };
        let watch = store.watch(from).await?;
        followers.push(tokio::spawn(follow(watch, after, scale.events)));
    }
    Ok(followers)
}

async fn follow(mut watch: Watch, after: Revision, events: usize) -> Result<()> {
    let mut last = after;
    for _ in 0..events {
        // Counted by revision, since a batch may have many events.
        if last.0 >= after.0 + events as u64 {
            break;
        }
        for event in watch.next().await.context("a watch goes on")??.events {
            ensure!(event.revision.0 == last.0 + 1, "{} follows {last}", event.revision);
            last = event.revision;
        }
    }
    ensure!(last.0 == after.0 + events as u64, "a watch ended at {last}");
    Ok(())
}

async fn finish(followers: Vec<Follower>) -> Result<()> {
    for follower in followers {
        follower.await??;
    }
    Ok(())
}

pub(crate) async fn write(store: &Arc<dyn Store>, scale: Scale, round: usize) -> Result<()> {
    let writes = (0..scale.events as u64).map(|n| {
        let txn = Txn::put(format!("watched/{}", n % 500), value(n + round as u64));
        async move { store.commit(txn).await.map(drop) }
    });
    let mut writes = futures::stream::iter(writes).buffer_unordered(256);
    while let Some(written) = writes.next().await {
        written?;
    }
    Ok(())
}
