//! Random concurrent histories, checked against what a single register would do.
//!
//! Clients read and write a few keys at the same time, each noting when its call began, when it
//! ended and what it was told. A history of a key is linearizable if its calls can be put into an
//! order that respects which ended before which began, such that each was told the truth. The
//! search for such an order tries every call that could come next and remembers what it has tried.
//!
//! A watch runs along. Replaying its events must rebuild what a range returns, at every revision.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use limen_store::{Entry, Error, Event, Expect, Range, Revision, Store, Txn};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Subject, next};

const CLIENTS: u64 = 4;
const CALLS: usize = 14;
const KEYS: usize = 3;
const ROUNDS: u64 = 12;

/// What a key is: the revision at which it was last modified, or nothing.
type Register = Option<Revision>;

#[derive(Clone, Debug)]
enum Call {
    Read { found: Register },
    Create { outcome: Result<Revision, Register> },
    Update { expected: Revision, outcome: Result<Revision, Register> },
    Delete { expected: Revision, outcome: Result<(), Register> },
}

impl Call {
    /// What the key is after this call, if the answer fits what it was before.
    fn step(&self, register: Register) -> Option<Register> {
        let expected = match self {
            Self::Read { found } => return (*found == register).then_some(register),
            Self::Create { .. } => None,
            Self::Update { expected, .. } | Self::Delete { expected, .. } => Some(*expected),
        };
        let (success, refusal) = match self {
            Self::Create { outcome } | Self::Update { outcome, .. } => match outcome {
                Ok(revision) => (Some(Some(*revision)), None),
                Err(found) => (None, Some(*found)),
            },
            Self::Delete { outcome: Ok(()), .. } => (Some(None), None),
            Self::Delete { outcome: Err(found), .. } => (None, Some(*found)),
            Self::Read { .. } => unreachable!("handled above"),
        };
        match (success, refusal) {
            (Some(after), _) => (register == expected).then_some(after),
            (_, Some(found)) => (register == found && found != expected).then_some(register),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
struct Timed {
    key: usize,
    began: u64,
    ended: u64,
    call: Call,
}

/// Whether the calls on one key can be put into an order that explains every answer.
fn is_linearizable(calls: &[Timed]) -> bool {
    assert!(calls.len() <= 64, "the set of calls is a word");
    let mut tried: HashSet<(u64, Register)> = HashSet::new();
    let mut open: Vec<(u64, Register)> = vec![(0, None)];
    while let Some((done, register)) = open.pop() {
        if done.count_ones() as usize == calls.len() {
            return true;
        }
        let waiting = || (0..calls.len()).filter(|n| done & (1 << n) == 0);
        let first_end = waiting().map(|n| calls[n].ended).min().unwrap_or(0);
        for n in waiting().filter(|&n| calls[n].began <= first_end) {
            if let Some(after) = calls[n].call.step(register) {
                let next = (done | 1 << n, after);
                if tried.insert(next) {
                    open.push(next);
                }
            }
        }
    }
    false
}

pub(crate) async fn concurrent_histories_are_linearizable_and_replayable(store: Subject) {
    for round in 0..ROUNDS {
        let seed: u64 = rand::random();
        check(&store, round, seed).await;
    }
}

async fn check(store: &Subject, round: u64, seed: u64) {
    let prefix = Bytes::from(format!("round-{round}/"));
    let before = store.revision().await.unwrap();
    let clock = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let random = StdRng::seed_from_u64(seed.wrapping_add(client));
            tokio::spawn(run_client(store.clone(), prefix.clone(), random, clock.clone()))
        })
        .collect();
    let mut history = Vec::new();
    for client in clients {
        history.extend(client.await.unwrap());
    }

    for key in 0..KEYS {
        let calls: Vec<Timed> = history.iter().filter(|call| call.key == key).cloned().collect();
        assert!(is_linearizable(&calls), "seed {seed}, key {key}: {calls:#?}");
    }
    check_replay(store, prefix, before, seed).await;
}

async fn run_client(
    store: Subject,
    prefix: Bytes,
    mut random: StdRng,
    clock: Arc<AtomicU64>,
) -> Vec<Timed> {
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let mut known: [Register; KEYS] = [None; KEYS];
    let mut history = Vec::new();
    for _ in 0..CALLS {
        let key = random.random_range(0..KEYS);
        let name = Bytes::from([&*prefix, key.to_string().as_bytes()].concat());
        let began = tick();
        let call = match (random.random_range(0..4), known[key]) {
            (1, None) => {
                let outcome = refusal(store.commit(Txn::create(name, "x")).await);
                Call::Create { outcome }
            }
            (1 | 2, Some(expected)) => {
                let outcome = refusal(store.commit(Txn::update(name, "y", expected)).await);
                Call::Update { expected, outcome }
            }
            (3, Some(expected)) => {
                let txn = Txn::delete(name, Expect::Modified(expected));
                Call::Delete { expected, outcome: refusal(store.commit(txn).await).map(drop) }
            }
            _ => {
                let entry = store.get(&name, None).await.unwrap();
                Call::Read { found: entry.map(|entry| entry.modified) }
            }
        };
        known[key] = match &call {
            Call::Read { found } => *found,
            Call::Create { outcome } | Call::Update { outcome, .. } => match outcome {
                Ok(revision) => Some(*revision),
                Err(found) => *found,
            },
            Call::Delete { outcome, .. } => outcome.err().flatten(),
        };
        history.push(Timed { key, began, ended: tick(), call });
    }
    history
}

fn refusal(outcome: Result<Revision, Error>) -> Result<Revision, Register> {
    outcome.map_err(|error| match error {
        Error::Conflict { current, .. } => current.map(|entry| entry.modified),
        other => panic!("{other}"),
    })
}

async fn check_replay(store: &Subject, prefix: Bytes, before: Revision, seed: u64) {
    let newest = store.revision().await.unwrap();
    let from = limen_store::WatchFrom { prefix: prefix.clone(), after: before, progress: None };
    let mut watch = store.watch(from).await.unwrap();
    let mut state: BTreeMap<Bytes, Entry> = BTreeMap::new();
    let mut revision = before;
    let last = last_change(&**store, &prefix, before, newest).await;
    while revision < last {
        for event in next(&mut watch).await.unwrap().events {
            if event.revision != revision {
                let seen: Vec<Entry> = state.values().cloned().collect();
                assert_eq!(seen, at(&**store, &prefix, revision).await, "seed {seed}");
            }
            assert!(event.revision > revision, "seed {seed}: events out of order");
            revision = event.revision;
            replay(&mut state, &event);
        }
    }
    let seen: Vec<Entry> = state.into_values().collect();
    assert_eq!(seen, at(&**store, &prefix, newest).await, "seed {seed}");
}

fn replay(state: &mut BTreeMap<Bytes, Entry>, event: &Event) {
    assert_eq!(state.get(&event.key), event.previous.as_ref(), "the previous value is wrong");
    match &event.current {
        Some(entry) => state.insert(event.key.clone(), entry.clone()),
        None => state.remove(&event.key),
    };
}

async fn at(store: &dyn Store, prefix: &Bytes, revision: Revision) -> Vec<Entry> {
    let range = Range { at: Some(revision), ..Range::prefix(prefix.clone()) };
    store.range(range).await.unwrap().entries
}

/// The newest revision at which the listing differs from the one before it: found by reading, so
/// that the watch is held to it.
async fn last_change(
    store: &dyn Store,
    prefix: &Bytes,
    before: Revision,
    newest: Revision,
) -> Revision {
    let mut last = before;
    let mut listing = at(store, prefix, before).await;
    for revision in before.0 + 1..=newest.0 {
        let next = at(store, prefix, Revision(revision)).await;
        if next != listing {
            last = Revision(revision);
            listing = next;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(began: u64, ended: u64, call: Call) -> Timed {
        Timed { key: 0, began, ended, call }
    }

    #[test]
    fn the_checker_accepts_what_overlap_explains() {
        let history = [
            timed(0, 5, Call::Create { outcome: Ok(Revision(2)) }),
            timed(1, 2, Call::Read { found: Some(Revision(2)) }),
            timed(1, 2, Call::Read { found: None }),
        ];
        assert!(is_linearizable(&history));
    }

    #[test]
    fn the_checker_rejects_a_stale_read() {
        let history = [
            timed(0, 1, Call::Create { outcome: Ok(Revision(2)) }),
            timed(2, 3, Call::Read { found: None }),
        ];
        assert!(!is_linearizable(&history));
    }

    #[test]
    fn the_checker_rejects_a_lost_update() {
        let expected = Revision(2);
        let history = [
            timed(0, 1, Call::Create { outcome: Ok(Revision(2)) }),
            timed(2, 5, Call::Update { expected, outcome: Ok(Revision(3)) }),
            timed(3, 6, Call::Update { expected, outcome: Ok(Revision(4)) }),
        ];
        assert!(!is_linearizable(&history));
    }
}
