//! Custom resources: served at once, checked by their schema, gone at once.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use kube::{Api, Error};
use serde_json::{Value, json};

use crate::objects::gone;
use crate::server::Hub;

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
