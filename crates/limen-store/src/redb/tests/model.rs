//! Random histories with folds, compactions, restarts and power losses in between, held against a
//! model that keeps every state.

use std::collections::BTreeMap;

use futures::StreamExt;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::disk::Medium;
use super::super::fake_disk::FakeDisk;
use super::super::{RedbOptions, RedbStore};
use crate::{Entry, Expect, Range, Revision, Store, Txn, WatchFrom, WriteOp};

type State = BTreeMap<Vec<u8>, Entry>;

/// What the store should hold, at every revision.
struct Model {
    states: BTreeMap<u64, State>,
    oldest: u64,
}

impl Model {
    fn newest(&self) -> u64 {
        *self.states.keys().next_back().unwrap()
    }

    fn apply(&mut self, txn: &Txn) -> u64 {
        let revision = self.newest() + 1;
        let mut state = self.states[&(revision - 1)].clone();
        let mut changed = false;
        for write in &txn.writes {
            match &write.op {
                WriteOp::Put { value, .. } => {
                    let created = state.get(&*write.key).map(|entry| entry.created);
                    let entry = Entry {
                        key: write.key.clone(),
                        value: value.clone(),
                        created: created.unwrap_or(Revision(revision)),
                        modified: Revision(revision),
                    };
                    state.insert(write.key.to_vec(), entry);
                    changed = true;
                }
                WriteOp::Delete => changed |= state.remove(&*write.key).is_some(),
                WriteOp::Check => {}
            }
        }
        if changed {
            self.states.insert(revision, state);
        }
        self.newest()
    }

    fn some_revision(&self, random: &mut StdRng) -> u64 {
        random.random_range(self.oldest.max(1)..=self.newest())
    }
}

const PREFIXES: [&str; 4] = ["", "a", "a/", "b/"];

fn some_txn(random: &mut StdRng) -> Txn {
    let mut txn = Txn::default();
    let mut keys: Vec<String> = ["a", "a/", "b/", "c"]
        .iter()
        .flat_map(|prefix| (0..4).map(move |n| format!("{prefix}{n}")))
        .collect();
    for _ in 0..random.random_range(1..4) {
        let key = keys.swap_remove(random.random_range(0..keys.len()));
        let op = if random.random_bool(0.3) {
            WriteOp::Delete
        } else {
            // Some fill a row of the log, or more than one.
            let length = [0, 10, 500, 6_000, 20_000][random.random_range(0..5)];
            WriteOp::Put { value: vec![random.random(); length].into(), ttl: None }
        };
        txn = txn.and(key, Expect::Any, op);
    }
    txn
}

fn open(disk: &FakeDisk, delta_bytes: usize) -> RedbStore {
    let options = RedbOptions { cache_bytes: 1 << 20, window_bytes: 1 << 14, delta_bytes };
    RedbStore::open_on(Medium::Fake(disk.clone()), &options).unwrap()
}

/// Reads at a random revision in every way there is.
async fn compare(store: &RedbStore, model: &Model, random: &mut StdRng) {
    let at = model.some_revision(random);
    let state = &model.states[&at];
    let prefix = PREFIXES[random.random_range(0..PREFIXES.len())];
    let limit = random.random_range(1..8);
    let mut listed = Vec::new();
    let mut range =
        Range { limit: Some(limit), at: Some(Revision(at)), ..Range::prefix(prefix.to_owned()) };
    loop {
        let page = store.range(range.clone()).await.unwrap();
        assert!(!page.more || page.entries.len() == limit);
        range.after = page.entries.last().map(|entry| entry.key.clone());
        listed.extend(page.entries);
        if !page.more {
            break;
        }
    }
    let expected = state.values().filter(|entry| entry.key.starts_with(prefix.as_bytes()));
    assert!(listed.iter().eq(expected), "{prefix:?} at {at}");
    for key in ["a0", "a/1", "b/2", "c3"] {
        let found = store.get(key.as_bytes(), Some(Revision(at))).await.unwrap();
        assert_eq!(found.as_ref(), state.get(key.as_bytes()), "{key} at {at}");
    }
}

/// Plays the events after a random revision on top of the state then.
async fn replay(store: &RedbStore, model: &Model, random: &mut StdRng) {
    let after = model.some_revision(random);
    let mut state = model.states[&after].clone();
    let from = WatchFrom { prefix: "".into(), after: Revision(after), progress: None };
    let mut watch = store.watch(from).await.unwrap();
    let mut reached = after;
    while reached < model.newest() {
        let batch = watch.next().await.unwrap().unwrap();
        for event in &batch.events {
            assert_eq!(state.get(&*event.key), event.previous.as_ref());
            match &event.current {
                Some(entry) => state.insert(event.key.to_vec(), entry.clone()),
                None => state.remove(&*event.key),
            };
        }
        reached = batch.revision.0;
        assert_eq!(state, model.states[&reached]);
    }
}

async fn live(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let disk = FakeDisk::default();
    let mut model = Model { states: BTreeMap::from([(1, State::new())]), oldest: 0 };
    for _ in 0..4 {
        let delta_bytes = [1, 500, 3_000, 1 << 20][random.random_range(0..4)];
        let store = open(&disk, delta_bytes);
        for _ in 0..random.random_range(0..30) {
            let txns: Vec<Txn> =
                (0..random.random_range(1..6)).map(|_| some_txn(&mut random)).collect();
            // Sent together, so that some share a group.
            let commits =
                futures::future::join_all(txns.iter().map(|txn| store.commit(txn.clone())));
            for (txn, committed) in txns.iter().zip(commits.await) {
                assert_eq!(committed.unwrap().0, model.apply(txn));
            }
            if random.random_bool(0.1) {
                model.oldest = model.some_revision(&mut random);
                store.compact(Revision(model.oldest)).await.unwrap();
            }
            compare(&store, &model, &mut random).await;
        }
        replay(&store, &model, &mut random).await;
        if random.random_bool(0.7) {
            disk.lose_power(|| random.random_bool(0.5));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_kept_revision_reads_as_it_was(seed in any::<u64>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(live(seed));
    }
}
