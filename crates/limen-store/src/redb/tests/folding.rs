//! When the delta is folded into the index, and what is left of it then.

use std::time::Duration;

use redb::{ReadableDatabase, ReadableTableMetadata};
use tokio::time::Instant;

use super::super::disk::Medium;
use super::super::fake_disk::FakeDisk;
use super::super::layout::{INDEX, META, META_INDEXED};
use super::super::{RedbOptions, RedbStore};
use crate::{Error, Expect, Range, Revision, Store, Txn};

fn open(disk: &FakeDisk, delta_bytes: usize) -> RedbStore {
    let options = RedbOptions { cache_bytes: 1 << 20, window_bytes: 1 << 16, delta_bytes };
    RedbStore::open_on(Medium::Fake(disk.clone()), &options).unwrap()
}

#[derive(Debug, PartialEq, Eq)]
struct Rows {
    index: u64,
    delta: usize,
    indexed: u64,
}

fn rows(store: &RedbStore) -> Rows {
    let rows = store.shared.with_file(|file| {
        let txn = file.database.begin_read().unwrap();
        let index = txn.open_table(INDEX).unwrap().len().unwrap();
        let indexed = txn.open_table(META).unwrap().get(META_INDEXED).unwrap().unwrap().value();
        Rows { index, delta: file.delta().len(), indexed }
    });
    rows.unwrap()
}

async fn write(store: &RedbStore, keys: std::ops::Range<u64>) -> Revision {
    let mut newest = Revision::FIRST;
    for n in keys {
        newest = store.commit(Txn::put(format!("key/{n:04}"), n.to_string())).await.unwrap();
    }
    newest
}

async fn keys(store: &RedbStore) -> usize {
    store.range(Range::default()).await.unwrap().entries.len()
}

#[tokio::test]
async fn the_delta_is_folded_when_it_is_full() {
    let store = open(&FakeDisk::default(), 10_000);
    for n in 0..50 {
        write(&store, n * 20..n * 20 + 20).await;
        let delta = store.shared.with_file(|file| file.delta().bytes()).unwrap();
        assert!(delta < 10_000, "the delta has grown to {delta} bytes");
        let Rows { index, delta, indexed } = rows(&store);
        assert_eq!(index + delta as u64, n * 20 + 20);
        assert_eq!(indexed, index + 1);
    }
    assert!(rows(&store).index > 900);
    assert_eq!(keys(&store).await, 1000);
}

#[tokio::test]
async fn one_transaction_may_be_larger_than_the_delta() {
    let store = open(&FakeDisk::default(), 100);
    let txn = (0..500).fold(Txn::default(), |txn, n| {
        let put = crate::WriteOp::Put { value: "x".into(), ttl: None };
        txn.and(format!("key/{n}"), Expect::Absent, put)
    });
    store.commit(txn).await.unwrap();
    assert_eq!(rows(&store), Rows { index: 500, delta: 0, indexed: 2 });
    assert_eq!(keys(&store).await, 500);
}

#[tokio::test]
async fn a_quiet_store_has_nothing_left_to_fold() {
    let store = open(&FakeDisk::default(), 1 << 20);
    let newest = write(&store, 0..30).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    while rows(&store) != (Rows { index: 30, delta: 0, indexed: newest.0 }) {
        assert!(Instant::now() < deadline, "left over: {:?}", rows(&store));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(keys(&store).await, 30);
}

#[tokio::test]
async fn a_closed_store_has_nothing_left_to_fold() {
    let disk = FakeDisk::default();
    let store = open(&disk, 1 << 20);
    let newest = write(&store, 0..30).await;
    assert_eq!(rows(&store), Rows { index: 0, delta: 30, indexed: 1 });
    drop(store);
    let store = open(&disk, 1 << 20);
    assert_eq!(rows(&store), Rows { index: 30, delta: 0, indexed: newest.0 });
}

#[tokio::test]
async fn what_was_not_folded_before_a_crash_is_read_from_the_log() {
    let disk = FakeDisk::default();
    let store = open(&disk, 4_000);
    let newest = write(&store, 0..100).await;
    let before = rows(&store);
    assert!(before.index > 0 && before.delta > 0, "both places are in use: {before:?}");
    disk.lose_power(|| false);
    drop(store);

    let store = open(&disk, 4_000);
    assert_eq!(rows(&store), before);
    assert_eq!((store.revision().await.unwrap(), keys(&store).await), (newest, 100));
    let error = store.commit(Txn::create("key/0099", "x")).await.unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
}

#[tokio::test]
async fn compaction_folds_first() {
    let store = open(&FakeDisk::default(), 1 << 20);
    for _ in 0..10 {
        write(&store, 0..50).await;
    }
    let newest = store.commit(Txn::delete("key/0000", Expect::Any)).await.unwrap();
    store.compact(newest).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while rows(&store) != (Rows { index: 49, delta: 0, indexed: newest.0 }) {
        assert!(Instant::now() < deadline, "left over: {:?}", rows(&store));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(keys(&store).await, 49);
}
