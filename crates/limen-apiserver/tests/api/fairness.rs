//! A server that is asked too much: everybody gets their turn, and who asks most is sent away first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use limen_store::{Entry, Page, Range, RedbStore, Result, Revision, Store, Txn, Watch, WatchFrom};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::server::{Hub, options, store};

/// What a greedy client's objects are called, which the store is slow with.
const GREEDY: &str = "greedy-";

/// What the greedy client watches, which the store is slow with too.
const WATCHED: &str = "core/configmaps/default/";

/// A store that commits what the greedy client writes, and begins watches, only as fast as it is
/// let.
struct SlowStore {
    inner: RedbStore,
    let_in: Arc<Semaphore>,
}

#[async_trait]
impl Store for SlowStore {
    async fn revision(&self) -> Result<Revision> {
        self.inner.revision().await
    }

    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Option<Entry>> {
        self.inner.get(key, at).await
    }

    async fn range(&self, range: Range) -> Result<Page> {
        self.inner.range(range).await
    }

    async fn commit(&self, txn: Txn) -> Result<Revision> {
        let is_greedy = |key: &[u8]| String::from_utf8_lossy(key).contains(GREEDY);
        if txn.writes.iter().any(|write| is_greedy(&write.key)) {
            self.let_in.acquire().await.expect("the semaphore stays open").forget();
        }
        self.inner.commit(txn).await
    }

    async fn watch(&self, from: WatchFrom) -> Result<Watch> {
        if from.prefix == WATCHED {
            self.let_in.acquire().await.expect("the semaphore stays open").forget();
        }
        self.inner.watch(from).await
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.inner.compact(revision).await
    }
}

/// Creates an object; returns the status and what `Retry-After` says.
pub(crate) async fn create(client: Client, name: String) -> (u16, Option<String>) {
    let object = json!({"metadata": {"name": name}}).to_string().into_bytes();
    let request = Request::post("/api/v1/namespaces/default/configmaps")
        .header("content-type", "application/json")
        .body(Body::from(object))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let after = response.headers().get("retry-after");
    (response.status().as_u16(), after.map(|after| after.to_str().unwrap().to_owned()))
}

/// Begins a watch; its answer, whose body goes on.
async fn watch(client: Client) -> Response<Body> {
    let path = "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=1";
    client.send(Request::get(path).body(Body::empty()).unwrap()).await.unwrap()
}

/// A hub on a slow store, with what lets one go on.
async fn slow_hub() -> (Hub, Arc<Semaphore>) {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "token-1,greedy,1\ntoken-2,ann,2\n").unwrap();
    let let_in = Arc::new(Semaphore::new(0));
    let slow = SlowStore { inner: store(folder.path()), let_in: let_in.clone() };
    let mut settings = options(folder.path(), Arc::new(slow));
    settings.token_file = Some(tokens);
    let hub = Hub::start_with(folder, settings).await;
    allow_writes(&hub).await;
    (hub, let_in)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_greedy_client_is_sent_away_and_another_gets_its_turn() {
    let (hub, let_in) = slow_hub().await;

    // All seats are taken by one client, its queue is full, and there is more of it.
    let greedy = hub.client_with("token-1");
    let mut asking = JoinSet::new();
    for n in 0..300 {
        asking.spawn(create(greedy.clone(), format!("{GREEDY}{n}")));
    }
    let mut answers: BTreeMap<u16, usize> = BTreeMap::new();
    let (code, after) = asking.join_next().await.unwrap().unwrap();
    assert_eq!((code, after.as_deref()), (429, Some("1")), "there is room for 300");
    *answers.entry(code).or_default() += 1;

    let ann = hub.client_with("token-2");
    let mut ann = tokio::spawn(create(ann, "modest".to_owned()));
    // She is in the queue: nothing moves yet.
    let early = tokio::time::timeout(Duration::from_millis(300), &mut ann).await;
    assert!(early.is_err(), "all seats are taken");
    let mut released = 0;
    let answer = loop {
        let_in.add_permits(1);
        released += 1;
        if let Ok(answer) = tokio::time::timeout(Duration::from_millis(500), &mut ann).await {
            break answer.unwrap();
        }
        assert!(released < 10, "the other client goes first every time");
    };
    assert_eq!(answer, (201, None));

    let_in.add_permits(1_000);
    while let Some(answer) = asking.join_next().await {
        *answers.entry(answer.unwrap().0).or_default() += 1;
    }
    // Whoever had one of the 200 seats is served. Those who waited may have waited for too long if
    // the machine is slow, and those who came late may have found a place that was freed.
    let served = answers.get(&201).copied().unwrap_or_default();
    assert!((200..300).contains(&served), "{answers:?}");
    assert_eq!(served + answers[&429], 300, "{answers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_waits_for_its_turn_to_begin_and_leaves_its_seat() {
    let (hub, let_in) = slow_hub().await;
    let greedy = hub.client_with("token-1");
    // More than there are seats to read in and places to wait in.
    let mut asking = JoinSet::new();
    for _ in 0..460 {
        asking.spawn(watch(greedy.clone()));
    }
    let refused = tokio::time::timeout(Duration::from_secs(60), asking.join_next()).await;
    let refused = refused.expect("somebody is refused").unwrap().unwrap();
    assert_eq!(refused.status(), 429, "there is room for 460");

    // Watches that have begun and go on are in nobody's way.
    let_in.add_permits(1_000);
    let mut begun = Vec::new();
    while let Some(response) = asking.join_next().await {
        let response = response.unwrap();
        if response.status() == 200 {
            begun.push(response);
        }
    }
    assert!(begun.len() >= 400, "{} watches have begun", begun.len());
    let ann = hub.client_with("token-2");
    assert_eq!(watch(ann).await.status(), 200);
}

pub(crate) async fn allow_writes(hub: &Hub) {
    let binding = json!({
        "metadata": {"name": "writers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": (["greedy", "ann"].map(|name| {
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name})
        })),
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(binding.to_string().into_bytes()).unwrap();
    hub.client.request::<serde_json::Value>(request).await.unwrap();
}
