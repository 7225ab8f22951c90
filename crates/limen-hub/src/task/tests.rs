//! When the task wakes, and how it ends.

use std::sync::Mutex;

use http::{Method, Request, Response};
use kube::client::Body;
use limen_api::dialect::Home;
use limen_sync::ObjectApi;
use serde_json::json;

use super::*;

/// How long anything may take: far longer than it does, since machines are slow at times.
const LONG: Duration = Duration::from_secs(60);

fn cluster() -> Value {
    json!({"metadata": {"name": "asia-1", "resourceVersion": "1"},
        "spec": {"endpoint": "https://127.0.0.1:1", "insecureSkipTlsVerify": true,
            "credentials": {"name": "cluster-asia-1"}}})
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

/// A member that answers nothing. Its requests are dropped with their senders.
fn silent(asked: mpsc::UnboundedSender<String>) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let asked = asked.clone();
        async move {
            let _ = asked.send(request.uri().to_string());
            let answer: Result<Response<Body>, std::io::Error> = std::future::pending().await;
            drop(asked);
            answer
        }
    });
    kube::Client::new(service, "default")
}

fn options() -> HubOptions {
    HubOptions::new(api(mpsc::unbounded_channel().0), Home::Embedded)
}

/// Waking up for what cannot begin would be waking up again at once, and so on.
#[tokio::test]
async fn it_wakes_only_for_what_can_begin() {
    let (mut task, _inbox) = Task::new(options(), "hub".to_owned());
    let now = Instant::now();
    task.federation.records.push_later(Record::Member("asia-1".into()), now);
    task.write();
    assert!(task.next_wake() > now, "nothing is written before all has been read");
    task.outbox.take(&mut task.federation.records);
    assert_eq!(task.next_wake(), now);
    for number in 0..options().concurrency {
        let name = Record::Hold(number.to_string().into());
        task.outbox.start(name, Some(Box::pin(std::future::pending())));
    }
    assert!(task.next_wake() > now, "there is no room for another write");
}

/// Leaves and clients wait for some records; statuses wait for both.
#[tokio::test]
async fn the_most_urgent_record_is_written_first() {
    let (mut task, _inbox) = Task::new(options(), "hub".to_owned());
    let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
    let name = "web".to_owned();
    let root = Arc::new(ObjectId { kind, namespace: Some("shop".to_owned()), name: name.clone() });
    let key = || ("shop".to_owned(), name.clone());
    let urgent_first = [
        Record::Ledger,
        Record::Hold("large-removal".into()),
        Record::Finalizer(root.clone()),
        Record::Global(key()),
        Record::Member("asia-1".into()),
        Record::Root(root),
        Record::PlacementPolicy(key()),
    ];
    for record in urgent_first.iter().rev() {
        task.traffic.records.push(record.clone());
    }
    task.outbox.take(&mut task.traffic.records);
    let written: Vec<_> = std::iter::from_fn(|| task.outbox.next()).collect();
    assert_eq!(written, urgent_first);
}

/// Writes to the hub that hang must not keep members under a hub that does not lead any more.
#[tokio::test]
async fn a_hub_that_ends_lets_go_of_members_first() {
    let (written, mut writes) = mpsc::unbounded_channel();
    let (asked, mut questions) = mpsc::unbounded_channel();
    // From the first connection on, only those who ask hold on to the member.
    let member = Mutex::new(Some(silent(asked)));
    let mut options = HubOptions::new(api(written), Home::Embedded);
    options.connector = Some(Arc::new(move |_, _| {
        Ok(member.lock().unwrap().take().expect("a member is connected once"))
    }));
    let stopping = CancellationToken::new();
    let running = tokio::spawn(Task::run(options, "hub".to_owned(), stopping.clone()));
    let next = async |news: &mut mpsc::UnboundedReceiver<String>| {
        tokio::time::timeout(LONG, news.recv()).await.expect("nothing happens")
    };
    assert!(next(&mut writes).await.is_some());
    assert!(next(&mut questions).await.is_some());
    stopping.cancel();
    let let_go = async { while questions.recv().await.is_some() {} };
    tokio::time::timeout(LONG, let_go).await.expect("the member is still asked");
    tokio::time::timeout(LONG, running).await.expect("it never ends").unwrap();
}
