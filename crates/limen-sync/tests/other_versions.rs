//! A member that serves a kind in another version than the desired one.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use limen_api::LeafState;
use limen_core::federated::ObjectId;
use limen_sync::{
    Desired, DesiredLeaf, Fence, MemberEvent, MemberNews, ObjectApi, Syncer, SyncerOptions,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// How long anything may take: far longer than it does, since machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(60);

/// A member that serves Widgets in v1, with these objects, and not in v2.
fn member(widgets: &Value) -> ObjectApi {
    let documents = json!({
        "/readyz": {}, "/version": {}, "/api/v1/namespaces/kube-system": {"metadata": {"uid": "u"}},
        "/apis": {"kind": "APIGroupList", "groups": [
            {"name": "example.com", "versions": [{"version": "v1"}]}]},
        "/apis/example.com/v1": {"kind": "APIResourceList", "resources": [{"name": "widgets"}]},
        "/apis/example.com/v1/widgets": {"metadata": {"resourceVersion": "5"}, "items": widgets}});
    let service = tower::service_fn(move |request: Request<Body>| {
        let missing = json!({"kind": "Status", "code": 404, "reason": "NotFound"});
        let (status, answer) = match &documents[request.uri().path()] {
            Value::Null => (404, &missing),
            found => (200, found),
        };
        let body = Body::from(answer.to_string().into_bytes());
        let response = Response::builder().status(status).body(body).unwrap();
        async move { Ok::<_, std::io::Error>(response) }
    });
    ObjectApi::new(kube::Client::new(service, "default"))
}

/// A syncer that shall delete a Widget.
fn deleting(widgets: &Value) -> (Syncer, mpsc::UnboundedReceiver<MemberEvent>) {
    let kind = limen_api::kind(("example.com/v2", "Widget", "widgets", true));
    let options = SyncerOptions {
        cluster: "asia-1".into(),
        connection: 1,
        hub: "hub".to_owned(),
        kinds: vec![kind.clone()],
        probe_every: Duration::from_millis(100),
        beat_from: tokio::time::Instant::now(),
        concurrency: 4,
        fence: Fence::open(),
    };
    let (tell, events) = mpsc::unbounded_channel();
    let syncer = Syncer::start(member(widgets), options, tell);
    let id = ObjectId { kind, namespace: Some("shop".to_owned()), name: "one".to_owned() };
    let desired = Desired::Nothing;
    let desired = DesiredLeaf { root_uid: "root".into(), replaces: None, revision: 1, desired };
    syncer.desire(Arc::new(id), Some(desired));
    (syncer, events)
}

#[tokio::test]
async fn a_deletion_ends_if_no_version_has_a_leaf() {
    let (_syncer, mut events) = deleting(&json!([]));
    let over = async {
        let (mut listed, mut over) = (false, false);
        while !(listed && over) {
            match events.recv().await.expect("the syncer runs").what {
                MemberNews::Listed(_) => listed = true,
                MemberNews::Leaf(_, report) => over = report.state.is_none(),
                _ => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, over).await.expect("the deletion never ends");
}

#[tokio::test]
async fn a_deletion_goes_on_while_another_version_has_a_leaf() {
    let (_syncer, mut events) = deleting(&json!([{"metadata": {"name": "one"}}]));
    let failed = async {
        loop {
            match events.recv().await.expect("the syncer runs").what {
                MemberNews::Leaf(_, report) if report.state == Some(LeafState::Failed) => break,
                _ => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, failed).await.expect("the failure is never reported");
    tokio::time::sleep(Duration::from_millis(500)).await;
    while let Ok(event) = events.try_recv() {
        let over = matches!(&event.what, MemberNews::Leaf(_, report) if report.state.is_none());
        assert!(!over && !matches!(event.what, MemberNews::Listed(_)), "{event:?}");
    }
}
