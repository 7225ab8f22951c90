//! etcd stopped, killed and started again under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use limen_store::{Error, EtcdOptions, EtcdStore, EtcdTls, Range, Revision, Store, Txn, WatchFrom};
use limen_testbed::Etcd;

const PATIENCE: Duration = Duration::from_secs(60);

async fn connect(etcd: &Etcd) -> Arc<EtcdStore> {
    let tls = etcd.client_tls().map(|tls| EtcdTls {
        ca_pem: tls.ca_pem.clone().into(),
        client_pem: Some((tls.cert_pem.clone().into(), tls.key_pem.clone().into())),
        domain: None,
    });
    let options = EtcdOptions {
        endpoints: vec![etcd.endpoint().to_owned()],
        tls,
        call_timeout: Duration::from_secs(5),
        ..EtcdOptions::default()
    };
    Arc::new(EtcdStore::connect(options).await.unwrap())
}

/// Writes numbers until told to stop. Returns which were acknowledged, with their revisions.
async fn write_until(store: Arc<EtcdStore>, stop: Arc<AtomicBool>) -> Vec<(u64, Revision)> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        match store.commit(Txn::create(format!("n/{number:06}"), "x")).await {
            Ok(revision) => acknowledged.push((number, revision)),
            Err(Error::Unavailable(_) | Error::Unknown(_)) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_resume_without_loss_when_etcd_comes_back() {
    let mut etcd = Etcd::builder().tls().start().await.unwrap();
    let store = connect(&etcd).await;
    let after = store.revision().await.unwrap();
    let from = WatchFrom { prefix: "n/".into(), after, progress: None };
    let mut watch = store.watch(from).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(write_until(store.clone(), stop.clone()));

    for round in 0..3 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        if round % 2 == 0 {
            etcd.kill().await.unwrap();
        } else {
            etcd.stop().await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(400)).await;
        etcd.restart().await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(400)).await;
    stop.store(true, Ordering::SeqCst);
    let acknowledged = tokio::time::timeout(PATIENCE, writer).await.unwrap().unwrap();
    assert!(acknowledged.len() > 10, "only {} writes went through", acknowledged.len());

    let page = store.range(Range::prefix("n/")).await.unwrap();
    for (number, revision) in &acknowledged {
        let key = format!("n/{number:06}");
        let entry = page.entries.iter().find(|entry| entry.key == key);
        assert_eq!(entry.map(|entry| entry.created), Some(*revision), "{key} was acknowledged");
    }
    let mut seen = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while seen.len() < page.entries.len() {
        assert!(Instant::now() < deadline, "{} of {} events", seen.len(), page.entries.len());
        let batch = tokio::time::timeout(PATIENCE, watch.next()).await.unwrap().unwrap().unwrap();
        seen.extend(batch.events.iter().map(|event| event.revision));
    }
    let mut expected: Vec<Revision> = page.entries.iter().map(|entry| entry.created).collect();
    expected.sort_unstable();
    assert_eq!(seen, expected, "every event once and in order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_fail_in_bounded_time_while_etcd_is_away() {
    let mut etcd = Etcd::start().await.unwrap();
    let store = connect(&etcd).await;
    store.commit(Txn::create("a", "1")).await.unwrap();
    etcd.kill().await.unwrap();
    let start = Instant::now();
    let read = store.get(b"a", None).await.unwrap_err();
    assert!(matches!(read, Error::Unavailable(_)), "{read}");
    let write = store.commit(Txn::create("b", "1")).await.unwrap_err();
    assert!(matches!(write, Error::Unavailable(_) | Error::Unknown(_)), "{write}");
    assert!(start.elapsed() < PATIENCE, "calls end by themselves");
    etcd.restart().await.unwrap();
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = store.get(b"a", None).await {
        assert!(Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_endpoint_among_several_goes_unnoticed() {
    let etcd = Etcd::start().await.unwrap();
    let mut dead = Etcd::start().await.unwrap();
    dead.kill().await.unwrap();
    let options = EtcdOptions {
        endpoints: vec![dead.endpoint().to_owned(), etcd.endpoint().to_owned()],
        ..EtcdOptions::default()
    };
    let store = EtcdStore::connect(options).await.unwrap();
    for n in 0..50 {
        store.commit(Txn::create(format!("key/{n}"), "x")).await.unwrap();
        assert!(store.get(format!("key/{n}").as_bytes(), None).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_told_why_they_cannot_connect() {
    let etcd = Etcd::builder().tls().start().await.unwrap();
    let endpoints = vec![etcd.endpoint().to_owned()];
    let tls = etcd.client_tls().unwrap();
    let without_certificate =
        EtcdTls { ca_pem: tls.ca_pem.clone().into(), client_pem: None, domain: None };
    for tls in [None, Some(without_certificate)] {
        let options = EtcdOptions { endpoints: endpoints.clone(), tls, ..EtcdOptions::default() };
        let error = EtcdStore::connect(options).await.err().expect("etcd wants a certificate");
        assert!(error.to_string().contains(etcd.endpoint()), "{error}");
    }
}
