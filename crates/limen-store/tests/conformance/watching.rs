//! Watches: in order, nothing skipped, nothing twice.

use std::sync::Arc;
use std::time::Duration;

use limen_store::{Event, Expect, Revision, Txn, WatchFrom, WriteOp};

use super::{Subject, events, next, value, watch};

fn shape(event: &Event) -> (Option<&str>, Option<&str>) {
    (value(event.previous.as_ref()), value(event.current.as_ref()))
}

pub(crate) async fn a_watch_tells_what_changed_and_what_was_before(store: Subject) {
    let mut watch = watch(&store, "", Revision::FIRST).await;
    let created = store.commit(Txn::create("a", "1")).await.unwrap();
    let updated = store.commit(Txn::update("a", "2", created)).await.unwrap();
    let deleted = store.commit(Txn::delete("a", Expect::Any)).await.unwrap();
    let recreated = store.commit(Txn::create("a", "3")).await.unwrap();

    let events = events(&mut watch, 4).await;
    assert!(events.iter().all(|event| event.key == "a"));
    let shapes: Vec<_> = events.iter().map(|event| (event.revision, shape(event))).collect();
    assert_eq!(
        shapes,
        [
            (created, (None, Some("1"))),
            (updated, (Some("1"), Some("2"))),
            (deleted, (Some("2"), None)),
            (recreated, (None, Some("3"))),
        ]
    );
    let current = events[1].current.as_ref().unwrap();
    assert_eq!((current.created, current.modified), (created, updated));
    let previous = events[2].previous.as_ref().unwrap();
    assert_eq!((previous.created, previous.modified), (created, updated));
}

pub(crate) async fn a_watch_goes_from_the_past_into_the_present(store: Subject) {
    for n in 0..20 {
        store.commit(Txn::put("a", n.to_string())).await.unwrap();
    }
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for n in 20..200 {
                store.commit(Txn::put("a", n.to_string())).await.unwrap();
            }
        }
    });
    let mut watch = watch(&store, "a", Revision(11)).await;
    let events = events(&mut watch, 190).await;
    writer.await.unwrap();
    let values: Vec<usize> =
        events.iter().map(|event| shape(event).1.unwrap().parse().unwrap()).collect();
    assert_eq!(values, (10..200).collect::<Vec<_>>());
}

pub(crate) async fn the_events_of_a_transaction_come_together(store: Subject) {
    let mut live = watch(&store, "t/", Revision::FIRST).await;
    for n in 0..5 {
        let mut txn = Txn::default();
        for key in 0..100 {
            let value = format!("{n}").into();
            txn = txn.and(format!("t/{key:03}"), Expect::Any, WriteOp::Put { value, ttl: None });
        }
        store.commit(txn).await.unwrap();
    }
    let mut replay = watch(&store, "t/", Revision::FIRST).await;
    for watch in [&mut live, &mut replay] {
        let mut revision = Revision::FIRST;
        while revision < Revision(6) {
            let batch = next(watch).await.unwrap();
            assert_eq!(batch.events.len() % 100, 0, "a transaction is split");
            for events in batch.events.chunks(100) {
                revision = Revision(revision.0 + 1);
                assert!(events.iter().all(|event| event.revision == revision));
                assert!(events.is_sorted_by_key(|event| event.key.clone()), "in txn order");
            }
            assert_eq!(batch.revision, revision);
        }
    }
}

pub(crate) async fn a_watch_keeps_to_its_prefix(store: Subject) {
    let mut watch = watch(&store, "b/", Revision::FIRST).await;
    for key in ["a/1", "b/1", "b", "b0", "c/1", "b/2"] {
        store.commit(Txn::create(key, key)).await.unwrap();
    }
    let events = events(&mut watch, 2).await;
    assert_eq!(events.iter().map(|event| event.key.clone()).collect::<Vec<_>>(), ["b/1", "b/2"]);
}

pub(crate) async fn a_watch_from_the_future_waits_for_it(store: Subject) {
    let mut watch = watch(&store, "", Revision(4)).await;
    for n in 0..5 {
        store.commit(Txn::put("a", n.to_string())).await.unwrap();
    }
    let events = events(&mut watch, 2).await;
    assert_eq!(events.iter().map(|event| event.revision.0).collect::<Vec<_>>(), [5, 6]);
}

pub(crate) async fn a_quiet_watch_says_how_far_it_has_come(store: Subject) {
    let from = WatchFrom {
        prefix: "quiet/".into(),
        after: Revision::FIRST,
        progress: Some(Duration::from_millis(100)),
    };
    let mut watch = store.watch(from).await.unwrap();
    store.commit(Txn::create("elsewhere", "1")).await.unwrap();
    let newest = store.commit(Txn::create("elsewhere/too", "1")).await.unwrap();
    let mut last = Revision::default();
    while last < newest {
        let batch = next(&mut watch).await.unwrap();
        assert!(batch.events.is_empty());
        assert!(batch.revision >= last);
        last = batch.revision;
    }
    let revision = store.commit(Txn::create("quiet/1", "1")).await.unwrap();
    loop {
        let batch = next(&mut watch).await.unwrap();
        if !batch.events.is_empty() {
            assert_eq!(batch.revision, revision);
            break;
        }
    }
}

pub(crate) async fn a_slow_watch_misses_nothing(store: Subject) {
    // Much more than any buffer on the way holds.
    const EVENTS: usize = 3000;
    let mut slow = watch(&store, "a", Revision::FIRST).await;
    let writers = (0..10).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..EVENTS / 10 {
                store.commit(Txn::put(format!("a/{writer}"), vec![1; 10_000])).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let events = events(&mut slow, EVENTS).await;
    let revisions: Vec<u64> = events.iter().map(|event| event.revision.0).collect();
    assert_eq!(revisions, (2..EVENTS as u64 + 2).collect::<Vec<_>>());
}

pub(crate) async fn many_watches_see_the_same_order(store: Subject) {
    const EVENTS: usize = 200;
    let mut watches = Vec::new();
    for _ in 0..20 {
        watches.push(watch(&store, "", Revision::FIRST).await);
    }
    let followers: Vec<_> = watches
        .into_iter()
        .map(|mut watch| tokio::spawn(async move { events(&mut watch, EVENTS).await }))
        .collect();
    let writers = (0..4).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..EVENTS / 4 {
                store.commit(Txn::put(format!("{}", (writer + n) % 7), "x")).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let mut first: Option<Vec<Arc<Event>>> = None;
    for follower in followers {
        let events = follower.await.unwrap();
        assert!(events.is_sorted_by_key(|event| event.revision));
        assert_eq!(first.get_or_insert_with(|| events.clone()), &events);
    }
}
