use limen_core::federated::OnConflict;
use limen_core::leaf::Leaf;
use serde_json::json;

use super::*;
use crate::authority::Permit;
use crate::desired::{Desired, DesiredLeaf};
use crate::fence::Fence;

fn engine() -> Engine {
    let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
    });
    let options = SyncerOptions {
        cluster: "asia-1".into(),
        connection: 1,
        hub: "hub".to_owned(),
        kinds: Vec::new(),
        probe_every: Duration::from_secs(5),
        beat_from: Instant::now(),
        concurrency: 2,
        fence: Fence::open(),
    };
    let api = ObjectApi::new(kube::Client::new(nobody, "default"));
    let mut engine = Engine::new(api, options, mpsc::unbounded_channel().0);
    engine.authority.describe(None);
    let permit = Permit { instance: "hub".into(), epoch: 1, revision: 0, description: 1 };
    engine.authority.answer(Some(permit));
    let write = engine.authority.begin().unwrap();
    let version =
        crate::object_api::Precondition { uid: "u".to_owned(), resource_version: "1".to_owned() };
    let found = FoundClaim { claim: write.claim, version };
    engine.authority.finish(write.generation, Some(Claimed::Held(found.clone())), Instant::now());
    engine.authority.see(found);
    engine
}

/// Waking up for what cannot begin would be waking up again at once, and so on.
#[tokio::test]
async fn it_wakes_only_for_what_can_begin() {
    let mut engine = engine();
    let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
    let id = ObjectId { kind, namespace: None, name: "settings".to_owned() };
    let long_due = Instant::now();
    let probe = long_due + Duration::from_secs(5);
    engine.queue.push_later(Arc::new(id), long_due);
    assert_eq!(engine.next_wake(0, Some(probe)), Some(long_due));
    assert_eq!(engine.next_wake(1, None), Some(long_due));
    assert_eq!(engine.next_wake(2, Some(probe)), Some(probe), "there is no room");
    engine.reachable = false;
    assert_eq!(engine.next_wake(0, Some(probe)), Some(probe), "it is away");
    assert_eq!(engine.next_wake(0, None), None, "a probe is under way");
    engine.reachable = true;
    engine.authority.answer(None);
    assert_eq!(engine.next_wake(0, Some(probe)), Some(probe), "it has no permit");
}

/// A hub with many leaves renews its permits often.
#[tokio::test]
async fn leaves_are_considered_again_only_under_other_terms() {
    let mut engine = engine();
    engine.authority_changed();
    let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
    let id = Arc::new(ObjectId { kind, namespace: None, name: "settings".to_owned() });
    let leaf = Leaf { object: (&json!({})).into(), hash: "hash".into(), handed_over: Vec::new() };
    let (leaf, on_conflict) = (Arc::new(leaf), OnConflict::Abort);
    let desired = Desired::Leaf { leaf, on_conflict, create: true };
    let root_uid = "root".into();
    let desired = DesiredLeaf { root_uid, replaces: None, revision: 1, desired };
    engine.leaves.desire(id.clone(), Some(desired));
    let mut permit = Permit { instance: "hub".into(), epoch: 1, revision: 9, description: 1 };
    let mut considered = |permit: &Permit| {
        engine.authority.answer(Some(permit.clone()));
        engine.authority_changed();
        engine.queue.busy() > 0
    };
    assert!(!considered(&permit), "only the revision is newer");
    permit.epoch = 2;
    assert!(considered(&permit));
}
