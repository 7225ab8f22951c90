//! The audit log of a server: who did what, and nothing of what is secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Method, Request};
use kube::client::Body;
use serde_json::{Value, json};

use crate::server::{Hub, options, store};

const PASSWORD: &str = "correct-horse-battery-staple";

/// Sends a request; returns what the server calls it, and the status.
async fn send(hub: &Hub, method: Method, path: &str, body: Option<Value>) -> (String, u16) {
    let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .header("user-agent", "auditor/1.0")
        .body(Body::from(body))
        .unwrap();
    let response = hub.client.send(request).await.unwrap();
    let id = response.headers()["audit-id"].to_str().unwrap().to_owned();
    (id, response.status().as_u16())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_is_one_line_without_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let mut settings = options(folder.path(), Arc::new(store(folder.path())));
    settings.audit_log = Some(log.clone());
    let hub = Hub::start_with(folder, settings).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": PASSWORD}});
    let account = json!({"metadata": {"name": "robot"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let token = json!({"spec": {"token": PASSWORD}});
    let requests = [
        (Method::POST, secrets.to_owned(), Some(secret.clone()), "create"),
        (Method::POST, secrets.to_owned(), Some(secret), "create"),
        (Method::GET, format!("{secrets}/s"), None, "get"),
        (Method::GET, secrets.to_owned(), None, "list"),
        (Method::GET, format!("{secrets}?watch=true&timeoutSeconds=1"), None, "watch"),
        (Method::GET, format!("{secrets}/nothing?access_token={PASSWORD}"), None, "get"),
        (Method::POST, accounts.to_owned(), Some(account), "create"),
        (Method::POST, format!("{accounts}/robot/token"), Some(json!({})), "create"),
        (
            Method::POST,
            "/apis/authentication.k8s.io/v1/tokenreviews".to_owned(),
            Some(token),
            "create",
        ),
        (Method::DELETE, format!("{secrets}/s"), None, "delete"),
        (Method::GET, "/version".to_owned(), None, "get"),
        (Method::GET, "/nothing".to_owned(), None, "get"),
    ];
    let mut expected = BTreeMap::new();
    for (method, path, body, verb) in requests {
        let (id, code) = send(&hub, method, &path, body).await;
        assert!(expected.insert(id, (verb, code)).is_none(), "two requests have one name");
    }
    let Hub { server, client, folder: _folder } = hub;
    drop(client);
    server.stop().await;

    let text = std::fs::read_to_string(&log).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ours = events.iter().filter(|event| event["userAgent"] == "auditor/1.0");
    let mut seen = BTreeMap::new();
    for event in ours {
        let code = event["responseStatus"]["code"].as_u64().unwrap() as u16;
        let id = event["auditID"].as_str().unwrap().to_owned();
        assert!(seen.insert(id, (event["verb"].as_str().unwrap(), code)).is_none(), "{event}");
        assert_eq!(event["level"], "Metadata");
        assert_eq!(event["user"]["username"], "kubernetes-admin");
        assert!(event.get("requestObject").is_none() && event.get("responseObject").is_none());
    }
    assert_eq!(seen, expected);
    for hidden in [PASSWORD, &base64(PASSWORD), "eyJhbGciOi"] {
        assert!(!text.contains(hidden), "the log has {hidden}");
    }
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::prelude::BASE64_STANDARD.encode(text)
}
