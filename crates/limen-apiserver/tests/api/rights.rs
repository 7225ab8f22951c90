//! Rights: what they are for, and when they begin and end.

use std::time::{Duration, Instant};

use http::Request;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::server::Hub;
use crate::trick_store::{Failing, TrickStore};

const TOKENS: &str = "token-1,ann,1\n";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";

/// Sends a request; the status of the answer.
async fn send(client: &Client, method: &str, path: &str, media: &str, body: &Value) -> u16 {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    let response = client.send(request.body(Body::from(body)).unwrap()).await.unwrap();
    response.status().as_u16()
}

async fn post(client: &Client, path: &str, body: &Value) -> u16 {
    send(client, "POST", path, "application/json", body).await
}

async fn get(client: &Client, path: &str) -> u16 {
    send(client, "GET", path, "application/json", &Value::Null).await
}

async fn delete(client: &Client, path: &str) -> u16 {
    send(client, "DELETE", path, "application/json", &Value::Null).await
}

fn binding() -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({
        "metadata": {"name": "ann"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "ann"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "ann"}],
    })
}

/// Makes a role with rules for ConfigMaps, and gives it to Ann.
async fn allow(hub: &Hub, rules: &[Value]) {
    let mut rules = rules.to_vec();
    for rule in &mut rules {
        rule["apiGroups"] = json!([""]);
        rule["resources"] = json!(["configmaps"]);
    }
    let role = json!({"metadata": {"name": "ann"}, "rules": rules});
    assert_eq!(post(&hub.client, &format!("{RBAC}/roles"), &role).await, 201);
    assert_eq!(post(&hub.client, &format!("{RBAC}/rolebindings"), &binding()).await, 201);
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_selector_names_what_is_read_and_not_what_is_written() {
    let (_, hub) = TrickStore::serve(TOKENS).await;
    let verbs = ["list", "watch", "create", "deletecollection"];
    allow(&hub, &[json!({"verbs": verbs, "resourceNames": ["mine"]})]).await;
    let ann = hub.client_with("token-1");
    let mine = "fieldSelector=metadata.name%3Dmine";

    assert_eq!(get(&ann, &format!("{MAPS}?{mine}")).await, 200);
    assert_eq!(get(&ann, MAPS).await, 403);
    assert_eq!(post(&ann, &format!("{MAPS}?{mine}"), &map("other")).await, 403);
    assert_eq!(delete(&ann, &format!("{MAPS}?{mine}")).await, 403);
    let old = MAPS.replace("v1", "v1/watch");
    assert_eq!(get(&ann, &format!("{old}?{mine}&timeoutSeconds=1")).await, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_patch_may_not_create_by_applying() {
    let (_, hub) = TrickStore::serve(TOKENS).await;
    allow(&hub, &[json!({"verbs": ["patch"]})]).await;
    let ann = hub.client_with("token-1");
    let apply = async |name: &str, object: &Value| {
        let path = format!("{MAPS}/{name}?fieldManager=ann");
        send(&ann, "PATCH", &path, "application/apply-patch+yaml", object).await
    };
    assert_eq!(apply("a", &map("a")).await, 403);
    assert_eq!(get(&hub.client, &format!("{MAPS}/a")).await, 404);
    // What is wrong with the object is said first.
    let mut wrong = map("b");
    wrong["data"] = json!({"no key": "1"});
    assert_eq!(apply("b", &wrong).await, 422);
    assert_eq!(post(&hub.client, MAPS, &map("a")).await, 201);
    assert_eq!(apply("a", &map("a")).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_end_before_their_end_is_answered() {
    let (_, hub) = TrickStore::serve(TOKENS).await;
    allow(&hub, &[json!({"verbs": ["list"]})]).await;
    let ann = hub.client_with("token-1");
    let bindings = format!("{RBAC}/rolebindings");
    let one = format!("{bindings}/ann");
    for path in [&one, &bindings].repeat(10) {
        assert_eq!(get(&ann, MAPS).await, 200);
        assert_eq!(delete(&hub.client, path).await, 200);
        assert_eq!(get(&ann, MAPS).await, 403);
        assert_eq!(post(&hub.client, &bindings, &binding()).await, 201);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_learned_at_once_is_learned_later() {
    let (store, hub) = TrickStore::serve(TOKENS).await;
    allow(&hub, &[json!({"verbs": ["list"]})]).await;
    let ann = hub.client_with("token-1");
    assert_eq!(get(&ann, MAPS).await, 200);

    // The binding is gone, whatever the server can read of it.
    store.fail(Some(Failing::Ranges("rbac.authorization.k8s.io/")));
    assert_eq!(delete(&hub.client, &format!("{RBAC}/rolebindings/ann")).await, 200);
    assert_eq!(get(&ann, MAPS).await, 200, "the store does not fail");
    // Who follows the changes of others has tried too.
    store.has_failed(2).await;
    store.fail(None);
    let deadline = Instant::now() + Duration::from_secs(30);
    while get(&ann, MAPS).await != 403 {
        assert!(Instant::now() < deadline, "the right is still in force");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
