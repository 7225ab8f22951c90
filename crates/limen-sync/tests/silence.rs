//! A cluster that takes requests and does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use limen_sync::{ObjectApi, Seen, follow};
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
