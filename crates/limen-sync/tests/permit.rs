//! Permits, claims and preconditions, against a member that keeps ConfigMaps in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use limen_api::LeafState;
use limen_core::federated::{ObjectId, OnConflict};
use limen_core::leaf::{
    ADOPTED_ANNOTATION, CLAIM_LABEL, EPOCH_ANNOTATION, HASH_ANNOTATION, HUB_LABEL, Leaf, ROOT_LABEL,
};
use limen_sync::{
    Description, Desired, DesiredLeaf, Fence, LeafChange, MemberEvent, MemberNews, ObjectApi,
    Permit, Report, Syncer, SyncerOptions,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// How long anything may take: far longer than it does, since machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(60);
const CLAIM: &str = "/api/v1/namespaces/limen-system/configmaps/limen-hub-hub";
const LEAF: &str = "/api/v1/namespaces/default/configmaps/settings";

/// A member that keeps ConfigMaps and checks preconditions. Its watches tell of the claim only.
#[derive(Default)]
struct Member {
    objects: Mutex<BTreeMap<String, Value>>,
    version: Mutex<u64>,
    /// Every write, with its body.
    writes: Mutex<Vec<(Method, String, Value)>>,
}

impl Member {
    fn put(&self, path: &str, mut object: Value) -> Value {
        let mut version = self.version.lock().unwrap();
        *version += 1;
        object["metadata"]["resourceVersion"] = json!((*version + 100).to_string());
        if !object["metadata"]["uid"].is_string() {
            object["metadata"]["uid"] = json!(format!("uid-{version}"));
        }
        self.objects.lock().unwrap().insert(path.to_owned(), object.clone());
        object
    }

    fn get(&self, path: &str) -> Option<Value> {
        self.objects.lock().unwrap().get(path).cloned()
    }

    fn writes_to(&self, part: &str) -> Vec<(Method, Value)> {
        let writes = self.writes.lock().unwrap();
        let to = writes.iter().filter(|(_, path, _)| path.contains(part));
        to.map(|(method, _, body)| (method.clone(), body.clone())).collect()
    }

    fn answer(&self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        let status = |code: u16, reason: &str| {
            (code, json!({"kind": "Status", "code": code, "reason": reason}))
        };
        if *method != Method::GET {
            self.writes.lock().unwrap().push((method.clone(), path.to_owned(), body.clone()));
        }
        let found = self.get(path);
        let precondition = match *method == Method::DELETE {
            true => &body["preconditions"],
            false => &body["metadata"],
        };
        let differs = |found: &Value| {
            ["uid", "resourceVersion"].iter().any(|field| {
                precondition[field].is_string() && precondition[field] != found["metadata"][field]
            })
        };
        match (method, found) {
            (&Method::GET, _) if path.ends_with("/configmaps") => {
                let objects = self.objects.lock().unwrap();
                let items: Vec<&Value> = objects.values().collect();
                (200, json!({"metadata": {"resourceVersion": "50"}, "items": items}))
            }
            (&Method::GET, _) if path == "/readyz" || path == "/version" => (200, json!({})),
            (&Method::GET, Some(found)) => (200, found),
            (&Method::POST, _) => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                let path = format!("{path}/{name}");
                match self.get(&path) {
                    Some(_) => status(409, "AlreadyExists"),
                    None => (201, self.put(&path, body.clone())),
                }
            }
            (_, Some(found)) if differs(&found) => status(409, "Conflict"),
            (&Method::DELETE, Some(found)) => {
                self.objects.lock().unwrap().remove(path);
                (200, found)
            }
            (&Method::PATCH, Some(mut found)) => {
                merge(&mut found, &body);
                (200, self.put(path, found))
            }
            (&Method::PATCH, None) => (201, self.put(path, body)),
            _ => status(404, "NotFound"),
        }
    }
}

/// A merge patch, which is near enough to an apply here; the server keeps uid and version.
fn merge(object: &mut Value, patch: &Value) {
    match patch {
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::Null => drop(object.as_object_mut().map(|map| map.remove(field))),
                    value => merge(&mut object[field.as_str()], value),
                }
            }
        }
        value => *object = value.clone(),
    }
}

/// Watch events about the claim, from now on.
fn claims(member: Arc<Member>) -> impl Stream<Item = Result<Frame<Bytes>, std::io::Error>> + Send {
    futures::stream::unfold((member, None), async |(member, before)| {
        let now = loop {
            let now = member.get(CLAIM);
            if now != before {
                break now;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let event = match (&before, &now) {
            (None, Some(claim)) => json!({"type": "ADDED", "object": claim}),
            (_, Some(claim)) => json!({"type": "MODIFIED", "object": claim}),
            (claim, None) => json!({"type": "DELETED", "object": claim}),
        };
        Some((Ok(Frame::data(Bytes::from(format!("{event}\n")))), (member, now)))
    })
}

struct Rig {
    member: Arc<Member>,
    syncer: Syncer,
    events: mpsc::UnboundedReceiver<MemberEvent>,
    /// The epoch of the permits that later descriptions are answered with.
    epoch: Option<u64>,
}

impl Rig {
    fn start(member: Member, fence: Fence) -> Self {
        let member = Arc::new(member);
        let served = member.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let member = served.clone();
            async move {
                let (method, uri) = (request.method().clone(), request.uri().clone());
                if uri.query().is_some_and(|query| query.contains("watch=true")) {
                    return Ok(Response::new(StreamBody::new(claims(member)).boxed_unsync()));
                }
                let body = request.into_body().collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let (status, answer) = member.answer(&method, uri.path(), body);
                let body = Full::from(answer.to_string()).map_err(|never| match never {});
                let response = Response::builder().status(status).body(body.boxed_unsync());
                Ok::<_, std::io::Error>(response.unwrap())
            }
        });
        let options = SyncerOptions {
            cluster: "asia-1".into(),
            connection: 1,
            hub: "hub".to_owned(),
            kinds: vec![id().kind.clone()],
            probe_every: Duration::from_millis(100),
            beat_from: tokio::time::Instant::now(),
            concurrency: 4,
            fence,
        };
        let (tell, events) = mpsc::unbounded_channel();
        let api = ObjectApi::new(kube::Client::new(service, "default"));
        Self { member, syncer: Syncer::start(api, options, tell), events, epoch: None }
    }

    fn desire(&self, desired: Desired) {
        let desired = DesiredLeaf { root_uid: "root".into(), replaces: None, revision: 7, desired };
        self.syncer.desire(Arc::new(id()), Some(desired));
    }

    async fn told<T>(&mut self, pick: impl Fn(MemberNews) -> Option<T>) -> T {
        let told = async {
            loop {
                let event = self.events.recv().await.expect("the syncer runs");
                if let (MemberNews::Described(seen), Some(epoch)) = (&event.what, self.epoch) {
                    self.syncer.permit(permit(epoch, seen.number));
                }
                if let Some(found) = pick(event.what) {
                    return found;
                }
            }
        };
        tokio::time::timeout(PATIENCE, told).await.expect("the syncer does not tell it")
    }

    async fn reported(&mut self, state: LeafState) -> Report {
        self.told(|what| match what {
            MemberNews::Leaf(_, report) if report.state == Some(state) => Some(report),
            _ => None,
        })
        .await
    }

    async fn described(&mut self) -> Description {
        self.told(|what| match what {
            MemberNews::Described(description) => Some(description),
            _ => None,
        })
        .await
    }

    /// Permits writes as the answer to a first description, and to later ones.
    fn allow(&mut self, epoch: u64, description: u64) {
        self.syncer.permit(permit(epoch, description));
        self.epoch = Some(epoch);
    }

    async fn permit(&mut self, epoch: u64) {
        let number = self.described().await.number;
        self.allow(epoch, number);
    }
}

fn id() -> ObjectId {
    let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
    ObjectId { kind, namespace: Some("default".to_owned()), name: "settings".to_owned() }
}

fn object(root: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "default",
            "labels": {HUB_LABEL: "hub", ROOT_LABEL: root},
            "annotations": {HASH_ANNOTATION: "hash"}},
        "data": {"key": "value"}})
}

fn wanted(on_conflict: OnConflict) -> Desired {
    let (object, hash) = (object("root"), "hash".to_owned());
    let leaf =
        Arc::new(Leaf { object: (&object).into(), hash: hash.into(), handed_over: Vec::new() });
    Desired::Leaf { leaf, on_conflict, create: true }
}

fn permit(epoch: u64, description: u64) -> Option<Permit> {
    Some(Permit { instance: "ours".into(), epoch, revision: 3, description })
}

fn claim(instance: &str, mark: &str) -> Value {
    json!({"metadata": {"name": "limen-hub-hub", "namespace": "limen-system",
            "labels": {HUB_LABEL: "hub", CLAIM_LABEL: "true"}},
        "data": {"instance": instance, "mark": mark}})
}

#[tokio::test]
async fn nothing_is_written_before_a_permit_and_the_claim_before_any_leaf() {
    let mut rig = Rig::start(Member::default(), Fence::open());
    rig.desire(wanted(OnConflict::Abort));
    let number = rig.described().await.number;
    assert!(rig.member.writes.lock().unwrap().is_empty());
    rig.allow(2, number);
    let report = rig.reported(LeafState::Synced).await;
    assert_eq!(report.applied.as_deref(), Some("hash"));
    assert!(!report.adopted);
    let first = rig.member.writes.lock().unwrap()[0].clone();
    assert!(first.1.contains("limen-system"), "{first:?}");
    assert_eq!(rig.member.get(CLAIM).unwrap()["data"], json!({"instance": "ours", "mark": "2.3"}));
    let leaf = rig.member.get(LEAF).unwrap();
    assert_eq!(leaf["metadata"]["annotations"][EPOCH_ANNOTATION], "2.7");
}

#[tokio::test]
async fn a_claim_that_another_instance_took_after_the_description_stops_writes() {
    let mut rig = Rig::start(Member::default(), Fence::open());
    rig.desire(wanted(OnConflict::Abort));
    let number = rig.described().await.number;
    rig.member.put(CLAIM, claim("copy", "2.1"));
    rig.syncer.permit(permit(2, number));
    let claimed = rig.told(|what| match what {
        MemberNews::Claimed(claim) => Some(claim),
        _ => None,
    });
    assert_eq!(claimed.await.instance, "copy");
    assert!(rig.member.get(LEAF).is_none());
}

#[tokio::test]
async fn a_late_claim_of_an_earlier_epoch_is_described_again_and_replaced() {
    let mut rig = Rig::start(Member::default(), Fence::open());
    rig.desire(wanted(OnConflict::Abort));
    let first = rig.described().await;
    rig.member.put(CLAIM, claim("before", "1.1"));
    rig.syncer.permit(permit(2, first.number));
    let second = rig.described().await;
    assert_eq!(second.claim.map(|claim| claim.instance).as_deref(), Some("before"));
    assert!(rig.member.get(LEAF).is_none());
    rig.syncer.permit(permit(2, first.number));
    rig.syncer.permit(permit(2, second.number));
    rig.reported(LeafState::Synced).await;
    assert_eq!(rig.member.get(CLAIM).unwrap()["data"]["instance"], "ours");
}

#[tokio::test]
async fn a_claim_of_a_later_epoch_is_never_replaced() {
    let member = Member::default();
    member.put(CLAIM, claim("ours", "5.9"));
    let mut rig = Rig::start(member, Fence::open());
    rig.desire(wanted(OnConflict::Abort));
    let number = rig.described().await.number;
    rig.syncer.permit(permit(2, number));
    let claimed = rig.told(|what| match what {
        MemberNews::Claimed(claim) => Some(claim),
        _ => None,
    });
    assert_eq!(claimed.await.mark.to_string(), "5.9");
    assert!(rig.member.writes.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_leaf_of_another_root_or_a_later_epoch_is_refused() {
    let mut newer = object("root");
    newer["metadata"]["annotations"] = json!({HASH_ANNOTATION: "older", EPOCH_ANNOTATION: "9.1"});
    for (held, said) in [(object("other"), "uid other"), (newer, "mark 9.1")] {
        let member = Member::default();
        member.put(LEAF, held.clone());
        let mut rig = Rig::start(member, Fence::open());
        rig.permit(2).await;
        rig.desire(wanted(OnConflict::Adopt));
        let report = rig.reported(LeafState::Conflict).await;
        assert!(report.message.contains(said), "{}", report.message);
        assert!(rig.member.writes_to("settings").is_empty());
    }
}

#[tokio::test]
async fn writes_to_existing_objects_name_uid_and_version() {
    let member = Member::default();
    let mut held = object("root");
    held["metadata"]["annotations"][HASH_ANNOTATION] = json!("older");
    let held = member.put(LEAF, held);
    let mut rig = Rig::start(member, Fence::open());
    rig.permit(2).await;
    rig.desire(wanted(OnConflict::Abort));
    rig.reported(LeafState::Synced).await;
    let updated = rig.member.get(LEAF).unwrap();
    rig.desire(Desired::Nothing);
    rig.told(|what| matches!(what, MemberNews::Changed(_, LeafChange::Deleted)).then_some(()))
        .await;
    let writes = rig.member.writes_to("settings");
    let (update, delete) = (&writes[0].1["metadata"], &writes[1].1["preconditions"]);
    for (given, object) in [(update, &held), (delete, &updated)] {
        for field in ["uid", "resourceVersion"] {
            assert_eq!(given[field], object["metadata"][field], "{field} of {given}");
        }
    }
}

#[tokio::test]
async fn what_was_adopted_is_released_with_its_version() {
    let member = Member::default();
    member.put(LEAF, json!({"metadata": {"name": "settings", "namespace": "default"}}));
    let mut rig = Rig::start(member, Fence::open());
    rig.permit(2).await;
    rig.desire(wanted(OnConflict::Adopt));
    assert!(rig.reported(LeafState::Synced).await.adopted);
    let adopted = rig.member.get(LEAF).unwrap();
    assert_eq!(adopted["metadata"]["annotations"][ADOPTED_ANNOTATION], "true");
    rig.desire(Desired::Nothing);
    rig.told(|what| matches!(what, MemberNews::Changed(_, LeafChange::Released)).then_some(()))
        .await;
    let released = rig.member.get(LEAF).unwrap();
    assert_eq!(released["metadata"]["labels"], json!({}));
    let (_, patch) = rig.member.writes_to("settings").pop().unwrap();
    assert_eq!(patch["metadata"]["resourceVersion"], adopted["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn a_closed_fence_lets_nothing_through_and_is_no_failure_of_the_member() {
    let fence = Fence::closed();
    let mut rig = Rig::start(Member::default(), fence.clone());
    rig.desire(wanted(OnConflict::Abort));
    rig.permit(2).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(rig.member.writes.lock().unwrap().is_empty());
    fence.extend(limen_sync::clock::boot_nanos(), Duration::from_secs(3600));
    rig.reported(LeafState::Synced).await;
}

#[tokio::test]
async fn a_claim_is_released_after_the_last_leaf_and_not_written_again() {
    let mut rig = Rig::start(Member::default(), Fence::open());
    let number = rig.described().await.number;
    rig.allow(2, number);
    rig.desire(wanted(OnConflict::Abort));
    rig.reported(LeafState::Synced).await;
    rig.desire(Desired::Nothing);
    rig.syncer.release_claim();
    rig.told(|what| matches!(what, MemberNews::ClaimReleased).then_some(())).await;
    assert!(rig.member.get(LEAF).is_none() && rig.member.get(CLAIM).is_none());
    let deleted: Vec<String> = (rig.member.writes.lock().unwrap().iter())
        .filter(|(method, ..)| *method == Method::DELETE)
        .map(|(_, path, _)| path.clone())
        .collect();
    assert_eq!(deleted, [LEAF, CLAIM]);
    let (_, body) = rig.member.writes_to("limen-hub-hub").pop().unwrap();
    assert!(body["preconditions"]["resourceVersion"].is_string(), "{body}");
    rig.syncer.permit(permit(2, number));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(rig.member.get(CLAIM).is_none());
}
