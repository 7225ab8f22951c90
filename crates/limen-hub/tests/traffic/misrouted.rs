//! A hub whose API is behind somebody who loses the way for a moment.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use kube::client::Body;
use limen_api::dialect::Home;
use limen_core::leaf::ROOT_LABEL;
use limen_hub::{Hub, HubOptions};
use limen_sync::ObjectApi;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// How long anything may take: far longer than it does, since machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(60);

fn root() -> Value {
    json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u-1",
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"rules": [{"host": "web.test", "http": {"paths": [{"path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}})
}

fn global() -> Value {
    let address = json!({"host": "192.0.2.1", "port": 80});
    json!({"metadata": {"name": "web", "namespace": "shop", "uid": "g-1", "labels": {ROOT_LABEL: "u-1"}},
        "spec": {"backends": [{"name": "web:80", "targets": [{"cluster": "c1", "addresses": [address]}]}]}})
}

/// An API in whose place somebody else answers, who has heard of nothing, when it is first asked for
/// Ingresses and when it is first told of a change. It tells what is changed, and may hang then.
fn hub(changes: mpsc::UnboundedSender<Method>, hangs: bool) -> kube::Client {
    let asked = Arc::new(Mutex::new(HashSet::new()));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (changes, asked) = (changes.clone(), asked.clone());
        async move {
            if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                return std::future::pending().await;
            }
            let path = request.uri().path().to_owned();
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            let items = match name.as_str() {
                "ingresses" => vec![root()],
                "globalingresses" => vec![global()],
                _ => vec![],
            };
            if name == "kube-system" {
                let namespace = json!({"metadata": {"name": name, "uid": "hub"}}).to_string();
                return Ok(Response::new(Body::from(namespace.into_bytes())));
            }
            let again = !asked.lock().unwrap().insert(path.clone());
            let change = *request.method() != Method::GET && path.contains("/globalingresses/");
            if change {
                let _ = changes.send(request.method().clone());
                if hangs {
                    return std::future::pending().await;
                }
            }
            if (change || name == "ingresses") && !again {
                let lost = Body::from(b"404 page not found\n".to_vec());
                return Ok(Response::builder().status(404).body(lost).unwrap());
            }
            let list = json!({"metadata": {"resourceVersion": "5"}, "items": items});
            let body = Body::from(list.to_string().into_bytes());
            Ok::<_, std::io::Error>(Response::new(body))
        }
    });
    kube::Client::new(service, "default")
}

/// A hub that federates nothing and compiles everything.
async fn start(api: ObjectApi) -> Hub {
    Hub::start(HubOptions::new(api, Home::Existing)).await.unwrap()
}

#[tokio::test]
async fn what_somebody_else_has_not_heard_of_is_neither_gone_nor_given_up() {
    let (changes, mut changed) = mpsc::unbounded_channel();
    let hub = start(ObjectApi::new(hub(changes, false))).await;
    let first = tokio::time::timeout(PATIENCE, changed.recv()).await.expect("nothing is changed");
    assert_eq!(first, Some(Method::PATCH), "its only cluster is gone, and that is written");
    let second = tokio::time::timeout(PATIENCE, changed.recv()).await;
    assert_eq!(second.expect("nobody tries again"), Some(Method::PATCH));
    hub.stop().await;
}

/// Another hub may lead before they end.
#[tokio::test]
async fn writes_that_hang_do_not_keep_a_hub_from_ending() {
    let (changes, mut changed) = mpsc::unbounded_channel();
    let api = ObjectApi::new(hub(changes, true)).with_patience(Duration::from_secs(3600));
    let hub = start(api).await;
    let first = tokio::time::timeout(PATIENCE, changed.recv()).await.expect("nothing is changed");
    assert_eq!(first, Some(Method::PATCH));
    tokio::time::timeout(PATIENCE, hub.stop()).await.expect("it never ends");
}
