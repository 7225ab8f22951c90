//! The conformance suite over the file store.

mod conformance;

use std::sync::Arc;

use limen_store::{RedbOptions, RedbStore};

macro_rules! over_redb {
    ($($module:ident::$case:ident,)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let folder = tempfile::tempdir().unwrap();
            // A window that many cases overflow, so that both ways of watching are tried.
            let options = RedbOptions { window_bytes: 10_000, ..RedbOptions::default() };
            let store = RedbStore::open(folder.path().join("store"), &options).unwrap();
            conformance::$module::$case(Arc::new(store)).await;
        }
    )*};
}

cases!(over_redb);
