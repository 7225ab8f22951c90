//! Tokens of service accounts, and reviews of them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::DeleteParams;
use limen_store::{Store, Txn};
use serde_json::{Value, json};

use crate::server::{Hub, options, store};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

async fn post(hub: &Hub, path: &str, body: Value) -> Value {
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(body.to_string().into_bytes()).unwrap();
    hub.client.request(request).await.unwrap()
}

async fn review(hub: &Hub, token: &str, audiences: Value) -> Value {
    let spec = json!({"token": token, "audiences": audiences});
    let answer = post(hub, REVIEWS, json!({"spec": spec})).await;
    assert_eq!((&answer["kind"], &answer["spec"]["token"]), (&json!("TokenReview"), &json!(token)));
    answer["status"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_known_as_long_as_its_account() {
    let hub = Hub::start().await;
    let accounts: Api<ServiceAccount> = Api::default_namespaced(hub.client.clone());
    let robot = serde_json::from_value(json!({"metadata": {"name": "robot"}})).unwrap();
    let robot = accounts.create(&Default::default(), &robot).await.unwrap();
    let path = "/api/v1/namespaces/default/serviceaccounts/robot/token";
    let issued = post(&hub, path, json!({})).await;
    let token = issued["status"]["token"].as_str().unwrap();

    let status = review(&hub, token, json!([])).await;
    assert_eq!(status["authenticated"], true);
    let user = &status["user"];
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    assert_eq!(user["uid"].as_str(), robot.metadata.uid.as_deref());
    let groups =
        ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"];
    assert_eq!(user["groups"], json!(groups));

    accounts.delete("robot", &DeleteParams::default()).await.unwrap();
    let status = review(&hub, token, json!([])).await;
    assert_ne!(status["authenticated"], true, "{status}");
    assert!(status.get("user").is_none_or(|user| user.get("username").is_none()), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_ends_while_its_account_is_still_being_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(store(folder.path()));
    let settings = options(folder.path(), store.clone());
    let hub = Hub::start_with(folder, settings).await;
    let accounts: Api<ServiceAccount> = Api::default_namespaced(hub.client.clone());
    let robot = json!({"metadata": {"name": "robot", "finalizers": ["example.com/slow"]}});
    let robot = serde_json::from_value(robot).unwrap();
    accounts.create(&Default::default(), &robot).await.unwrap();
    let path = "/api/v1/namespaces/default/serviceaccounts/robot/token";
    let issued = post(&hub, path, json!({})).await;
    let token = issued["status"]["token"].as_str().unwrap();
    accounts.delete("robot", &DeleteParams::default()).await.unwrap();
    // For a minute, what it began may be finished.
    assert_eq!(review(&hub, token, json!([])).await["authenticated"], true);

    let key = "core/serviceaccounts/default/robot";
    let entry = store.get(key.as_bytes(), None).await.unwrap().unwrap();
    let mut account: Value = serde_json::from_slice(&entry.value).unwrap();
    assert!(account["metadata"]["deletionTimestamp"].is_string(), "{account}");
    account["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z".into();
    store.commit(Txn::update(key, account.to_string(), entry.modified)).await.unwrap();
    let status = review(&hub, token, json!([])).await;
    assert_ne!(status["authenticated"], true, "{status}");
    let refusal = hub.client_with(token).apiserver_version().await.unwrap_err().to_string();
    assert!(refusal.contains("Unauthorized"), "{refusal}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_for_its_audience_only() {
    let hub = Hub::start().await;
    let accounts: Api<ServiceAccount> = Api::default_namespaced(hub.client.clone());
    let robot = serde_json::from_value(json!({"metadata": {"name": "robot"}})).unwrap();
    accounts.create(&Default::default(), &robot).await.unwrap();
    let path = "/api/v1/namespaces/default/serviceaccounts/robot/token";
    let issued = post(&hub, path, json!({"spec": {"audiences": ["vault"]}})).await;
    let token = issued["status"]["token"].as_str().unwrap();

    let status = review(&hub, token, json!(["vault", "other"])).await;
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!(["vault"])));
    for audiences in [json!([]), json!(["other"])] {
        let status = review(&hub, token, audiences).await;
        assert_ne!(status["authenticated"], true, "{status}");
        assert!(status["error"].as_str().is_some_and(|error| !error.is_empty()), "{status}");
    }
    // Nor does it open this server.
    let refusal = hub.client_with(token).apiserver_version().await.unwrap_err().to_string();
    assert!(refusal.contains("Unauthorized"), "{refusal}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_is_nobodys_token() {
    let hub = Hub::start().await;
    let status = review(&hub, "nonsense", json!([])).await;
    assert_ne!(status["authenticated"], true);
    assert!(status["error"].as_str().unwrap().contains("invalid bearer token"), "{status}");
}
