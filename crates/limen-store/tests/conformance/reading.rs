//! Ranges, pages, and reading the past.

use limen_store::{Error, Expect, Page, Range, Revision, Txn};

use super::{Subject, all, key, value};

fn keys(page: &Page) -> Vec<&str> {
    page.entries.iter().map(key).collect()
}

pub(crate) async fn a_range_is_ordered_and_keeps_to_its_prefix(store: Subject) {
    for key in ["b/2", "a/1", "b/10", "b", "b/1", "c", "b0"] {
        store.commit(Txn::create(key, key)).await.unwrap();
    }
    let page = store.range(Range::prefix("b/")).await.unwrap();
    assert_eq!(keys(&page), ["b/1", "b/10", "b/2"]);
    assert_eq!((page.revision, page.more), (Revision(8), false));
    assert_eq!(keys(&store.range(Range::prefix("nothing")).await.unwrap()), [""; 0]);
}

pub(crate) async fn pages_make_up_the_whole(store: Subject) {
    let names: Vec<String> = (0..25).map(|n| format!("list/{n:02}")).collect();
    for name in &names {
        store.commit(Txn::create(name.clone(), "x")).await.unwrap();
    }
    store.commit(Txn::delete("list/07", Expect::Any)).await.unwrap();
    store.commit(Txn::create("other", "x")).await.unwrap();

    for limit in [1, 5, 8, 24, 25] {
        let mut found = Vec::new();
        let mut range = Range { limit: Some(limit), ..Range::prefix("list/") };
        loop {
            let page = store.range(range.clone()).await.unwrap();
            assert!(page.entries.len() <= limit);
            range.after = page.entries.last().map(|entry| entry.key.clone());
            range.at = Some(page.revision);
            let more = page.more;
            assert!(!more || page.entries.len() == limit);
            found.extend(page.entries);
            if !more {
                break;
            }
        }
        assert_eq!(found, all(&store, "list/").await, "with pages of {limit}");
    }
}

pub(crate) async fn a_listing_at_a_revision_does_not_see_later_writes(store: Subject) {
    for n in 0..10 {
        store.commit(Txn::create(format!("list/{n}"), "old")).await.unwrap();
    }
    let first = Range { limit: Some(4), ..Range::prefix("list/") };
    let first = store.range(first).await.unwrap();
    store.commit(Txn::delete("list/5", Expect::Any)).await.unwrap();
    store.commit(Txn::put("list/6", "new")).await.unwrap();
    store.commit(Txn::create("list/55", "new")).await.unwrap();
    store.commit(Txn::delete("list/6", Expect::Any)).await.unwrap();

    let rest = Range {
        after: first.entries.last().map(|entry| entry.key.clone()),
        at: Some(first.revision),
        ..Range::prefix("list/")
    };
    let rest = store.range(rest).await.unwrap();
    assert_eq!(rest.revision, first.revision);
    assert_eq!(keys(&rest), ["list/4", "list/5", "list/6", "list/7", "list/8", "list/9"]);
    assert!(rest.entries.iter().all(|entry| value(Some(entry)) == Some("old")));
    let now = store.range(Range::prefix("list/5")).await.unwrap();
    assert_eq!(keys(&now), ["list/55"]);
}

pub(crate) async fn old_versions_can_be_read(store: Subject) {
    let before = store.revision().await.unwrap();
    let created = store.commit(Txn::create("a", "1")).await.unwrap();
    let updated = store.commit(Txn::put("a", "2")).await.unwrap();
    let deleted = store.commit(Txn::delete("a", Expect::Any)).await.unwrap();
    let recreated = store.commit(Txn::create("a", "3")).await.unwrap();
    let expected = [
        (before, None),
        (created, Some("1")),
        (updated, Some("2")),
        (deleted, None),
        (recreated, Some("3")),
    ];
    for (revision, expected) in expected {
        let entry = store.get(b"a", Some(revision)).await.unwrap();
        assert_eq!(value(entry.as_ref()), expected, "at {revision}");
        let page = store.range(Range { at: Some(revision), ..Range::default() }).await.unwrap();
        assert_eq!(value(page.entries.first()), expected, "at {revision}");
        assert_eq!(page.revision, revision);
    }
}

pub(crate) async fn the_future_cannot_be_read(store: Subject) {
    let newest = store.commit(Txn::create("a", "1")).await.unwrap();
    let requested = Revision(newest.0 + 1);
    let errors = [
        store.get(b"a", Some(requested)).await.unwrap_err(),
        store.range(Range { at: Some(requested), ..Range::default() }).await.unwrap_err(),
    ];
    for error in errors {
        let Error::FutureRevision { requested: asked, newest: known } = error else {
            panic!("{error}")
        };
        assert_eq!((asked, known), (requested, newest));
    }
}
