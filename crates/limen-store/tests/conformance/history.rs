//! Compaction.

use std::time::Duration;

use limen_store::{Error, Expect, Range, Revision, Txn, WatchFrom};

use super::{Subject, all, events, next, value, watch};

#[track_caller]
fn assert_compacted<T>(result: Result<T, Error>, requested: Revision, oldest: Revision) {
    match result {
        Err(Error::Compacted { requested: asked, oldest: kept }) => {
            assert_eq!((asked, kept), (requested, oldest));
        }
        Err(error) => panic!("expected a compaction error, not: {error}"),
        Ok(_) => panic!("revision {requested} can still be used"),
    }
}

pub(crate) async fn compaction_forgets_only_what_was_superseded(store: Subject) {
    store.commit(Txn::create("stays", "1")).await.unwrap();
    store.commit(Txn::create("changes", "1")).await.unwrap();
    store.commit(Txn::create("goes", "1")).await.unwrap();
    store.commit(Txn::put("changes", "2")).await.unwrap();
    let boundary = store.commit(Txn::delete("goes", Expect::Any)).await.unwrap();
    let after = store.commit(Txn::put("changes", "3")).await.unwrap();
    store.compact(boundary).await.unwrap();

    let below = Revision(boundary.0 - 1);
    assert_compacted(store.get(b"changes", Some(below)).await, below, boundary);
    let range = Range { at: Some(below), ..Range::default() };
    assert_compacted(store.range(range).await, below, boundary);
    for (at, changes) in [(boundary, "2"), (after, "3")] {
        let entry = store.get(b"changes", Some(at)).await.unwrap();
        assert_eq!(value(entry.as_ref()), Some(changes));
        assert_eq!(value(store.get(b"stays", Some(at)).await.unwrap().as_ref()), Some("1"));
        assert_eq!(store.get(b"goes", Some(at)).await.unwrap(), None);
    }
    let created = store.get(b"changes", None).await.unwrap().unwrap().created;
    assert_eq!(created, Revision(3));
}

pub(crate) async fn compaction_can_be_repeated_but_not_foreseen(store: Subject) {
    for n in 0..5 {
        store.commit(Txn::put("a", n.to_string())).await.unwrap();
    }
    let newest = store.revision().await.unwrap();
    let future = Revision(newest.0 + 1);
    let error = store.compact(future).await.unwrap_err();
    assert!(
        matches!(error, Error::FutureRevision { requested, newest: known } if requested == future && known == newest),
        "{error}"
    );
    store.compact(newest).await.unwrap();
    store.compact(newest).await.unwrap();
    store.compact(Revision(2)).await.unwrap();
    assert_eq!(value(store.get(b"a", None).await.unwrap().as_ref()), Some("4"));
}

pub(crate) async fn compacted_revisions_cannot_be_watched(store: Subject) {
    for n in 0..5 {
        store.commit(Txn::put("a", n.to_string())).await.unwrap();
    }
    let boundary = Revision(4);
    store.compact(boundary).await.unwrap();
    let below = Revision(3);
    let from = WatchFrom { prefix: "a".into(), after: below, progress: None };
    assert_compacted(store.watch(from).await, below, boundary);

    let mut watch = watch(&store, "a", boundary).await;
    let events = events(&mut watch, 2).await;
    assert_eq!(value(events[0].previous.as_ref()), Some("2"));
    assert_eq!(value(events[0].current.as_ref()), Some("3"));
}

pub(crate) async fn compaction_leaves_running_watches_alone(store: Subject) {
    let mut watch = watch(&store, "", Revision::FIRST).await;
    for n in 0..10 {
        let revision = store.commit(Txn::put("a", n.to_string())).await.unwrap();
        assert_eq!(next(&mut watch).await.unwrap().revision, revision);
        store.compact(revision).await.unwrap();
    }
    store.commit(Txn::delete("a", Expect::Any)).await.unwrap();
    let last = events(&mut watch, 1).await;
    assert_eq!(value(last[0].previous.as_ref()), Some("9"));
}

pub(crate) async fn much_history_is_cleaned_away(store: Subject) {
    // More than is cleaned in one go, so that a listing meets every stage of it.
    for n in 0..600 {
        store.commit(Txn::put(format!("hot/{}", n % 3), n.to_string())).await.unwrap();
        if n % 2 == 0 {
            store.commit(Txn::put("flicker", "x")).await.unwrap();
            store.commit(Txn::delete("flicker", Expect::Any)).await.unwrap();
        }
    }
    let newest = store.revision().await.unwrap();
    store.compact(newest).await.unwrap();
    for _ in 0..20 {
        let entries = all(&store, "").await;
        let values: Vec<_> = entries.iter().map(|entry| value(Some(entry)).unwrap()).collect();
        assert_eq!(values, ["597", "598", "599"]);
        store.commit(Txn::put("tick", "x")).await.unwrap();
        store.commit(Txn::delete("tick", Expect::Any)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
