//! Requests at the edges of HTTP: methods, paths, media types, warnings.

use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

use crate::server::Hub;

struct Answered {
    code: u16,
    headers: HeaderMap,
    text: String,
}

async fn send(hub: &Hub, method: &str, path: &str, accept: &str, body: &Value) -> Answered {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder()
        .method(Method::from_bytes(method.as_bytes()).unwrap())
        .uri(path)
        .header("accept", accept)
        .header("content-type", "application/json")
        .body(Body::from(body))
        .unwrap();
    let (parts, body) = hub.client.send(request).await.unwrap().into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Answered { code: parts.status.as_u16(), headers: parts.headers, text }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_requests_get_the_answers_of_kubernetes() {
    let hub = Hub::start().await;
    let json = "application/json";
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let maps = "/api/v1/namespaces/default/configmaps";
    let everything = format!("{maps}?includeObject=Everything");
    let parent = format!("{maps}/..");
    let cases = [
        ("HEAD", maps, json, 405, ""),
        ("HEAD", "/version", json, 405, ""),
        ("HEAD", "/livez", json, 200, ""),
        ("POST", "/api", json, 405, "MethodNotAllowed"),
        ("GET", "/livez/ping", json, 200, "ok"),
        ("GET", "//api/v1", json, 404, "404 page not found\n"),
        ("GET", "/apis/nothing.example.com/v1/things", json, 404, "404 page not found\n"),
        ("GET", "/api/v1/nonsense", json, 404, "the server could not find the requested resource"),
        ("GET", "/api/v2", json, 404, "the server could not find the requested resource"),
        ("GET", &parent, json, 400, "may not be '..'"),
        ("GET", maps, "application/xml", 406, "Available representations"),
        ("GET", maps, one, 406, "but the requested object is a list (*core.ConfigMapList)"),
        ("GET", &everything, json, 200, "ConfigMapList"),
        ("GET", &everything, table, 400, "must be 'Metadata', 'Object', 'None', or empty"),
        ("GET", "/api/v1/watch/namespaces?timeoutSeconds=1", json, 200, r#"{"type":"ADDED""#),
        (
            "GET",
            "/api/v1/watch/namespaces/default/configmaps?timeoutSeconds=1",
            "application/yaml",
            406,
            "application/json;stream=watch",
        ),
    ];
    for (method, path, accept, code, says) in cases {
        let answered = send(&hub, method, path, accept, &Value::Null).await;
        let Answered { code: got, text, .. } = &answered;
        assert!(*got == code && text.contains(says), "{method} {path}: {got} {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warnings_come_with_refusals_too() {
    let hub = Hub::start().await;
    let warned = |answered: &Answered| -> Vec<String> {
        let all = answered.headers.get_all("warning").iter();
        all.map(|value| value.to_str().unwrap().to_owned()).collect()
    };
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let backend = json!({"service": {"name": "a", "port": {"number": 1}}});
    let legacy = json!({
        "metadata": {"name": "a", "annotations": {"kubernetes.io/ingress.class": "x"}},
        "spec": {"defaultBackend": backend},
    });
    for code in [201, 409] {
        let answered = send(&hub, "POST", ingresses, "*/*", &legacy).await;
        assert_eq!(answered.code, code, "{}", answered.text);
        assert_eq!(warned(&answered).len(), 1, "{:?}", answered.headers);
    }
    let mut invalid = legacy.clone();
    invalid["spec"] = json!({});
    let answered = send(&hub, "POST", ingresses, "*/*", &invalid).await;
    assert_eq!((answered.code, warned(&answered).len()), (422, 0), "{}", answered.text);

    for path in ["endpoints", "endpoints/nothing"] {
        let path = format!("/api/v1/namespaces/default/{path}");
        let answered = send(&hub, "GET", &path, "*/*", &Value::Null).await;
        assert!(warned(&answered)[0].contains("EndpointSlice"), "{path}: {:?}", answered.headers);
    }
}
