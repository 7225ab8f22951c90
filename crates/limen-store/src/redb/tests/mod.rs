//! What the file store does on bad days that need a disk which can be told to fail.

mod folding;
mod model;

use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::disk::Medium;
use super::fake_disk::FakeDisk;
use super::{RedbOptions, RedbStore};
use crate::{Error, Expect, Range, Revision, Store, Txn, WriteOp};

fn open(disk: &FakeDisk) -> RedbStore {
    let options = RedbOptions { cache_bytes: 1 << 20, window_bytes: 1 << 16, delta_bytes: 1 << 10 };
    RedbStore::open_on(Medium::Fake(disk.clone()), &options).unwrap()
}

/// Two keys that every transaction sets to the same value: half a transaction would show.
fn pair(n: u64) -> Txn {
    let put = || WriteOp::Put { value: n.to_string().repeat(50).into(), ttl: None };
    Txn::default().and("left", Expect::Any, put()).and("right", Expect::Any, put())
}

async fn value(store: &RedbStore, key: &str) -> Option<(bytes::Bytes, Revision)> {
    let entry = store.get(key.as_bytes(), None).await.unwrap()?;
    Some((entry.value, entry.modified))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn acknowledged_writes_survive_power_loss(seed in any::<u64>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut random = StdRng::seed_from_u64(seed);
            let disk = FakeDisk::default();
            let mut acknowledged = Revision::FIRST;
            for _ in 0..4 {
                let store = open(&disk);
                let newest = store.revision().await.unwrap();
                prop_assert!(newest >= acknowledged, "{newest} is older than {acknowledged}");
                let (left, right) = (value(&store, "left").await, value(&store, "right").await);
                prop_assert_eq!(&left, &right, "half a transaction");
                prop_assert_eq!(left.map_or(Revision::FIRST, |(_, revision)| revision), newest);

                // The power goes in the middle of some write or sync.
                disk.fail_after(Some(random.random_range(0..60)));
                for n in 0..20 {
                    match store.commit(pair(n)).await {
                        Ok(revision) => acknowledged = revision,
                        Err(_) => break,
                    }
                }
                let survival = random.random_range(0.0..1.0);
                disk.lose_power(|| random.random_bool(survival));
                drop(store);
                disk.fail_after(None);
            }
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_goes_on_reading() {
    let disk = FakeDisk::default();
    let store = open(&disk);
    store.commit(Txn::create("key", "value")).await.unwrap();

    disk.set_available(Some(10_000));
    let error = store.commit(Txn::put("key", "other")).await.unwrap_err();
    assert!(matches!(error, Error::DiskFull { available: 10_000, .. }), "{error}");
    assert!(error.to_string().contains("free some space"), "{error}");
    assert_eq!(store.get(b"key", None).await.unwrap().unwrap().value, "value");
    assert_eq!(store.range(Range::default()).await.unwrap().entries.len(), 1);

    disk.set_available(Some(1 << 30));
    store.commit(Txn::put("key", "other")).await.unwrap();
    assert_eq!(store.get(b"key", None).await.unwrap().unwrap().value, "other");
}

#[tokio::test]
async fn a_write_error_at_any_point_is_reported_and_overcome() {
    for operations in 0..40 {
        let disk = FakeDisk::default();
        let store = open(&disk);
        store.commit(pair(0)).await.unwrap();

        disk.fail_after(Some(operations));
        let mut committed = 0;
        let mut failed = false;
        for n in 1..30 {
            match store.commit(pair(n)).await {
                Ok(_) => committed = n,
                Err(Error::Unknown(_) | Error::Unavailable(_)) => failed = true,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(failed, "30 commits made fewer than {operations} writes and syncs");
        disk.fail_after(None);

        // The writer opens the file anew by itself.
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
        while let Err(error) = store.commit(Txn::put("after", "x")).await {
            assert!(tokio::time::Instant::now() < deadline, "writes did not go on: {error}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let (left, right) = (value(&store, "left").await, value(&store, "right").await);
        assert_eq!(left, right);
        let minimum = committed.to_string().repeat(50);
        let digits = |text: &str| text[..text.len() / 50].parse::<u64>().unwrap();
        let found = String::from_utf8(left.unwrap().0.to_vec()).unwrap();
        assert!(digits(&found) >= digits(&minimum), "acknowledged {minimum}, found {found}");
    }
}

#[tokio::test]
async fn a_write_that_failed_but_took_place_reaches_the_watches() {
    use futures::StreamExt;

    for operations in 0..40 {
        let disk = FakeDisk::default();
        let store = open(&disk);
        let from = crate::WatchFrom {
            prefix: bytes::Bytes::new(),
            after: Revision::FIRST,
            progress: None,
        };
        let mut watch = store.watch(from).await.unwrap();
        disk.fail_after(Some(operations));
        for n in 0..10 {
            let _ = store.commit(pair(n)).await;
        }
        disk.fail_after(None);
        let last = loop {
            match store.commit(Txn::put("after", "x")).await {
                Ok(revision) => break revision,
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        };
        let mut seen = Vec::new();
        while seen.last() != Some(&last.0) {
            let batch = watch.next().await.unwrap().unwrap();
            seen.extend(batch.events.iter().map(|event| event.revision.0));
        }
        seen.dedup();
        assert_eq!(seen, (2..=last.0).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn compaction_removes_what_it_forgets_from_the_file() {
    use redb::{ReadableDatabase, ReadableTableMetadata};

    let disk = FakeDisk::default();
    let store = open(&disk);
    for n in 0..1000 {
        store.commit(Txn::put(format!("key/{}", n % 10), n.to_string())).await.unwrap();
    }
    let last = store.commit(Txn::delete("key/0", Expect::Any)).await.unwrap();
    store.compact(last).await.unwrap();

    let rows = || {
        store.shared.with_file(|file| {
            let txn = file.database.begin_read().unwrap();
            let log = txn.open_table(super::layout::LOG).unwrap().len().unwrap();
            let index = txn.open_table(super::layout::INDEX).unwrap().len().unwrap();
            (log, index)
        })
    };
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    while rows().unwrap() != (9, 9) {
        assert!(tokio::time::Instant::now() < deadline, "left over: {:?}", rows());
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(store.range(Range::default()).await.unwrap().entries.len(), 9);
}
