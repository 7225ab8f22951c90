//! A member that is well, with a leaf that it never answers for.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, Request, Response};
use kube::client::Body;
use limen_core::federated::{ObjectId, OnConflict};
use limen_core::leaf::Leaf;
use limen_sync::{Desired, Fence, MemberNews, ObjectApi, Syncer, SyncerOptions};
use serde_json::json;
use tokio::sync::mpsc;

use common::{claim, desired_leaf, permit};

/// How long anything may take: far longer than it does, since machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(60);

/// A member that ends the connection on writes of one leaf, and refuses those of the others.
fn member(writes: mpsc::UnboundedSender<(String, Instant)>) -> ObjectApi {
    let service = tower::service_fn(move |request: Request<Body>| {
        let writes = writes.clone();
        async move {
            let path = request.uri().path().to_owned();
            if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                return std::future::pending().await;
            }
            let (status, body) = match *request.method() == Method::PATCH {
                true => (422, json!({"kind": "Status", "code": 422, "reason": "Invalid"})),
                false if path.ends_with("/limen-hub-hub") => (200, claim()),
                false => (200, json!({"metadata": {"resourceVersion": "5"}, "items": [claim()]})),
            };
            if status == 422 {
                let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                let slow = name == "slow";
                let _ = writes.send((name, Instant::now()));
                if slow {
                    return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
                }
            }
            let body = Body::from(body.to_string().into_bytes());
            Ok(Response::builder().status(status).body(body).unwrap())
        }
    });
    ObjectApi::new(kube::Client::new(service, "default"))
}

#[tokio::test]
async fn it_does_not_hurry_the_others_nor_make_them_say_again_what_they_said() {
    let (writes, mut written) = mpsc::unbounded_channel();
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
    let syncer = Syncer::start(member(writes), options, notices);
    // What a list says is a reason to look at leaves at once.
    let ready = async {
        let (mut listed, mut described) = (false, false);
        while !(listed && described) {
            let what = noticed.recv().await.expect("somebody speaks").what;
            listed |= matches!(what, MemberNews::Listed(_));
            described |= matches!(what, MemberNews::Described(_));
        }
    };
    tokio::time::timeout(PATIENCE, ready).await.expect("the kind is never listed");
    syncer.permit(permit());
    for name in ["rejected", "slow"] {
        let namespace = Some("default".to_owned());
        let id = Arc::new(ObjectId { kind: kind.clone(), namespace, name: name.to_owned() });
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let leaf = Arc::new(Leaf {
            object: (&object).into(),
            hash: "hash".into(),
            handed_over: Vec::new(),
        });
        let want = Desired::Leaf { leaf, on_conflict: OnConflict::Abort, create: true };
        syncer.desire(id, Some(desired_leaf(want)));
    }

    let mut tries = Vec::new();
    let tried = async {
        while tries.len() < 4 {
            let (name, when) = written.recv().await.expect("somebody writes");
            if name == "rejected" {
                tries.push(when);
            }
        }
    };
    tokio::time::timeout(PATIENCE, tried).await.expect("it is not tried again");
    let pauses: Vec<Duration> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (pause, least) in pauses.iter().zip([250, 500, 1000]) {
        assert!(*pause >= Duration::from_millis(least), "{pauses:?}");
    }
    let notices: Vec<MemberNews> =
        std::iter::from_fn(|| noticed.try_recv().ok()).map(|notice| notice.what).collect();
    let said =
        |what: &&MemberNews| matches!(what, MemberNews::Failed(leaf, _) if leaf.name == "rejected");
    assert_eq!(notices.iter().filter(said).count(), 1, "{notices:?}");
}
