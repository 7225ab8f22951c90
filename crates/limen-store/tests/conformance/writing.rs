//! Transactions: compare-and-swap, all or nothing, one revision.

use limen_store::{Entry, Expect, Revision, Txn, WriteOp};

use super::{Subject, all, conflict, key, value};

fn put(value: &'static str) -> WriteOp {
    WriteOp::Put { value: value.into(), ttl: None }
}

pub(crate) async fn a_new_store_is_empty_at_the_first_revision(store: Subject) {
    assert_eq!(store.revision().await.unwrap(), Revision::FIRST);
    assert_eq!(store.get(b"a", None).await.unwrap(), None);
    assert_eq!(all(&store, "").await, []);
}

pub(crate) async fn what_was_created_is_there(store: Subject) {
    let revision = store.commit(Txn::create("a", "1")).await.unwrap();
    assert_eq!(revision, Revision(2));
    assert_eq!(store.revision().await.unwrap(), revision);
    let expected =
        Entry { key: "a".into(), value: "1".into(), created: revision, modified: revision };
    assert_eq!(store.get(b"a", None).await.unwrap(), Some(expected));
}

pub(crate) async fn creating_twice_is_a_conflict_that_shows_what_is_there(store: Subject) {
    let created = store.commit(Txn::create("a", "1")).await.unwrap();
    let there = conflict(store.commit(Txn::create("a", "2")).await, "a").unwrap();
    assert_eq!((value(Some(&there)), there.modified), (Some("1"), created));
    assert_eq!(store.revision().await.unwrap(), created, "a conflict has no revision");
}

pub(crate) async fn an_update_needs_the_revision_that_it_is_based_on(store: Subject) {
    assert_eq!(conflict(store.commit(Txn::update("a", "1", Revision(2))).await, "a"), None);
    let created = store.commit(Txn::create("a", "1")).await.unwrap();
    let updated = store.commit(Txn::update("a", "2", created)).await.unwrap();
    assert!(updated > created);
    let there = conflict(store.commit(Txn::update("a", "3", created)).await, "a").unwrap();
    assert_eq!((value(Some(&there)), there.modified), (Some("2"), updated));
    assert_eq!(there.created, created);
}

pub(crate) async fn a_deletion_needs_the_revision_that_it_is_based_on(store: Subject) {
    let created = store.commit(Txn::create("a", "1")).await.unwrap();
    let updated = store.commit(Txn::update("a", "2", created)).await.unwrap();
    let stale = store.commit(Txn::delete("a", Expect::Modified(created))).await;
    assert_eq!(conflict(stale, "a").unwrap().modified, updated);
    let deleted = store.commit(Txn::delete("a", Expect::Modified(updated))).await.unwrap();
    assert_eq!(store.revision().await.unwrap(), deleted);
    assert_eq!(store.get(b"a", None).await.unwrap(), None);
    let again = store.commit(Txn::delete("a", Expect::Modified(updated))).await;
    assert_eq!(conflict(again, "a"), None);
}

pub(crate) async fn a_key_that_comes_back_was_created_anew(store: Subject) {
    let first = store.commit(Txn::create("a", "1")).await.unwrap();
    store.commit(Txn::delete("a", Expect::Any)).await.unwrap();
    let second = store.commit(Txn::create("a", "2")).await.unwrap();
    let entry = store.get(b"a", None).await.unwrap().unwrap();
    assert!(second > first);
    assert_eq!((entry.created, entry.modified), (second, second));
}

pub(crate) async fn a_transaction_has_one_revision(store: Subject) {
    store.commit(Txn::create("gone", "0")).await.unwrap();
    let txn = Txn::create("a", "1").and("b", Expect::Absent, put("2")).and(
        "gone",
        Expect::Any,
        WriteOp::Delete,
    );
    let revision = store.commit(txn).await.unwrap();
    assert_eq!(revision, Revision(3));
    let entries = all(&store, "").await;
    assert_eq!(entries.iter().map(key).collect::<Vec<_>>(), ["a", "b"]);
    assert!(entries.iter().all(|entry| entry.modified == revision));
}

pub(crate) async fn a_transaction_happens_whole_or_not_at_all(store: Subject) {
    let before = store.commit(Txn::create("b", "0")).await.unwrap();
    let txn = Txn::create("a", "1").and("b", Expect::Absent, put("2")).and(
        "c",
        Expect::Modified(Revision(1)),
        put("3"),
    );
    let there = conflict(store.commit(txn).await, "b").unwrap();
    assert_eq!(value(Some(&there)), Some("0"));
    assert_eq!(store.revision().await.unwrap(), before);
    assert_eq!(all(&store, "").await.len(), 1);
}

pub(crate) async fn a_check_guards_without_changing(store: Subject) {
    let namespace = store.commit(Txn::create("namespace", "active")).await.unwrap();
    let guarded = |object: &'static str| {
        Txn::create(object, "x").and("namespace", Expect::Modified(namespace), WriteOp::Check)
    };
    store.commit(guarded("first")).await.unwrap();
    let entry = store.get(b"namespace", None).await.unwrap().unwrap();
    assert_eq!(entry.modified, namespace, "a check leaves its key as it was");
    store.commit(Txn::put("namespace", "terminating")).await.unwrap();
    conflict(store.commit(guarded("second")).await, "namespace");
    assert_eq!(store.get(b"second", None).await.unwrap(), None);
}

pub(crate) async fn what_changes_nothing_has_no_revision_of_its_own(store: Subject) {
    let newest = store.commit(Txn::create("a", "1")).await.unwrap();
    let absent = Txn::delete("b", Expect::Any);
    assert_eq!(store.commit(absent).await.unwrap(), newest);
    let check = Txn::one("a", Expect::Modified(newest), WriteOp::Check);
    assert_eq!(store.commit(check).await.unwrap(), newest);
    assert_eq!(store.commit(Txn::default()).await.unwrap(), newest);
    let same_value = store.commit(Txn::put("a", "1")).await.unwrap();
    assert!(same_value > newest, "writing the same value is a change");
}

pub(crate) async fn of_many_concurrent_updates_each_counts_once(store: Subject) {
    const CLIENTS: usize = 8;
    const INCREMENTS: usize = 10;
    store.commit(Txn::create("counter", "0")).await.unwrap();
    let clients = (0..CLIENTS).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..INCREMENTS {
                let mut entry = store.get(b"counter", None).await.unwrap().unwrap();
                loop {
                    let count: usize = value(Some(&entry)).unwrap().parse().unwrap();
                    let next = (count + 1).to_string();
                    match store.commit(Txn::update("counter", next, entry.modified)).await {
                        Ok(_) => break,
                        refused => entry = conflict(refused, "counter").unwrap(),
                    }
                }
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    let entry = store.get(b"counter", None).await.unwrap();
    assert_eq!(value(entry.as_ref()), Some((CLIENTS * INCREMENTS).to_string().as_str()));
}
