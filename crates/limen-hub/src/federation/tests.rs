//! Connections that are believed, and roots that end.

use http::{Request, Response};
use kube::client::Body;
use limen_api::Cluster;
use limen_api::dialect::Home;
use limen_sync::MemberNews;
use serde_json::json;

use super::members::Connected;
use super::*;
use crate::clusters::Member;

fn cluster() -> Value {
    json!({"metadata": {"name": "asia-1", "resourceVersion": "1"},
        "spec": {"endpoint": "https://127.0.0.1:1", "insecureSkipTlsVerify": true,
            "credentials": {"name": "cluster-asia-1"}}})
}

fn token(text: &str) -> SecretData {
    SecretData::from([("token".to_owned(), text.as_bytes().to_vec())])
}

/// An API that answers nothing.
fn api() -> ObjectApi {
    let service = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, std::io::Error>>()
    });
    ObjectApi::new(kube::Client::new(service, "default"))
}

fn start(home: Home) -> Federation {
    let options = Arc::new(HubOptions::new(api(), home));
    let (notices, observations) = (mpsc::unbounded_channel().0, mpsc::channel(1).0);
    Federation::new(options, "hub".to_owned(), notices, observations)
}

/// People go on writing to a hub that was restored, so its own mark passes the one that it found.
#[tokio::test]
async fn newer_state_that_an_earlier_process_found_stops_this_one_until_a_person_decides() {
    let namespace = |resume: Option<&str>| {
        json!({"metadata": {"name": "limen-system", "annotations": {"limen.dev/resume": resume,
            "limen.dev/newer-mark": "2.246", "limen.dev/newer-mark-cluster": "asia-1"}}})
    };
    let mut restarted = start(Home::Embedded);
    restarted.note_revision("9000");
    restarted.resume_changed(&namespace(None));
    assert!(restarted.newer.is_some());
    restarted.resume_changed(&namespace(Some("2.245")));
    assert!(restarted.newer.is_some(), "that was about an older mark");
    restarted.resume_changed(&namespace(Some("2.246")));
    assert!(restarted.newer.is_none());
    let mut resumed = start(Home::Embedded);
    resumed.resume_changed(&namespace(Some("2.246")));
    assert!(resumed.newer.is_none());
}

#[tokio::test]
async fn of_two_connections_the_newer_one_stays_whichever_takes_longer() {
    let mut federation = start(Home::Embedded);
    let member = Member::new(Arc::new(serde_json::from_value::<Cluster>(cluster()).unwrap()));
    federation.members.insert("asia-1".into(), member);
    let mut connections = JoinSet::new();
    for text in ["old", "new"] {
        federation.secrets.insert("cluster-asia-1".to_owned(), token(text));
        federation.connect(&mut connections);
    }
    let mut made: Vec<Connected> = connections.join_all().await;
    made.sort_by_key(|made| made.connection);
    let [older, newer] = <[Connected; 2]>::try_from(made).ok().unwrap();
    let (before, now) = (older.connection, newer.connection);
    let right = newer.client.clone().unwrap();
    federation.connected(newer);
    federation.connected(older);
    let client = federation.members["asia-1"].client.clone().unwrap();
    assert!(Arc::ptr_eq(&client, &right), "it has the client that was made from old data");

    let inventory = |connection: u64, leaves: usize| {
        let what = MemberNews::Inventory { leaves, missing: BTreeSet::new() };
        MemberEvent { cluster: "asia-1".into(), connection, what }
    };
    federation.notice(inventory(now, 1));
    federation.notice(inventory(before, 2));
    assert_eq!(federation.members["asia-1"].leaves, Some(1), "a connection of before is heard");
}

/// A cluster that never comes back must not keep what was never there.
#[tokio::test]
async fn what_is_a_root_no_more_is_let_go_although_a_member_without_it_is_away() {
    let mut federation = start(Home::Existing);
    let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
    federation.sources.insert(kind.clone(), Source::Native);
    let id =
        ObjectId { kind: kind.clone(), namespace: Some("shop".to_owned()), name: "web".to_owned() };
    let object = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u-1",
        "finalizers": [limen_api::FINALIZER]}});
    federation.root_changed(&id, Arc::new(object));
    for known in [false, true] {
        let mut member = Member::new(Arc::new(serde_json::from_value(cluster()).unwrap()));
        member.connect_error = Some("away".to_owned());
        member.listed.extend(known.then(|| kind.clone()));
        federation.members.insert("asia-1".into(), member);
        federation.dirty.insert(Arc::new(id.clone()));
        federation.plan_dirty();
        let root = &federation.roots[&id];
        assert_eq!((root.ended, root.finished), (true, known), "what it holds is known: {known}");
    }
}

/// The syncer knows it, and goes with its connection.
#[tokio::test]
async fn a_job_that_went_unwatched_is_not_created_by_the_next_connection() {
    let mut federation = start(Home::Embedded);
    let kind = limen_api::kind(("batch/v1", "Job", "jobs", true));
    federation.sources.insert(kind.clone(), Source::Native);
    let member: Cluster = serde_json::from_value(cluster()).unwrap();
    federation.cluster_changed(&"asia-1".into(), Arc::new(member));
    let id = ObjectId { kind, namespace: Some("shop".to_owned()), name: "once".to_owned() };
    let object = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {}, "metadata": {
        "name": "once", "namespace": "shop", "uid": "u-1",
        "finalizers": [limen_api::FINALIZER]}});
    federation.root_changed(&id, Arc::new(object));
    federation.plan_dirty();
    let creates = |federation: &Federation| {
        let desired = &federation.roots[&id].desired["asia-1"].desired;
        matches!(desired, limen_sync::Desired::Leaf { create: true, .. })
    };
    for held in [true, false] {
        assert!(creates(&federation), "held before: {held}");
        let report = limen_sync::Report {
            held_for: held.then(|| "u-1".into()),
            state: Some(limen_api::LeafState::Synced),
            message: String::new(),
            status: None,
            current: true,
            applied: None,
            adopted: false,
        };
        let what = MemberNews::Leaf(Arc::new(id.clone()), report);
        federation.notice(MemberEvent { cluster: "asia-1".into(), connection: 0, what });
        federation.plan_dirty();
    }
    assert!(!creates(&federation));
}

#[tokio::test]
async fn forms_of_a_kind_stay_with_it_when_a_kind_of_its_name_in_another_group_is_federated() {
    let mut federation = start(Home::Embedded);
    let core = limen_api::kind(("v1", "Service", "services", true));
    let other = limen_api::kind(("serving.knative.dev/v1", "Service", "services", true));
    federation.federate_kind(&other);
    assert_eq!(federation.sources.get(&core), Some(&Source::Native));
    assert_eq!(federation.sources.get(&other), Some(&Source::Native));
    for (form, source) in sources_of(&core) {
        assert_eq!(federation.sources.get(&form), Some(&source), "{form:?}");
    }
}

/// The wall clock is set by an hour, forwards and back, while a member is away.
#[tokio::test(start_paused = true)]
async fn an_absence_that_this_hub_observed_is_as_long_as_it_was_whatever_the_clock_says() {
    let judged = |verdict, since| limen_sync::ApiVerdict {
        judged: limen_core::health::Judged { verdict, against: 0, since },
        error: None,
    };
    let mut member = Member::new(Arc::new(serde_json::from_value(cluster()).unwrap()));
    member.verdict = Some(judged(limen_core::global::Verdict::Unhealthy, 10_000));
    member.unhealthy_from = Some(Instant::now());
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(member.absence(10_000 + 60 + 3600), Some(60));
    assert_eq!(member.absence(10_000 + 60 - 3600), Some(60));
    member.absent_since = Some(6000);
    assert_eq!(member.absence(10_060), Some(4060), "it began in the time of an earlier hub");
    assert_eq!(member.absence(5000), Some(60));
}
