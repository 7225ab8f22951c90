//! A cluster that can be listed and whose watches come to nothing.

use std::time::{Duration, Instant};

use http::{Request, Response};
use kube::client::Body;
use limen_sync::{ObjectApi, follow};
use tokio::sync::mpsc;

/// How long anything may take: far longer than it does, since machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much time passes between the first watches, of which every one gets this answer.
async fn gaps((code, answer): (u16, &'static str)) -> Vec<Duration> {
    let (watched, mut watches) = mpsc::unbounded_channel();
    let service = tower::service_fn(move |request: Request<Body>| {
        let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let (code, answer) = match watch {
            true => (code, answer),
            false => (200, r#"{"metadata": {"resourceVersion": "5"}, "items": []}"#),
        };
        if watch {
            let _ = watched.send(Instant::now());
        }
        let body = Body::from(answer.as_bytes().to_vec());
        let response = Response::builder().status(code).body(body).unwrap();
        async move { Ok::<_, std::io::Error>(response) }
    });
    let api = ObjectApi::new(kube::Client::new(service, "default"));
    let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
    let (tell, mut seen) = mpsc::channel(8);
    let following = tokio::spawn(follow(api, kind, String::new(), tell));
    let listening = tokio::spawn(async move { while seen.recv().await.is_some() {} });
    let mut times = Vec::new();
    while times.len() < 4 {
        let next = tokio::time::timeout(PATIENCE, watches.recv()).await;
        times.push(next.expect("nobody watches any more").expect("somebody follows"));
    }
    following.abort();
    listening.abort();
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[tokio::test]
async fn a_watch_that_comes_to_nothing_is_tried_again_less_and_less_often() {
    let gone = r#"{"kind": "Status", "code": 410, "reason": "Expired"}"#;
    let ended = r#"{"type": "ERROR", "object": {"kind": "Status", "code": 410}}"#;
    let same = r#"{"type": "DELETED", "object": {"metadata": {"resourceVersion": "5"}}}"#;
    let all = [(404, "404 page not found\n"), (410, gone), (200, ended), (200, ""), (200, same)];
    for (answer, gaps) in all.into_iter().zip(futures::future::join_all(all.map(gaps)).await) {
        for (gap, least) in gaps.iter().zip([200, 400, 800]) {
            assert!(*gap >= Duration::from_millis(least), "{answer:?}: {gaps:?}");
        }
    }
}
