//! What may and may not be in a transaction.

use bytes::Bytes;
use limen_store::{Error, Expect, MAX_TXN_BYTES, Range, Txn, WriteOp};

use super::{Subject, all};

pub(crate) async fn keys_and_values_are_any_bytes(store: Subject) {
    let keys: [&'static [u8]; 6] =
        [b"\0", b"a\0", b"a\0\0b", b"a\xff", b"\xff\xff", b"\xff\xff\xff"];
    for key in keys {
        store.commit(Txn::create(key, Bytes::from_static(b"\0\xff"))).await.unwrap();
    }
    store.commit(Txn::create("empty", "")).await.unwrap();

    let under = async |prefix: &'static [u8]| -> Vec<Bytes> {
        let page = store.range(Range::prefix(prefix)).await.unwrap();
        page.entries.into_iter().map(|entry| entry.key).collect()
    };
    assert_eq!(under(b"a\0").await, ["a\0", "a\0\0b"]);
    assert_eq!(under(b"\xff\xff").await, [&b"\xff\xff"[..], b"\xff\xff\xff"]);
    assert_eq!(under(b"").await.len(), 7);
    let entry = store.get(b"a\xff", None).await.unwrap().unwrap();
    assert_eq!(entry.value, &b"\0\xff"[..]);
    assert_eq!(store.get(b"empty", None).await.unwrap().unwrap().value, "");
}

pub(crate) async fn senseless_transactions_are_refused(store: Subject) {
    let twice = Txn::create("a", "1").and("a", Expect::Any, WriteOp::Delete);
    let error = store.commit(twice).await.unwrap_err();
    assert!(matches!(&error, Error::InvalidTxn(_)) && error.to_string().contains('a'), "{error}");
    let error = store.commit(Txn::create("", "1")).await.unwrap_err();
    assert!(matches!(error, Error::InvalidTxn(_)), "{error}");
    let large = vec![0; MAX_TXN_BYTES];
    let error = store.commit(Txn::create("a", large)).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: MAX_TXN_BYTES, .. }), "{error}");
    assert_eq!(all(&store, "").await, []);
}

pub(crate) async fn a_transaction_may_be_as_large_as_the_limit(store: Subject) {
    // etcd counts the bytes of the whole request, so leave room for its framing.
    let value = vec![7; MAX_TXN_BYTES - 4096];
    for n in 0..4 {
        store.commit(Txn::create(format!("large/{n}"), value.clone())).await.unwrap();
    }
    let entries = all(&store, "large/").await;
    assert_eq!(entries.len(), 4);
    assert!(entries.iter().all(|entry| entry.value == value));
}
