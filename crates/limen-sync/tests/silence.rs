//! A cluster that takes requests and does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use limen_sync::{ObjectApi, Seen, Syncer, SyncerOptions, What, follow};
use tokio::sync::mpsc;

/// How long anything may take: far longer than it does, since machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_list_or_a_watch_that_is_never_answered_is_given_up_and_tried_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let nth = count.fetch_add(1, Ordering::SeqCst);
        async move {
            let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            // The first list and the first watch are never answered, and what comes then is.
            let answer = match (nth, watch) {
                (0, _) | (2, _) => return std::future::pending().await,
                (_, false) => r#"{"metadata": {"resourceVersion": "5"}, "items": []}"#,
                (_, true) => {
                    r#"{"type": "DELETED", "object": {"metadata": {"resourceVersion": "6"}}}"#
                }
            };
            Ok::<_, std::io::Error>(Response::new(Body::from(answer.as_bytes().to_vec())))
        }
    });
    let api = ObjectApi::new(kube::Client::new(service, "default"));
    let api = api.with_patience(Duration::from_millis(200));
    let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
    let (tell, mut seen) = mpsc::channel(8);
    let following = tokio::spawn(follow(api, kind, String::new(), tell));
    let mut next = async || {
        let next = tokio::time::timeout(PATIENCE, seen.recv()).await;
        next.expect("nothing happens any more").expect("somebody follows").1
    };
    assert!(matches!(next().await, Seen::Lost(_)), "the list");
    assert!(matches!(next().await, Seen::State(_)));
    assert!(matches!(next().await, Seen::Lost(_)), "the watch");
    assert!(matches!(next().await, Seen::Gone(_)));
    following.abort();
}

#[tokio::test]
async fn a_member_that_is_well_and_did_not_say_what_it_is_is_asked_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let service = tower::service_fn(move |request: Request<Body>| {
        let asked = asked.clone();
        async move {
            if request.uri().path() == "/version" && asked.fetch_add(1, Ordering::SeqCst) < 3 {
                return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
            }
            Ok(Response::new(Body::from(br#"{"gitVersion": "v1.2.3"}"#.to_vec())))
        }
    });
    let options = SyncerOptions {
        cluster: "asia-1".into(),
        hub: "hub".to_owned(),
        kinds: Vec::new(),
        probe_every: Duration::from_millis(20),
        concurrency: 4,
    };
    let (tell, mut notices) = mpsc::unbounded_channel();
    let api = ObjectApi::new(kube::Client::new(service, "default"));
    let _syncer = Syncer::start(api, options, tell);
    let described = async {
        loop {
            if let What::Described(found) = notices.recv().await.expect("somebody speaks").what {
                return found.version;
            }
        }
    };
    let version = tokio::time::timeout(PATIENCE, described).await.expect("it is asked once only");
    assert_eq!(version, "v1.2.3");
}
