//! Keys with a time to live.

use std::time::{Duration, Instant};

use limen_store::{Expect, Revision, Txn, WriteOp};

use super::{PATIENCE, Subject, events, value, watch};

fn put(key: &'static str, value: &'static str, ttl: Option<Duration>) -> Txn {
    Txn::one(key, Expect::Any, WriteOp::Put { value: value.into(), ttl })
}

pub(crate) async fn a_key_goes_when_its_time_has_come(store: Subject) {
    let ttl = Duration::from_secs(2);
    let mut watch = watch(&store, "", Revision::FIRST).await;
    let start = Instant::now();
    store.commit(put("stays", "1", None)).await.unwrap();
    store.commit(put("goes", "1", Some(ttl))).await.unwrap();
    let events = events(&mut watch, 3).await;
    assert!(start.elapsed() >= ttl, "it went after {:?}", start.elapsed());
    let last = &events[2];
    assert_eq!((&*last.key, &last.current), (&b"goes"[..], &None));
    assert_eq!(value(last.previous.as_ref()), Some("1"));
    assert_eq!(last.revision, store.revision().await.unwrap());
    assert_eq!(store.get(b"goes", None).await.unwrap(), None);
    assert!(store.get(b"stays", None).await.unwrap().is_some());
}

pub(crate) async fn writing_a_key_again_resets_its_time(store: Subject) {
    let ttl = Some(Duration::from_secs(2));
    for key in ["control", "kept", "prolonged", "replaced"] {
        store.commit(put(key, "1", ttl)).await.unwrap();
    }
    store.commit(put("kept", "2", None)).await.unwrap();
    store.commit(put("prolonged", "2", Some(Duration::from_secs(3600)))).await.unwrap();
    store.commit(Txn::delete("replaced", Expect::Any)).await.unwrap();
    store.commit(put("replaced", "2", None)).await.unwrap();

    let start = Instant::now();
    while store.get(b"control", None).await.unwrap().is_some() {
        assert!(start.elapsed() < PATIENCE, "a key outlived its time");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Whatever hung on the first writes has had its chance.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    for key in ["kept", "prolonged", "replaced"] {
        let entry = store.get(key.as_bytes(), None).await.unwrap();
        assert_eq!(value(entry.as_ref()), Some("2"), "{key}");
    }
}
