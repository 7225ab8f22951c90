//! Somebody else answers where a member was.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use limen_core::compile::ObservedKind;
use limen_sync::{ObjectApi, Observation, Observed, observe};
use tokio::sync::{mpsc, watch};

/// How long anything may take: far longer than it does, since machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who answers: the member until `misrouted`, then a proxy that knows nothing, and once it has
/// been asked for all objects of a kind the member again.
fn member(misrouted: watch::Receiver<bool>) -> kube::Client {
    let refused = Arc::new(Mutex::new(HashSet::new()));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (mut misrouted, refused) = (misrouted.clone(), refused.clone());
        async move {
            let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            if watch && misrouted.wait_for(|misrouted| *misrouted).await.is_err() {
                return std::future::pending().await;
            }
            let path = request.uri().path().to_owned();
            let away = *misrouted.borrow() && !refused.lock().unwrap().contains(&path);
            let body = match path.as_str() {
                _ if away => "404 page not found\n",
                _ if watch => return std::future::pending().await,
                "/api/v1/services" => {
                    r#"{"metadata": {"resourceVersion": "5"}, "items": [
                        {"metadata": {"name": "web", "namespace": "shop"}, "spec": {}}]}"#
                }
                _ => r#"{"metadata": {"resourceVersion": "5"}, "items": []}"#,
            };
            if away && !watch {
                refused.lock().unwrap().insert(path);
            }
            let answer = Response::builder().status(if away { 404 } else { 200 });
            Ok::<_, std::io::Error>(answer.body(Body::from(body.as_bytes().to_vec())).unwrap())
        }
    });
    kube::Client::new(service, "default")
}

#[tokio::test]
async fn a_proxy_that_knows_nothing_takes_nothing_away() {
    let (misroute, misrouted) = watch::channel(false);
    let api = ObjectApi::new(member(misrouted));
    let (tell, mut observed) = mpsc::channel::<Observation>(64);
    let observing = tokio::spawn(observe(api, "asia-1".into(), 1, tell));
    let mut services = async || {
        loop {
            let next = tokio::time::timeout(PATIENCE, observed.recv()).await;
            let next = next.expect("nothing is observed any more").expect("somebody observes");
            if let Observed::State(ObservedKind::Service, found) = next.what {
                return found.len();
            }
        }
    };
    assert_eq!(services().await, 1);
    misroute.send_replace(true);
    assert_eq!(services().await, 1, "what comes next is from the member itself");
    observing.abort();
}
