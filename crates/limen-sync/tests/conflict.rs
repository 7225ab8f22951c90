//! A member that has an object of its own under the name of a leaf.

mod common;

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response};
use kube::client::Body;
use limen_api::LeafState;
use limen_core::federated::{ObjectId, OnConflict};
use limen_core::leaf::Leaf;
use limen_sync::{Desired, Fence, MemberNews, ObjectApi, Syncer, SyncerOptions};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use common::{claim, desired_leaf, permit};

/// How long anything may take: far longer than it does, since machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(60);

fn object() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "default", "uid": "theirs"}})
}

fn answer(request: &Request<Body>) -> (u16, Value) {
    match (request.method(), request.uri().path().rsplit('/').next().unwrap_or_default()) {
        (&Method::PATCH, _) => (409, json!({"kind": "Status", "code": 409, "reason": "Conflict"})),
        (_, "settings") => (200, object()),
        (_, "limen-hub-hub") => (200, claim()),
        _ => (200, json!({"metadata": {"resourceVersion": "5"}, "items": [claim()]})),
    }
}

#[tokio::test]
async fn a_conflict_is_said_once_however_often_it_is_tried_again() {
    let (tell, mut asked) = mpsc::unbounded_channel();
    let service = tower::service_fn(move |request: Request<Body>| {
        let _ = tell.send(request.method().clone());
        let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let (status, body) = answer(&request);
        async move {
            if watch {
                return std::future::pending().await;
            }
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, std::io::Error>(Response::builder().status(status).body(body).unwrap())
        }
    });
    let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
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
    let (notices, mut noticed) = mpsc::unbounded_channel();
    let api = ObjectApi::new(kube::Client::new(service, "default"));
    let syncer = Syncer::start(api, options, notices);
    let described = async {
        while !matches!(
            noticed.recv().await.expect("the syncer runs").what,
            MemberNews::Described(_)
        ) {}
    };
    tokio::time::timeout(PATIENCE, described).await.expect("the member is never described");
    syncer.permit(permit());
    let namespace = Some("default".to_owned());
    let id = Arc::new(ObjectId { kind, namespace, name: "settings".to_owned() });
    let leaf =
        Arc::new(Leaf { object: (&object()).into(), hash: "hash".into(), handed_over: Vec::new() });
    let want = Desired::Leaf { leaf, on_conflict: OnConflict::Abort, create: true };
    syncer.desire(id, Some(desired_leaf(want)));

    let tried = async {
        let mut tries = 0;
        while tries < 4 {
            tries += usize::from(asked.recv().await == Some(Method::PATCH));
        }
    };
    tokio::time::timeout(PATIENCE, tried).await.expect("it is not tried again");
    let notices: Vec<MemberNews> =
        std::iter::from_fn(|| noticed.try_recv().ok()).map(|notice| notice.what).collect();
    let said = |what: &&MemberNews| matches!(what, MemberNews::Failed(_, fault) if fault.message.contains("onConflict"));
    assert_eq!(notices.iter().filter(said).count(), 1, "{notices:?}");
    let conflict = |what: &MemberNews| matches!(what, MemberNews::Leaf(_, report) if report.state == Some(LeafState::Conflict));
    assert!(notices.iter().any(conflict), "{notices:?}");
}
