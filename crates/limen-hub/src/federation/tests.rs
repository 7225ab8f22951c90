//! What the task does by itself: when it wakes, which connections it believes, and how it ends.

use http::{Method, Request, Response};
use kube::client::Body;
use limen_api::Cluster;
use limen_sync::MemberNews;
use serde_json::json;

use super::members::Connected;
use super::*;
use crate::clusters::Member;

/// How long anything may take: far longer than it does, since machines are slow at times.
const LONG: Duration = Duration::from_secs(60);

fn cluster() -> Value {
    json!({"metadata": {"name": "asia-1", "resourceVersion": "1"},
        "spec": {"endpoint": "https://127.0.0.1:1", "insecureSkipTlsVerify": true,
            "credentials": {"name": "cluster-asia-1"}}})
}

fn token(text: &str) -> SecretData {
    SecretData::from([("token".to_owned(), text.as_bytes().to_vec())])
}

/// An API that lists what it has, and answers no watch and no write. It tells what is written.
fn api(written: mpsc::UnboundedSender<String>) -> ObjectApi {
    let service = tower::service_fn(move |request: Request<Body>| {
        let written = written.clone();
        async move {
            let path = request.uri().path();
            let write = *request.method() != Method::GET;
            if write {
                let _ = written.send(path.to_owned());
            }
            let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            if write || watch {
                return std::future::pending().await;
            }
            let items = match path {
                "/apis/limen.dev/v1alpha1/clusters" => json!([cluster()]),
                "/api/v1/secrets" => json!([{"data": {"token": "b2xk"},
                    "metadata": {"name": "cluster-asia-1", "namespace": "limen-system"}}]),
                _ => json!([]),
            };
            let list = json!({"metadata": {"resourceVersion": "1"}, "items": items}).to_string();
            Ok::<_, std::io::Error>(Response::new(Body::from(list.into_bytes())))
        }
    });
    let api = ObjectApi::new(kube::Client::new(service, "default"));
    api.with_patience(Duration::from_secs(3600))
}

/// A member that answers nothing. What it was asked is dropped with whoever asked.
fn silent(asked: mpsc::UnboundedSender<String>) -> Arc<ObjectApi> {
    let service = tower::service_fn(move |request: Request<Body>| {
        let asked = asked.clone();
        async move {
            let _ = asked.send(request.uri().to_string());
            let answer: Result<Response<Body>, std::io::Error> = std::future::pending().await;
            drop(asked);
            answer
        }
    });
    let api = ObjectApi::new(kube::Client::new(service, "default"));
    Arc::new(api.with_patience(Duration::from_secs(3600)))
}

fn world() -> World {
    let options = FederationOptions::new(api(mpsc::unbounded_channel().0), Home::Embedded);
    World::new(options, "hub".to_owned())
}

/// People go on writing to a hub that was restored, so its own mark passes the one that it found.
#[tokio::test]
async fn newer_state_that_an_earlier_process_found_stops_this_one_until_a_person_decides() {
    let namespace = |resume: Option<&str>| {
        json!({"metadata": {"name": "limen-system", "annotations": {"limen.dev/resume": resume,
            "limen.dev/newer-mark": "2.246", "limen.dev/newer-mark-cluster": "asia-1"}}})
    };
    let mut restarted = world();
    restarted.note_revision("9000");
    restarted.resume_changed(&namespace(None));
    assert!(restarted.newer.is_some());
    restarted.resume_changed(&namespace(Some("2.245")));
    assert!(restarted.newer.is_some(), "that was about an older mark");
    restarted.resume_changed(&namespace(Some("2.246")));
    assert!(restarted.newer.is_none());
    let mut resumed = world();
    resumed.resume_changed(&namespace(Some("2.246")));
    assert!(resumed.newer.is_none());
}

/// Waking up for what cannot begin would be waking up again at once, and so on.
#[tokio::test]
async fn it_wakes_only_for_what_can_begin() {
    let mut world = world();
    let long_due = Instant::now();
    world.records.push_later(Record::Member("asia-1".into()), long_due);
    world.next_renewal = long_due;
    assert!(world.next_wake(0) > long_due, "nothing is written before all has been read");
    world.started = Some(long_due);
    assert_eq!(world.next_wake(0), long_due);
    let all = world.options.concurrency;
    assert!(world.next_wake(all) > long_due, "there is no room for another write");
}

#[tokio::test]
async fn of_two_connections_the_newer_one_stays_whichever_takes_longer() {
    let mut world = world();
    let member = Member::new(serde_json::from_value::<Cluster>(cluster()).unwrap());
    world.members.insert("asia-1".into(), member);
    let mut connections = JoinSet::new();
    for text in ["old", "new"] {
        world.secrets.insert("cluster-asia-1".to_owned(), token(text));
        world.connect(&mut connections);
    }
    let mut made: Vec<Connected> = connections.join_all().await;
    made.sort_by_key(|made| made.connection);
    let [older, newer] = <[Connected; 2]>::try_from(made).ok().unwrap();
    let (before, now) = (older.connection, newer.connection);
    let right = newer.client.clone().unwrap();
    world.connected(newer);
    world.connected(older);
    let client = world.members["asia-1"].client.clone().unwrap();
    assert!(Arc::ptr_eq(&client, &right), "it has the client that was made from old data");

    let inventory = |connection: u64, leaves: usize| {
        let what = MemberNews::Inventory { leaves, missing: BTreeSet::new() };
        MemberEvent { cluster: "asia-1".into(), connection, what }
    };
    world.notice(inventory(now, 1));
    world.notice(inventory(before, 2));
    assert_eq!(world.members["asia-1"].leaves, Some(1), "a connection of before is heard");
}

/// Writes to the hub that hang must not keep members under a hub that does not lead any more.
#[tokio::test]
async fn a_federation_that_ends_lets_go_of_members_first() {
    let (written, mut writes) = mpsc::unbounded_channel();
    let (asked, mut questions) = mpsc::unbounded_channel();
    let member = silent(asked);
    let options = FederationOptions::new(api(written), Home::Embedded);
    let from = serde_json::from_value::<Cluster>(cluster()).unwrap();
    options.connections.put(&from, &token("old"), &member);
    let stopping = CancellationToken::new();
    let running = tokio::spawn(World::new(options, "hub".to_owned()).run(stopping.clone()));
    let next = async |news: &mut mpsc::UnboundedReceiver<String>| {
        tokio::time::timeout(LONG, news.recv()).await.expect("nothing happens")
    };
    assert!(next(&mut writes).await.is_some());
    assert!(next(&mut questions).await.is_some());
    // From here on only those who ask hold on to the member.
    drop(member);
    stopping.cancel();
    let let_go = async { while questions.recv().await.is_some() {} };
    tokio::time::timeout(LONG, let_go).await.expect("the member is still asked");
    tokio::time::timeout(LONG, running).await.expect("it never ends").unwrap();
}

/// A cluster that never comes back must not keep what was never there.
#[tokio::test]
async fn what_is_a_root_no_more_is_let_go_although_a_member_without_it_is_away() {
    let options = FederationOptions::new(api(mpsc::unbounded_channel().0), Home::Existing);
    let mut world = World::new(options, "hub".to_owned());
    let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
    world.sources.insert(kind.clone(), Source::Native);
    let id =
        ObjectId { kind: kind.clone(), namespace: Some("shop".to_owned()), name: "web".to_owned() };
    let object = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u-1",
        "finalizers": [limen_api::FINALIZER]}});
    world.root_changed(&id, object);
    for known in [false, true] {
        let mut member = Member::new(serde_json::from_value(cluster()).unwrap());
        member.connect_error = Some("away".to_owned());
        member.listed.extend(known.then(|| kind.clone()));
        world.members.insert("asia-1".into(), member);
        world.dirty.insert(Arc::new(id.clone()));
        world.plan_dirty();
        let root = &world.roots[&id];
        assert_eq!((root.ended, root.finished), (true, known), "what it holds is known: {known}");
    }
}
