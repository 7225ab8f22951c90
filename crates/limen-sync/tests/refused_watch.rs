//! A member that answers probes and lists and refuses watches.

use std::time::{Duration, Instant};

use http::{Request, Response};
use kube::client::Body;
use limen_sync::{Fence, MemberNews, ObjectApi, Syncer, SyncerOptions};
use tokio::sync::mpsc;

/// How long anything may take: far longer than it does, since machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_refused_watch_is_tried_less_and_less_often_and_the_member_stays_the_same() {
    let (watched, mut watches) = mpsc::unbounded_channel();
    let service = tower::service_fn(move |request: Request<Body>| {
        let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let (code, answer) = match watch {
            true => (403, r#"{"kind": "Status", "code": 403, "reason": "Forbidden"}"#),
            false => (200, r#"{"metadata": {"resourceVersion": "5"}, "items": []}"#),
        };
        if watch {
            let _ = watched.send(Instant::now());
        }
        let body = Body::from(answer.as_bytes().to_vec());
        let response = Response::builder().status(code).body(body).unwrap();
        async move { Ok::<_, std::io::Error>(response) }
    });
    let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
    let options = SyncerOptions {
        cluster: "asia-1".into(),
        connection: 1,
        hub: "hub".to_owned(),
        kinds: Vec::new(),
        probe_every: Duration::from_millis(50),
        beat_from: tokio::time::Instant::now(),
        concurrency: 4,
        fence: Fence::open(),
    };
    let (tell, mut events) = mpsc::unbounded_channel();
    let api = ObjectApi::new(kube::Client::new(service, "default"));
    let syncer = Syncer::start(api, options, tell);
    syncer.watch(kind);
    let mut times = Vec::new();
    while times.len() < 4 {
        let next = tokio::time::timeout(PATIENCE, watches.recv()).await;
        times.push(next.expect("the kind is not watched").expect("the member runs"));
    }
    let gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (gap, least) in gaps.iter().zip([200, 400, 800]) {
        assert!(*gap >= Duration::from_millis(least), "{gaps:?}");
    }
    let told: Vec<MemberNews> =
        std::iter::from_fn(|| events.try_recv().ok()).map(|event| event.what).collect();
    let count = |pick: fn(&MemberNews) -> bool| told.iter().filter(|what| pick(what)).count();
    assert_eq!(count(|what| matches!(what, MemberNews::Described(_))), 1, "{told:?}");
    assert_eq!(count(|what| matches!(what, MemberNews::Lost(..))), 1, "{told:?}");
    assert_eq!(count(|what| matches!(what, MemberNews::Listed(_))), 1, "{told:?}");
}
