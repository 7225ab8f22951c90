//! When the task wakes, and how it ends.

use std::collections::BTreeMap;
use std::sync::Mutex;

use http::{Method, Request, Response};
use kube::client::Body;
use limen_api::dialect::Home;
use limen_sync::ObjectApi;
use serde_json::json;

use super::*;
use crate::outbox::root::RootWrite;

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

/// The version of an object that was patched.
const WRITTEN: &str = "99";

/// Objects by path. It lists them, tells of no change, and merges patches that name no other version
/// than an object has. The first patch of each path is kept.
#[derive(Default)]
struct Store {
    objects: BTreeMap<String, Value>,
    patches: BTreeMap<String, Value>,
}

impl Store {
    fn answer(&mut self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        let failure = |code: u16, reason: &str| {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "reason": reason, "code": code});
            (code, status)
        };
        let object = path.strip_suffix("/status").unwrap_or(path);
        match *method {
            Method::GET if self.objects.contains_key(path) => (200, self.objects[path].clone()),
            // Lists of all namespaces.
            Method::GET => {
                let (group, plural) = path.rsplit_once('/').unwrap();
                let of_kind = |path: &&String| {
                    path.starts_with(group) && path.rsplit('/').nth(1) == Some(plural)
                };
                let listed: Vec<_> = self.objects.keys().filter(of_kind).collect();
                let items: Vec<_> = listed.into_iter().map(|path| &self.objects[path]).collect();
                (200, json!({"metadata": {"resourceVersion": "1"}, "items": items}))
            }
            Method::PATCH => {
                self.patches.entry(path.to_owned()).or_insert_with(|| body.clone());
                let known = self.objects.entry(object.to_owned()).or_insert(Value::Null);
                let version = &body["metadata"]["resourceVersion"];
                if version.is_string() && *version != known["metadata"]["resourceVersion"] {
                    return failure(409, "Conflict");
                }
                merge(known, body);
                known["metadata"]["resourceVersion"] = json!(WRITTEN);
                (200, known.clone())
            }
            _ => (201, body.clone()),
        }
    }

    fn client(store: Arc<Mutex<Self>>) -> kube::Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let store = Arc::clone(&store);
            async move {
                let (parts, body) = request.into_parts();
                if parts.uri.query().is_some_and(|query| query.contains("watch=true")) {
                    return std::future::pending().await;
                }
                let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let (code, answer) =
                    store.lock().unwrap().answer(&parts.method, parts.uri.path(), &body);
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, std::io::Error>(Response::builder().status(code).body(answer).unwrap())
            }
        });
        kube::Client::new(service, "default")
    }
}

fn merge(known: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else { return *known = patch.clone() };
    if !known.is_object() {
        *known = json!({});
    }
    for (name, value) in fields {
        merge(&mut known[name], value);
    }
}

/// A request of an earlier leader that arrives late is refused, whatever it says.
#[tokio::test(start_paused = true)]
async fn statuses_and_records_are_written_over_the_version_that_was_read() {
    const OWN: &str = "/apis/limen.dev/v1alpha1";
    let rules = json!([{"host": "shop.test", "http": {"paths": [{"path": "/", "pathType": "Prefix",
        "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]);
    let global = json!({"rules": [{"host": "shop.test", "paths": [
        {"path": "/", "pathType": "Prefix", "backend": "web:80"}]}],
        "backends": [{"name": "web:80", "targets": [{"cluster": "asia-1"}]}]});
    let record = json!({"root": {"name": "web"}, "clusters": [
        {"cluster": "asia-1", "state": "Synced"}]});
    let objects = [
        (
            format!("{OWN}/clusters/asia-1"),
            json!({"endpoint": "https://127.0.0.1:1",
            "insecureSkipTlsVerify": true, "credentials": {"name": "cluster-asia-1"}}),
        ),
        ("/api/v1/namespaces/limen-system/secrets/cluster-asia-1".to_owned(), json!({})),
        (
            "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web".to_owned(),
            json!({"rules": rules}),
        ),
        (
            format!("{OWN}/namespaces/shop/federatedingresses/form"),
            json!({"template": {"spec": {"rules": rules}}}),
        ),
        (format!("{OWN}/namespaces/shop/globalingresses/web"), global),
        (format!("{OWN}/namespaces/shop/placementpolicies/place"), json!({})),
        (format!("{OWN}/namespaces/shop/trafficpolicies/traffic"), json!({})),
        (format!("{OWN}/namespaces/shop/federatedstatuses/ingress.web"), record),
    ];
    let mut store = Store::default();
    for (number, (path, spec)) in objects.into_iter().enumerate() {
        let names: Vec<&str> = path.split('/').collect();
        let namespace = names.iter().position(|name| *name == "namespaces").map(|at| names[at + 1]);
        let uid = "ingress";
        let object = json!({"spec": spec, "data": {"token": "b2xk"}, "metadata": {
            "name": names.last(), "namespace": namespace, "uid": uid,
            "resourceVersion": (10 + number).to_string(), "labels": {"limen.dev/root-uid": uid},
            "finalizers": ["limen.dev/member", "limen.dev/leaves"],
            "ownerReferences": [{"uid": uid}]}});
        store.objects.insert(path, object);
    }
    let store = Arc::new(Mutex::new(store));
    let api = ObjectApi::new(Store::client(Arc::clone(&store)));
    let mut options = HubOptions::new(api, Home::Embedded);
    let member = silent(mpsc::unbounded_channel().0);
    options.connector = Some(Arc::new(move |_, _| Ok(member.clone())));
    let stopping = CancellationToken::new();
    let running = tokio::spawn(Task::run(options, "hub".to_owned(), stopping.clone()));
    tokio::time::sleep(LONG).await;
    stopping.cancel();
    running.await.unwrap();
    let patches = std::mem::take(&mut store.lock().unwrap().patches);
    let of_statuses =
        |path: &String| path.ends_with("/status") || path.contains("/federatedstatuses/");
    let written: BTreeMap<&str, &str> = patches
        .iter()
        .filter(|(path, _)| of_statuses(path))
        .map(|(path, patch)| {
            (path.as_str(), patch["metadata"]["resourceVersion"].as_str().unwrap_or("none"))
        })
        .collect();
    let expected = [
        ("/apis/limen.dev/v1alpha1/clusters/asia-1/status", "10"),
        ("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web/status", "12"),
        ("/apis/limen.dev/v1alpha1/namespaces/shop/federatedingresses/form/status", "13"),
        // The answer to its apply.
        ("/apis/limen.dev/v1alpha1/namespaces/shop/globalingresses/web/status", WRITTEN),
        ("/apis/limen.dev/v1alpha1/namespaces/shop/placementpolicies/place/status", "15"),
        ("/apis/limen.dev/v1alpha1/namespaces/shop/trafficpolicies/traffic/status", "16"),
        ("/apis/limen.dev/v1alpha1/namespaces/shop/federatedstatuses/ingress.web", "17"),
    ];
    assert_eq!(written, BTreeMap::from(expected));
}

/// Nothing else writes records, so a leader that meets another version replaces it.
#[tokio::test]
async fn a_record_of_another_version_is_read_before_it_is_replaced() {
    let path = "/apis/limen.dev/v1alpha1/namespaces/shop/federatedstatuses/configmap.web";
    let record = |version: &str, message: &str| {
        json!({"metadata": {"name": "configmap.web", "namespace": "shop",
            "resourceVersion": version}, "spec": {"message": message}})
    };
    let mut store = Store::default();
    store.objects.insert(path.to_owned(), record("20", "of an earlier leader"));
    let store = Arc::new(Mutex::new(store));
    let api = ObjectApi::new(Store::client(Arc::clone(&store)));
    let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
    let id = ObjectId { kind, namespace: Some("shop".to_owned()), name: "web".to_owned() };
    let report = Some(record("17", "of this leader"));
    let write = RootWrite { report, ..RootWrite::default() };
    let written = write.send(&api, &id, &Value::Null).await;
    assert!(written.error.is_none(), "{:?}", written.error);
    assert_eq!(written.report, Some(record(WRITTEN, "of this leader")));
    assert_eq!(store.lock().unwrap().objects[path], record(WRITTEN, "of this leader"));
}
