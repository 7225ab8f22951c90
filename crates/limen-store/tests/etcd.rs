//! The conformance suite over a real etcd, one for each case.

mod conformance;

use std::sync::Arc;

use limen_store::{EtcdOptions, EtcdStore};
use limen_testbed::Etcd;
use tokio::sync::Semaphore;

/// More servers at a time would only wait for each other's disk.
static SERVERS: Semaphore = Semaphore::const_new(3);

macro_rules! over_etcd {
    ($($module:ident::$case:ident,)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let _turn = SERVERS.acquire().await.unwrap();
            let etcd = Etcd::start().await.unwrap();
            let endpoints = vec![etcd.endpoint().to_owned()];
            let options = EtcdOptions { endpoints, ..EtcdOptions::default() };
            let store = EtcdStore::connect(options).await.unwrap();
            conformance::$module::$case(Arc::new(store)).await;
        }
    )*};
}

cases!(over_etcd);
