//! A cluster that takes requests and does not answer, or has nothing to tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use limen_core::federated::{ObjectId, OnConflict};
use limen_core::leaf::Leaf;
use limen_sync::{
    Description, Desired, DesiredLeaf, Fence, MemberEvent, MemberNews, ObjectApi, Seen, Syncer,
    SyncerOptions, follow,
};
use serde_json::json;
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
    assert!(matches!(next().await, Seen::State(..)));
    assert!(matches!(next().await, Seen::Lost(_)), "the watch");
    assert!(matches!(next().await, Seen::State(..)), "a watch that failed is followed by a list");
    assert!(matches!(next().await, Seen::Bookmark(_)), "the watch is established");
    assert!(matches!(next().await, Seen::Gone(_)));
    following.abort();
}

/// A syncer of one kind over a function that is a member.
fn syncer(api: ObjectApi) -> (Syncer, mpsc::UnboundedReceiver<MemberEvent>) {
    let options = SyncerOptions {
        cluster: "asia-1".into(),
        connection: 1,
        hub: "hub".to_owned(),
        kinds: vec![limen_api::kind(("v1", "ConfigMap", "configmaps", true))],
        probe_every: Duration::from_millis(100),
        beat_from: tokio::time::Instant::now(),
        concurrency: 4,
        fence: Fence::open(),
    };
    let (tell, notices) = mpsc::unbounded_channel();
    (Syncer::start(api, options, tell), notices)
}

async fn listed(notices: &mut mpsc::UnboundedReceiver<MemberEvent>) {
    let listed = async {
        while let Some(notice) = notices.recv().await {
            if matches!(notice.what, MemberNews::Listed(_)) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, listed).await.expect("the kind is never listed");
}

/// Failures make pauses of up to half a minute, of which ten would take longer than this test.
#[tokio::test]
async fn a_probe_that_is_answered_ends_the_pauses_of_watches() {
    let failures = Arc::new(AtomicUsize::new(10));
    let service = tower::service_fn(move |request: Request<Body>| {
        let failures = failures.clone();
        async move {
            let list = request.uri().path().ends_with("/configmaps");
            let fails = |left: usize| left.checked_sub(1);
            if list && failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails).is_ok() {
                return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
            }
            let empty = r#"{"metadata": {"resourceVersion": "5"}, "items": []}"#;
            Ok(Response::new(Body::from(empty.as_bytes().to_vec())))
        }
    });
    let (_syncer, mut notices) = syncer(ObjectApi::new(kube::Client::new(service, "default")));
    listed(&mut notices).await;
}

#[tokio::test]
async fn a_kind_of_which_there_is_nothing_is_watched_only_when_it_is_used() {
    let (asked, mut questions) = mpsc::unbounded_channel();
    let service = tower::service_fn(move |request: Request<Body>| {
        let asked = asked.clone();
        async move {
            let _ = asked.send(request.uri().to_string());
            if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                return std::future::pending().await;
            }
            let empty = r#"{"metadata": {"resourceVersion": "5"}, "items": []}"#;
            Ok::<_, std::io::Error>(Response::new(Body::from(empty.as_bytes().to_vec())))
        }
    });
    let (syncer, mut notices) = syncer(ObjectApi::new(kube::Client::new(service, "default")));
    listed(&mut notices).await;
    let mut next = async |wanted: &str| {
        let next = async {
            let mut before = Vec::new();
            while let Some(question) = questions.recv().await {
                if question.contains(wanted) {
                    return (question, before);
                }
                before.push(question);
            }
            panic!("nobody asks any more");
        };
        tokio::time::timeout(PATIENCE, next).await.unwrap_or_else(|_| panic!("no {wanted}"))
    };
    for _ in 0..5 {
        let (_, before) = next("/readyz").await;
        assert!(!before.iter().any(|question| question.contains("watch=true")), "{before:?}");
    }
    syncer.watch(limen_api::kind(("v1", "ConfigMap", "configmaps", true)));
    // From the list on, so that nothing is missed.
    let (watch, before) = next("watch=true").await;
    assert!(watch.contains("resourceVersion=5"), "{watch}");
    assert!(!before.iter().any(|question| question.contains("/configmaps")), "{before:?}");
}

/// A member that answers `path` only after three failures.
fn failing_at(path: &'static str) -> ObjectApi {
    let asked = Arc::new(AtomicUsize::new(0));
    let service = tower::service_fn(move |request: Request<Body>| {
        let asked = asked.clone();
        async move {
            if request.uri().path() == path && asked.fetch_add(1, Ordering::SeqCst) < 3 {
                return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
            }
            let answer = r#"{"gitVersion": "v1.2.3", "metadata": {"resourceVersion": "5", "uid": "u-1"}, "items": []}"#;
            Ok(Response::new(Body::from(answer.as_bytes().to_vec())))
        }
    });
    ObjectApi::new(kube::Client::new(service, "default"))
}

/// The messages about leaves until the member is described, and the description.
async fn described(
    notices: &mut mpsc::UnboundedReceiver<MemberEvent>,
) -> (Vec<String>, Description) {
    let described = async {
        let mut messages = Vec::new();
        loop {
            match notices.recv().await.expect("the syncer runs").what {
                MemberNews::Described(found) => return (messages, found),
                MemberNews::Leaf(_, report) => messages.push(report.message),
                _ => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, described).await.expect("the member is never described")
}

#[tokio::test]
async fn an_identity_that_cannot_be_read_is_reported_and_read_again() {
    let (syncer, mut notices) = syncer(failing_at("/api/v1/namespaces/kube-system"));
    let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
    let id = ObjectId { kind, namespace: Some("shop".to_owned()), name: "settings".to_owned() };
    let leaf = Leaf { object: (&json!({})).into(), hash: "hash".into(), handed_over: Vec::new() };
    let desired =
        Desired::Leaf { leaf: Arc::new(leaf), on_conflict: OnConflict::Abort, create: true };
    let desired = DesiredLeaf { root_uid: "root".into(), replaces: None, revision: 1, desired };
    syncer.desire(Arc::new(id), Some(desired));
    let (messages, description) = described(&mut notices).await;
    assert_eq!(description.uid.as_deref(), Some("u-1"));
    let waits = |message: &String| message.starts_with("waiting for the identity of the cluster: ");
    assert!(messages.iter().any(waits), "{messages:?}");
}

#[tokio::test]
async fn a_member_that_does_not_tell_version_or_nodes_is_described_without_them() {
    for path in ["/version", "/api/v1/nodes"] {
        let (_syncer, mut notices) = syncer(failing_at(path));
        let (_, description) = described(&mut notices).await;
        assert_eq!(description.uid.as_deref(), Some("u-1"));
        assert_eq!(description.version.is_empty(), path == "/version");
    }
}
