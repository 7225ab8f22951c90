//! Deletions while it is not known what became of a creation, or of the deletion itself.
//!
//! The member is a function that answers requests as a test wants. Its watches never tell anything,
//! so that the syncer finds out by itself or not at all.

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use kube::client::Body;
use limen_api::LeafState;
use limen_core::federated::{Kind, ObjectId, OnConflict};
use limen_core::leaf::{HASH_ANNOTATION, HUB_LABEL, Leaf, ROOT_LABEL};
use limen_sync::{
    Desired, Fence, MemberEvent, MemberNews, ObjectApi, Report, Syncer, SyncerOptions,
};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use common::{claim, desired_leaf, permit};

/// How long anything may take: far longer than it does, since machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(60);

/// What becomes of a write.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    /// It is done, and the answer comes when the test lets it.
    Held,
    /// It is done, and the answer never comes: the connection ends.
    Lost,
    /// It is not done, and the connection ends.
    Undone,
    /// It is done, but a deletion only begins: something holds the leaf.
    Begun,
}

/// A member with room for one leaf.
struct Member {
    answer: Answer,
    /// Lets lists through.
    lists: Semaphore,
    /// Lets answers to writes through.
    answers: Semaphore,
    /// Lets answers to deletions through.
    deletions: Semaphore,
    leaf: Mutex<Option<Value>>,
    /// Says what was asked of it.
    asked: mpsc::UnboundedSender<Method>,
}

impl Member {
    fn delete(&self) -> Option<Value> {
        let mut leaf = self.leaf.lock().unwrap();
        if self.answer != Answer::Begun {
            return leaf.take();
        }
        if let Some(leaf) = leaf.as_mut() {
            leaf["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        leaf.clone()
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, std::io::Error> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let one = path.ends_with("/settings");
        if watch {
            return std::future::pending().await;
        }
        if one {
            let _ = self.asked.send(method.clone());
        }
        let answer = match (method, one) {
            (Method::PATCH, _) => {
                let body = request.into_body().collect_bytes().await.unwrap();
                let mut leaf: Value = serde_json::from_slice(&body).unwrap();
                leaf["metadata"]["uid"] = json!("leaf-uid");
                leaf["metadata"]["resourceVersion"] = json!("7");
                if self.answer != Answer::Undone {
                    *self.leaf.lock().unwrap() = Some(leaf.clone());
                }
                if self.answer != Answer::Held {
                    return Err(std::io::ErrorKind::ConnectionReset.into());
                }
                self.answers.acquire().await.unwrap().forget();
                Some(leaf)
            }
            (Method::DELETE, _) => {
                let deleted = self.delete();
                self.deletions.acquire().await.unwrap().forget();
                deleted
            }
            (_, true) => self.leaf.lock().unwrap().clone(),
            (_, false) if path.ends_with("/configmaps") => {
                self.lists.acquire().await.unwrap().forget();
                let leaf = self.leaf.lock().unwrap().clone();
                let items: Vec<Value> = leaf.into_iter().chain([claim()]).collect();
                Some(json!({"metadata": {"resourceVersion": "5"}, "items": items}))
            }
            (_, false) if path.ends_with("/limen-hub-hub") => Some(claim()),
            (_, false) => Some(json!({})),
        };
        let missing = json!({"kind": "Status", "code": 404, "reason": "NotFound"});
        let status = if answer.is_some() { 200 } else { 404 };
        let body = answer.unwrap_or(missing).to_string().into_bytes();
        Ok(Response::builder().status(status).body(Body::from(body)).unwrap())
    }
}

/// A syncer and its member.
struct Rig {
    member: Arc<Member>,
    syncer: Syncer,
    asked: mpsc::UnboundedReceiver<Method>,
    notices: mpsc::UnboundedReceiver<MemberEvent>,
}

impl Rig {
    async fn start(answer: Answer) -> Self {
        let (tell, asked) = mpsc::unbounded_channel();
        let member = Arc::new(Member {
            answer,
            lists: Semaphore::new(0),
            answers: Semaphore::new(0),
            deletions: Semaphore::new(0),
            leaf: Mutex::new(None),
            asked: tell,
        });
        let served = member.clone();
        let service = tower::service_fn(move |request| {
            let member = served.clone();
            async move { member.answer(request).await }
        });
        let api = ObjectApi::new(kube::Client::new(service, "default"));
        let options = SyncerOptions {
            cluster: "asia-1".into(),
            connection: 1,
            hub: "hub".to_owned(),
            kinds: vec![kind()],
            probe_every: Duration::from_millis(100),
            beat_from: tokio::time::Instant::now(),
            concurrency: 4,
            fence: Fence::open(),
        };
        let (tell, mut notices) = mpsc::unbounded_channel::<MemberEvent>();
        let syncer = Syncer::start(api, options, tell);
        let described = async {
            while let Some(event) = notices.recv().await
                && !matches!(event.what, MemberNews::Described(_))
            {}
        };
        tokio::time::timeout(PATIENCE, described).await.expect("the member is never described");
        syncer.permit(permit());
        Self { member, syncer, asked, notices }
    }

    fn wish(&self, want: Desired) {
        self.syncer.desire(Arc::new(id()), Some(desired_leaf(want)));
    }

    /// Lets the member hold a leaf from the start.
    fn hold(&self) {
        let mut held = leaf();
        held["metadata"]["uid"] = json!("leaf-uid");
        held["metadata"]["resourceVersion"] = json!("4");
        *self.member.leaf.lock().unwrap() = Some(held);
    }

    /// Waits until something was asked about the leaf.
    async fn asked(&mut self, wanted: &Method) {
        let asked = async {
            while let Some(method) = self.asked.recv().await {
                if method == *wanted {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("no {wanted}"));
    }

    /// Waits until the syncer says something about the leaf.
    async fn said(&mut self, fits: impl Fn(&Report) -> bool) {
        let said = async {
            while let Some(notice) = self.notices.recv().await {
                if matches!(&notice.what, MemberNews::Leaf(_, report) if fits(report)) {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, said).await.expect("the syncer does not say it");
    }

    /// Whether the syncer has said that nothing is there. It may, once a deletion is answered.
    fn nothing_is_said_to_be_there(&mut self) -> bool {
        let mut notices = std::iter::from_fn(|| self.notices.try_recv().ok());
        notices
            .any(|notice| matches!(&notice.what, MemberNews::Leaf(_, report) if is_nothing(report)))
    }
}

fn is_nothing(report: &Report) -> bool {
    report.state.is_none() && report.held_for.is_none()
}

fn kind() -> Arc<Kind> {
    limen_api::kind(("v1", "ConfigMap", "configmaps", true))
}

fn id() -> ObjectId {
    ObjectId { kind: kind(), namespace: Some("default".to_owned()), name: "settings".to_owned() }
}

fn leaf() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "settings", "namespace": "default",
        "labels": {HUB_LABEL: "hub", ROOT_LABEL: "root-uid"},
        "annotations": {HASH_ANNOTATION: "hash"}}})
}

fn wanted() -> Desired {
    let leaf =
        Arc::new(Leaf { object: (&leaf()).into(), hash: "hash".into(), handed_over: Vec::new() });
    Desired::Leaf { leaf, on_conflict: OnConflict::Abort, create: true }
}

#[tokio::test]
async fn a_leaf_that_is_being_created_while_it_is_unwanted_is_deleted() {
    let mut rig = Rig::start(Answer::Held).await;
    rig.member.lists.add_permits(1);
    rig.wish(wanted());
    rig.asked(&Method::PATCH).await;
    rig.wish(Desired::Nothing);
    rig.said(|report| report.state == Some(LeafState::Deleting)).await;
    rig.member.answers.add_permits(1);
    rig.asked(&Method::DELETE).await;
    assert!(!rig.nothing_is_said_to_be_there());
    assert!(rig.member.leaf.lock().unwrap().is_none());
}

#[tokio::test]
async fn a_leaf_whose_creation_was_never_answered_is_looked_for_and_deleted() {
    let mut rig = Rig::start(Answer::Lost).await;
    rig.member.lists.add_permits(1);
    rig.wish(wanted());
    rig.asked(&Method::PATCH).await;
    rig.said(|report| report.state == Some(LeafState::Failed)).await;
    rig.wish(Desired::Nothing);
    rig.asked(&Method::DELETE).await;
    assert!(!rig.nothing_is_said_to_be_there());
    assert!(rig.member.leaf.lock().unwrap().is_none());
}

#[tokio::test]
async fn a_leaf_that_turns_out_never_to_have_been_created_is_done_with() {
    let mut rig = Rig::start(Answer::Undone).await;
    rig.member.lists.add_permits(1);
    rig.wish(wanted());
    rig.asked(&Method::PATCH).await;
    rig.said(|report| report.state == Some(LeafState::Failed)).await;
    rig.wish(Desired::Nothing);
    rig.said(is_nothing).await;
}

#[tokio::test]
async fn nothing_is_certain_before_the_member_has_said_what_it_holds() {
    let mut rig = Rig::start(Answer::Held).await;
    rig.hold();
    rig.wish(Desired::Nothing);
    rig.said(|report| report.state == Some(LeafState::Deleting)).await;
    rig.member.lists.add_permits(1);
    rig.asked(&Method::DELETE).await;
    assert!(!rig.nothing_is_said_to_be_there());
}

#[tokio::test]
async fn a_deletion_whose_end_no_watch_tells_is_asked_for_once_and_looked_after() {
    let mut rig = Rig::start(Answer::Held).await;
    rig.hold();
    rig.member.lists.add_permits(1);
    rig.member.deletions.add_permits(1);
    rig.wish(Desired::Nothing);
    rig.asked(&Method::DELETE).await;
    rig.said(is_nothing).await;
    let asked: Vec<Method> = std::iter::from_fn(|| rig.asked.try_recv().ok()).collect();
    assert!(!asked.contains(&Method::DELETE), "{asked:?}");
}

#[tokio::test]
async fn a_leaf_that_something_holds_is_waited_for_until_it_is_gone() {
    let mut rig = Rig::start(Answer::Begun).await;
    rig.hold();
    rig.member.lists.add_permits(1);
    rig.member.deletions.add_permits(1);
    rig.wish(Desired::Nothing);
    rig.asked(&Method::DELETE).await;
    for _ in 0..2 {
        rig.asked(&Method::GET).await;
    }
    assert!(!rig.nothing_is_said_to_be_there());
    *rig.member.leaf.lock().unwrap() = None;
    rig.said(is_nothing).await;
}
