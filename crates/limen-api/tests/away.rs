//! A hub that is away, as an edge that follows it sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use limen_api::source::{Hub, News, OwnEdge, Source};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

#[tokio::test]
async fn a_hub_that_is_away_is_complained_about_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    // Somebody is there, and hangs up on whoever asks.
    let hanging_up = tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let client = kube::Client::try_from(config).unwrap();
    let (publish, mut news) = mpsc::channel(16);
    let (_own, reports) = watch::channel(OwnEdge::default());
    let running = tokio::spawn(Box::new(Hub::for_gateway(client, None)).run(publish, reports));
    let (start, mut complaints) = (Instant::now(), Vec::new());
    // Three watches: routes, certificates and other edges.
    while tries.load(Ordering::Relaxed) < 15 {
        match tokio::time::timeout(Duration::from_millis(100), news.recv()).await {
            Ok(Some(News::Trouble(text))) => complaints.push(text),
            Ok(Some(_)) => panic!("nothing else can be known"),
            Ok(None) => panic!("it has given up"),
            Err(_) => {}
        }
    }
    // A machine that is very slow has time for another.
    let most = 1 + start.elapsed().as_secs() / 15;
    assert!((1..=most).contains(&(complaints.len() as u64)), "{complaints:#?}");
    running.abort();
    hanging_up.abort();
}
