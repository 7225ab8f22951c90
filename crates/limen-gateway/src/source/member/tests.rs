//! A cluster that answers questions and takes no writes.

use std::convert::Infallible;

use bytes::Bytes;
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use futures::stream::{self, BoxStream, Stream};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// How long anything may take: far longer than it does, since machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a list brings.
fn list(path: &str) -> Value {
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": { "name": "web", "namespace": "default", "resourceVersion": "1" },
        "spec": { "ingressClassName": "limen" },
    });
    let items = if path.ends_with("/ingresses") { vec![ingress] } else { Vec::new() };
    json!({ "metadata": { "resourceVersion": "1" }, "items": items })
}

fn member(client: Client) -> Member {
    Member {
        client,
        class: "limen".to_owned(),
        cluster: "here".to_owned(),
        locality: Locality::default(),
        addresses: vec!["192.0.2.1".to_owned()],
    }
}

/// What comes, as it comes.
fn told(bytes: BoxStream<'static, Bytes>) -> StreamBody<impl Stream<Item = Told>> {
    StreamBody::new(bytes.map(|bytes| Ok(Frame::data(bytes))))
}

type Told = Result<Frame<Bytes>, Infallible>;

#[tokio::test]
async fn a_status_that_cannot_be_written_delays_no_route() {
    let (event, events) = unbounded::<Bytes>();
    let events = Arc::new(std::sync::Mutex::new(Some(events)));
    let (patched, mut patches) = mpsc::unbounded_channel();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (events, patched) = (events.clone(), patched.clone());
        async move {
            if *request.method() == Method::PATCH {
                let _ = patched.send(());
                return std::future::pending().await;
            }
            let path = request.uri().path();
            let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let services = || events.lock().ok()?.take().map(UnboundedReceiver::boxed);
            let bytes = match watch {
                false => {
                    let list = Bytes::from(list(path).to_string());
                    stream::once(async { list }).boxed()
                }
                true if path.ends_with("/services") => {
                    services().unwrap_or_else(|| stream::pending().boxed())
                }
                true => stream::pending().boxed(),
            };
            Ok::<_, Infallible>(Response::new(told(bytes)))
        }
    });
    let member = member(Client::new(service, "default"));
    let (publish, mut news) = mpsc::channel(16);
    let (_own, reports) = watch::channel(OwnEdge::default());
    let running = tokio::spawn(Box::new(member).run(publish, reports));
    let mut next = async || {
        let next = tokio::time::timeout(PATIENCE, news.recv()).await;
        assert!(matches!(next, Ok(Some(News::Objects(_)))), "no route comes any more");
    };
    next().await;
    let asked = tokio::time::timeout(PATIENCE, patches.recv()).await;
    assert!(asked.is_ok(), "the status is never written");
    let service = json!({
        "type": "ADDED",
        "object": {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": "web", "namespace": "default", "resourceVersion": "2" },
        },
    });
    event.unbounded_send(format!("{service}\n").into()).unwrap();
    next().await;
    running.abort();
}

#[tokio::test]
async fn another_namespace_takes_neither_a_host_nor_its_certificate() {
    let service = tower::service_fn(async |_: Request<Body>| {
        Ok::<_, Infallible>(Response::new(told(stream::pending().boxed())))
    });
    let member = member(Client::new(service, "default"));
    let ingress = |namespace: &str, class: &str, created: &str| -> Ingress {
        let ingress = json!({
            "metadata": { "name": "web", "namespace": namespace, "creationTimestamp": created },
            "spec": { "ingressClassName": class,
                      "tls": [{ "hosts": ["shop.test"], "secretName": "cert" }],
                      "rules": [{ "host": "shop.test" }] },
        });
        serde_json::from_value(ingress).unwrap()
    };
    let mut index = Index::default();
    for (namespace, class, created) in [
        ("aaa", "limen", "2026-01-03T00:00:00Z"),
        ("other", "other", "2026-01-01T00:00:00Z"),
        ("shop", "limen", "2026-01-02T00:00:00Z"),
    ] {
        let key = (namespace.to_owned(), "web".to_owned());
        index.ingresses.now.insert(key, ingress(namespace, class, created));
    }
    let objects = member.objects(&index);
    let got = objects
        .ingresses
        .iter()
        .map(|((namespace, _), global)| (namespace.as_str(), global.rules.len(), global.tls.len()));
    let got: Vec<_> = got.collect();
    assert_eq!(got, [("aaa", 0, 0), ("shop", 1, 1)], "of another class nobody is in the way");
    assert_eq!(
        objects.denied,
        ["aaa/web: shop.test belongs to the Ingress shop/web, which is older"]
    );
}

#[tokio::test]
async fn a_status_that_cannot_be_written_delays_no_other() {
    let (patched, mut patches) = mpsc::unbounded_channel();
    let service = tower::service_fn(move |request: Request<Body>| {
        let _ = patched.send(request.uri().path().to_owned());
        let failure = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500,
            "reason": "InternalError", "message": "the webhook cannot be called",
        });
        let body = http_body_util::Full::new(Bytes::from(failure.to_string()));
        async move { Ok::<_, Infallible>(Response::builder().status(500).body(body).unwrap()) }
    });
    let member = member(Client::new(service, "default"));
    let [bad, good] = ["bad", "good"].map(|name| ("default".to_owned(), name.to_owned()));
    let (outdated, written) = watch::channel(vec![bad.clone()]);
    let writing = tokio::spawn(async move { status::keep_writing(&member, written).await });
    let mut next = async || {
        let path = tokio::time::timeout(PATIENCE, patches.recv()).await.unwrap().unwrap();
        path.split('/').nth_back(1).unwrap().to_owned()
    };
    assert_eq!(next().await, "bad");
    outdated.send_replace(vec![bad, good]);
    assert_eq!(next().await, "good", "nobody waits until it is time for the one that failed");
    let again = [next().await, next().await];
    assert!(again.contains(&"bad".to_owned()), "it is tried again: {again:?}");
    writing.abort();
}
