//! Custom resources: served at once, checked by their schema, gone at once.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use kube::{Api, Error};
use serde_json::{Value, json};

use crate::objects::gone;
use crate::server::Hub;
use crate::trick_store::{Failing, TrickStore};

fn definition() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["size"],
                            "properties": {
                                "size": {"type": "integer", "minimum": 1},
                                "color": {"type": "string", "default": "red"},
                            },
                            "x-kubernetes-validations":
                                [{"rule": "self.size < 100", "message": "too big"}],
                        },
                        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
                    },
                }},
            }],
        },
    }))
    .unwrap()
}

fn widget(spec: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w"}, "spec": spec, "status": {"ready": true},
    }))
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_is_served_at_once_and_gone_at_once() {
    let hub = Hub::start().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(hub.client.clone());
    definitions.create(&PostParams::default(), &definition()).await.unwrap();

    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let widgets: Api<DynamicObject> = Api::default_namespaced_with(hub.client.clone(), &kind);
    let post = PostParams::default();
    let created = widgets.create(&post, &widget(&json!({"size": 3, "junk": 1}))).await.unwrap();
    assert_eq!(created.data["spec"], json!({"size": 3, "color": "red"}));
    assert_eq!(created.data.get("status"), None, "status has a way of its own");

    for (spec, message) in [
        (
            json!({"size": 0}),
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (json!({}), "spec.size: Required value"),
        (json!({"size": 200}), "too big"),
    ] {
        match widgets.create(&post, &widget(&spec)).await {
            Err(Error::Api(status)) => {
                assert_eq!(status.code, 422);
                assert!(status.message.contains(message), "{}", status.message);
            }
            other => panic!("{spec} was taken: {other:?}"),
        }
    }

    definitions.delete("widgets.example.com", &DeleteParams::default()).await.unwrap();
    gone(&definitions, "widgets.example.com").await;
    match widgets.get("w").await {
        Err(Error::Api(status)) => assert_eq!(status.code, 404),
        other => panic!("still served: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_get_defaults_that_came_after_them() {
    let hub = Hub::start().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(hub.client.clone());
    definitions.create(&PostParams::default(), &definition()).await.unwrap();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let widgets: Api<DynamicObject> = Api::default_namespaced_with(hub.client.clone(), &kind);
    widgets.create(&PostParams::default(), &widget(&json!({"size": 3}))).await.unwrap();

    let shape = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/shape";
    let patch = json!([{
        "op": "add", "path": shape, "value": {"type": "string", "default": "round"},
    }]);
    let patch = Patch::<()>::Json(serde_json::from_value(patch).unwrap());
    definitions.patch("widgets.example.com", &PatchParams::default(), &patch).await.unwrap();
    let expected = json!({"size": 3, "color": "red", "shape": "round"});
    assert_eq!(widgets.get("w").await.unwrap().data["spec"], expected);
    let listed = widgets.list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items[0].data["spec"], expected);
}

/// A definition that asks for a group and a plural of the server's own.
fn intruder(plural: &str, kind: &str, group: &str) -> CustomResourceDefinition {
    let mut intruder = definition();
    intruder.metadata.name = Some(format!("{plural}.{group}"));
    let approval = ("api-approved.kubernetes.io".to_owned(), "unapproved, a test".to_owned());
    intruder.metadata.annotations = Some([approval].into());
    intruder.spec.group = group.to_owned();
    intruder.spec.names.plural = plural.to_owned();
    intruder.spec.names.kind = kind.to_owned();
    intruder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_does_not_touch_what_is_built_in() {
    let hub = Hub::start().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(hub.client.clone());
    let ingresses: Api<Ingress> = Api::default_namespaced(hub.client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(hub.client.clone());
    let post = PostParams::default();
    let backend = json!({"service": {"name": "a", "port": {"number": 1}}});
    let ingress = json!({"metadata": {"name": "a"}, "spec": {"defaultBackend": backend}});
    ingresses.create(&post, &serde_json::from_value(ingress).unwrap()).await.unwrap();
    let secret = json!({"metadata": {"name": "a"}, "stringData": {"a": "1"}});
    secrets.create(&post, &serde_json::from_value(secret).unwrap()).await.unwrap();

    for intruder in [
        intruder("ingresses", "Ingress", "networking.k8s.io"),
        intruder("secrets", "Secret", "events.k8s.io"),
    ] {
        let name = intruder.metadata.name.clone().unwrap();
        definitions.create(&post, &intruder).await.unwrap();
        // Whoever says that it is established is not believed.
        let lie = json!({"status": {
            "acceptedNames": intruder.spec.names,
            "conditions": [{
                "type": "Established", "status": "True", "reason": "a", "message": "b",
                "lastTransitionTime": "2020-01-01T00:00:00Z",
            }],
        }});
        let params = PatchParams::default();
        definitions.patch_status(&name, &params, &Patch::Merge(lie)).await.unwrap();
        let found = definitions.get_status(&name).await.unwrap();
        let conditions = found.status.unwrap().conditions.unwrap();
        let holds = |kind: &str| conditions.iter().find(|it| it.type_ == kind).unwrap();
        assert_eq!(holds("NamesAccepted").reason.as_deref(), Some("GroupConflict"));
        assert_eq!(holds("Established").status, "False");

        let group = &intruder.spec.group;
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", "Widget"));
        let kind = ApiResource { plural: "secrets".to_owned(), ..kind };
        let objects: Api<DynamicObject> = Api::default_namespaced_with(hub.client.clone(), &kind);
        assert!(objects.list(&ListParams::default()).await.is_err(), "it is served");
        assert!(ingresses.get("a").await.unwrap().spec.unwrap().default_backend.is_some());

        definitions.delete(&name, &DeleteParams::default()).await.unwrap();
        gone(&definitions, &name).await;
        ingresses.get("a").await.expect("it is nobody else's");
        secrets.get("a").await.expect("it is nobody else's");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_that_could_not_be_accepted_at_once_is_so_later() {
    let (store, hub) = TrickStore::serve("").await;
    let definitions: Api<CustomResourceDefinition> = Api::all(hub.client.clone());
    store.fail(Some(Failing::Updates("apiextensions.k8s.io/")));
    definitions.create(&PostParams::default(), &definition()).await.expect("it was written");
    // Who follows the changes of others has tried too.
    store.has_failed(2).await;
    store.fail(None);
    let deadline = Instant::now() + Duration::from_secs(30);
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let widgets: Api<DynamicObject> = Api::default_namespaced_with(hub.client.clone(), &kind);
    while widgets.list(&ListParams::default()).await.is_err() {
        assert!(Instant::now() < deadline, "it is not served");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
