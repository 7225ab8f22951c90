//! The conformance suite over the file store: with index rows that stay in memory, and with rows
//! that are folded into the file by every commit.

mod conformance;

use std::sync::Arc;

use limen_store::{RedbOptions, RedbStore};

macro_rules! over_redb {
    ($($module:ident::$case:ident,)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let folder = tempfile::tempdir().unwrap();
            // A window that many cases overflow, so that both ways of watching are tried.
            let options =
                RedbOptions { window_bytes: 10_000, delta_bytes: DELTA, ..RedbOptions::default() };
            let store = RedbStore::open(folder.path().join("store"), &options).unwrap();
            conformance::$module::$case(Arc::new(store)).await;
        }
    )*};
}

mod folded_late {
    use super::*;

    const DELTA: usize = 1 << 20;
    cases!(over_redb);
}

mod folded_at_once {
    use super::*;

    const DELTA: usize = 1;
    cases!(over_redb);
}
