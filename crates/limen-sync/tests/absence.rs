//! What is not found: where a cluster says so, and where something else answers in its place.

use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use limen_core::federated::ObjectId;
use limen_sync::{ObjectApi, Seen, follow};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// How long anything may take: far longer than it does, since machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster with these documents, and a plain "not found" for everything else, as Kubernetes says
/// it of paths that it does not have.
fn cluster(documents: Value) -> ObjectApi {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (status, body) = match &documents[request.uri().path()] {
            Value::Null => (404, "404 page not found\n".to_owned()),
            found if found["kind"] == "Status" => (404, found.to_string()),
            found => (200, found.to_string()),
        };
        async move {
            let body = Body::from(body.into_bytes());
            Ok::<_, std::io::Error>(Response::builder().status(status).body(body).unwrap())
        }
    });
    ObjectApi::new(kube::Client::new(service, "default"))
}

async fn first_seen(documents: Value, kind: (&str, &str, &str, bool)) -> Seen {
    let (tell, mut seen) = mpsc::channel(8);
    let following =
        tokio::spawn(follow(cluster(documents), limen_api::kind(kind), String::new(), tell));
    let first = tokio::time::timeout(PATIENCE, seen.recv()).await;
    following.abort();
    first.expect("nothing is seen").expect("somebody follows").1
}

#[tokio::test]
async fn a_kind_is_unknown_only_if_the_cluster_itself_says_what_it_knows() {
    let groups = json!({"kind": "APIGroupList", "groups": [
        {"name": "example.com", "versions": [{"version": "v1"}]}]});
    let resources = |name: &str| json!({"kind": "APIResourceList", "resources": [{"name": name}]});
    let map = ("v1", "ConfigMap", "configmaps", true);
    let widget = ("example.com/v1", "Widget", "widgets", true);
    let newer = ("example.com/v2", "Widget", "widgets", true);
    let gadget = ("other.com/v1", "Gadget", "gadgets", true);
    for (documents, kind, unknown) in [
        // A load balancer that knows of no cluster, and a page that anything may be.
        (json!({}), map, false),
        (json!({}), widget, false),
        (json!({"/apis": {"hello": "world"}}), widget, false),
        (json!({"/api/v1": {"hello": "world"}}), map, false),
        (json!({"/api/v1/configmaps": {"hello": "world"}}), map, false),
        // A cluster in trouble, which names a group and cannot say what is in it.
        (json!({"/apis": groups}), widget, false),
        // A list that fails although the kind is there.
        (json!({"/apis": groups, "/apis/example.com/v1": resources("widgets")}), widget, false),
        (json!({"/api/v1": resources("configmaps")}), map, false),
        // A cluster.
        (json!({"/apis": groups}), gadget, true),
        // Another version of the group may have the kind, and cannot be read.
        (json!({"/apis": groups}), newer, false),
        (json!({"/apis": groups, "/apis/example.com/v1": resources("gadgets")}), newer, true),
        (json!({"/apis": groups, "/apis/example.com/v1": resources("gadgets")}), widget, true),
        (json!({"/api/v1": resources("secrets")}), map, true),
    ] {
        let seen = first_seen(documents.clone(), kind).await;
        let fits = match unknown {
            true => matches!(seen, Seen::UnknownKind),
            false => matches!(seen, Seen::Lost(_)),
        };
        assert!(fits, "{kind:?} in {documents}: {seen:?}");
    }
}

#[tokio::test]
async fn a_kind_in_another_version_is_not_gone() {
    let documents = json!({
        "/apis": {"kind": "APIGroupList", "groups": [
            {"name": "example.com", "versions": [{"version": "v1"}, {"version": "v1beta1"}]}]},
        "/apis/example.com/v1": {"kind": "APIResourceList", "resources": [{"name": "widgets"}]},
        "/apis/example.com/v1beta1": {"kind": "APIResourceList", "resources": []}});
    let seen = first_seen(documents, ("example.com/v2", "Widget", "widgets", true)).await;
    let Seen::OtherVersions(versions) = seen else { panic!("{seen:?}") };
    assert_eq!(versions, ["example.com/v1"]);
}

#[tokio::test]
async fn an_object_is_absent_only_if_its_api_says_so() {
    let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
    let id = |name: &str| ObjectId {
        kind: kind.clone(),
        namespace: Some("default".to_owned()),
        name: name.to_owned(),
    };
    let path = |name: &str| limen_sync::object_path(&id(name));
    let said = json!({"kind": "Status", "code": 404, "reason": "NotFound"});
    let api = cluster(json!({path("gone"): said, path("there"): {"kind": "ConfigMap"}}));
    assert!(api.get(&id("there")).await.unwrap().is_some());
    assert!(api.get(&id("gone")).await.unwrap().is_none());
    assert!(api.delete(&id("gone"), "uid").await.is_ok());
    for refused in [
        api.get(&id("elsewhere")).await.unwrap_err(),
        api.delete(&id("elsewhere"), "uid").await.unwrap_err(),
    ] {
        assert!(refused.to_string().contains("page not found"), "{refused}");
    }
}
