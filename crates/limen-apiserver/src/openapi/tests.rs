//! Documents, walked as kubectl walks them.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use super::*;
use crate::resource::{Columns, LazySchema, Rules, ScalePaths};
use crate::schema::{Schema, builtin};

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ResourceType {
    let definition = types::definition_name(group, version, kind);
    ResourceType {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        has_status: true,
        scale: None,
        columns: Columns::Paths(Vec::new()),
        rules: Rules::NONE,
        schema: LazySchema::new(move || builtin(&definition)),
        custom: false,
        selectable_paths: Vec::new(),
        published: None,
        among: None,
    }
}

fn deployment() -> ResourceType {
    let scale = ScalePaths {
        spec: ".spec.replicas".to_owned(),
        status: ".status.replicas".to_owned(),
        selector: None,
    };
    ResourceType { scale: Some(scale), ..resource("apps", "v1", "Deployment", "deployments") }
}

fn widget() -> ResourceType {
    ResourceType {
        custom: true,
        has_status: false,
        schema: LazySchema::new(|| Arc::new(Schema::anything())),
        ..resource("schema.limen.test", "v1", "Widget", "widgets")
    }
}

fn no_schema(_: &ResourceType) -> Option<Value> {
    None
}

/// Every reference in a document must lead somewhere.
fn check_references(document: &Value, part: &Value) {
    match part {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get("$ref") {
                let name = target.rsplit('/').next().unwrap();
                let found = document["components"]["schemas"].get(name);
                assert!(found.is_some(), "{target} leads nowhere");
            }
            fields.values().for_each(|inner| check_references(document, inner));
        }
        Value::Array(items) => items.iter().for_each(|inner| check_references(document, inner)),
        _ => {}
    }
}

#[test]
fn a_document_has_the_operations_of_its_resources() {
    let deployment = deployment();
    let document = Document::new("apps", "v1", [&deployment], &no_schema);
    assert_eq!(document.path(), "apis/apps/v1");
    let json = document.to_json();
    check_references(&json, &json);
    let one = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    let cases = [
        ("/apis/apps/v1/deployments", "get", "listAppsV1DeploymentForAllNamespaces", "list"),
        (one, "get", "readAppsV1NamespacedDeployment", "get"),
        (one, "put", "replaceAppsV1NamespacedDeployment", "put"),
        (one, "patch", "patchAppsV1NamespacedDeployment", "patch"),
        (one, "delete", "deleteAppsV1NamespacedDeployment", "delete"),
    ];
    for (path, method, id, action) in cases {
        let operation = &json["paths"][path][method];
        assert_eq!(operation["operationId"], id);
        assert_eq!(operation["x-kubernetes-action"], action);
        assert_eq!(
            operation["x-kubernetes-group-version-kind"],
            json!({"group": "apps", "version": "v1", "kind": "Deployment"})
        );
    }
    let collection = &json["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"];
    assert_eq!(collection["delete"]["operationId"], "deleteAppsV1CollectionNamespacedDeployment");
    let patch = &json["paths"][one]["patch"];
    let names: Vec<&Value> =
        patch["parameters"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    let scale = &json["paths"][format!("{one}/scale")]["get"];
    assert_eq!(scale["operationId"], "readAppsV1NamespacedDeploymentScale");
    assert_eq!(scale["x-kubernetes-group-version-kind"]["group"], "autoscaling");
}

#[test]
fn definitions_have_markers_and_descriptions() {
    let deployment = deployment();
    let json = Document::new("apps", "v1", [&deployment], &no_schema).to_json();
    let schemas = &json["components"]["schemas"];
    let root = &schemas["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(
        root["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "version": "v1", "kind": "Deployment"}])
    );
    assert!(root["description"].as_str().unwrap().starts_with("Deployment enables"));
    let spec = &root["properties"]["spec"];
    assert_eq!(spec["default"], json!({}));
    assert_eq!(
        spec["allOf"],
        json!([{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}])
    );
    assert!(spec["description"].is_string());
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    let protocol = &schemas["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"];
    assert_eq!(protocol["enum"], json!(["SCTP", "TCP", "UDP"]));
    assert_eq!(protocol["default"], "TCP");
}

#[test]
fn a_custom_resource_has_what_its_definition_says() {
    let widget = widget();
    let schema = |_: &ResourceType| {
        Some(json!({"type": "object", "description": "A widget.", "properties": {
            "spec": {"type": "object", "properties": {
                "a": {"type": "string", "description": "A letter."},
                "tpl": {"type": "object", "x-kubernetes-embedded-resource": true},
            }},
        }}))
    };
    let document = Document::new("schema.limen.test", "v1", [&widget], &schema);
    let json = document.to_json();
    check_references(&json, &json);
    let root = &json["components"]["schemas"]["test.limen.schema.v1.Widget"];
    assert_eq!(root["properties"]["spec"]["properties"]["a"]["description"], "A letter.");
    assert_eq!(
        root["properties"]["spec"]["properties"]["tpl"]["required"],
        json!(["kind", "apiVersion"])
    );
    assert!(root["properties"]["metadata"]["allOf"].is_array());
    assert!(json["components"]["schemas"]["test.limen.schema.v1.WidgetList"].is_object());
    let path = &json["paths"]["/apis/schema.limen.test/v1/namespaces/{namespace}/widgets"];
    assert_eq!(path["get"]["operationId"], "listSchemaLimenTestV1NamespacedWidget");
    assert_eq!(path["get"]["tags"], json!(["schemaLimenTest_v1"]));
}

#[test]
fn the_index_changes_with_what_the_documents_say() {
    let (deployment, widget) = (deployment(), widget());
    let with = |schema: &'static str| {
        let custom = move |_: &ResourceType| Some(json!({"description": schema}));
        let apps = Document::new("apps", "v1", [&deployment, &widget], &custom);
        let widgets = Document::new("schema.limen.test", "v1", [&deployment, &widget], &custom);
        index([apps, widgets])
    };
    let (one, same, other) = (with("a"), with("a"), with("b"));
    assert_eq!(one, same);
    let urls = |index: &Value, path: &str| index["paths"][path]["serverRelativeURL"].clone();
    assert_eq!(urls(&one, "apis/apps/v1"), urls(&other, "apis/apps/v1"));
    let custom = "apis/schema.limen.test/v1";
    assert_ne!(urls(&one, custom), urls(&other, custom));
    let url = urls(&one, custom);
    let hash = url.as_str().unwrap().strip_prefix("/openapi/v3/apis/schema.limen.test/v1?hash=");
    assert_eq!(hash.unwrap().len(), 128);
}

#[test]
fn a_large_document_is_made_in_no_time() {
    let deployment = deployment();
    let started = Instant::now();
    let size = Document::new("apps", "v1", [&deployment], &no_schema).to_json().to_string().len();
    let took = started.elapsed();
    assert!(size > 100_000, "{size}");
    // Generous, for machines that are busy.
    assert!(took.as_secs() < 5, "{took:?}");
}
