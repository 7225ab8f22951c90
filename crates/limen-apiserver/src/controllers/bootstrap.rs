//! The objects that every cluster has from the start.

use std::sync::Arc;

use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::api::{Api, Change, Deletion, Scope, Tracking, Writing};
use crate::error::ApiResult;
use crate::rbac::reconciled;

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Makes what is missing, and learns what is there: types of custom resources and who may do what.
pub(crate) async fn bootstrap(api: &Arc<Api>) -> ApiResult<()> {
    let namespaces = api.namespaces();
    for name in NAMESPACES {
        ensure(api, &namespaces, json!({"metadata": {"name": name}})).await?;
    }
    // All at once, so that they reach the disk together.
    try_join_all(crate::rbac::default_objects().into_iter().map(async |object| {
        let plural = format!("{}s", object["kind"].as_str().unwrap_or_default().to_lowercase());
        let namespace = object["metadata"]["namespace"].as_str();
        let scope = api.scope("rbac.authorization.k8s.io", "v1", &plural, namespace);
        restore(api, &scope, object).await
    }))
    .await?;
    let services = api.scope("", "v1", "services", Some("default"));
    ensure(api, &services, kubernetes_service()).await?;
    api.learn_custom_resources().await?;
    api.learn_access().await
}

async fn ensure(api: &Api, scope: &Scope, object: Value) -> ApiResult<()> {
    let mut object = object;
    object["apiVersion"] = scope.api_version().into();
    object["kind"] = scope.kind.kind.as_str().into();
    let types = api.registry.types();
    let writing =
        Writing { types: &types, manager: "kube-apiserver", subresource: "", now: api.now() };
    match api.create_object(scope, object, Tracking::Record(&writing), false).await {
        Err(error) if error.reason == "AlreadyExists" => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Makes a default role or binding, or gives it back what it lacks.
async fn restore(api: &Api, scope: &Scope, default: Value) -> ApiResult<()> {
    let name = default["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let Some(stored) = api.find(scope, &name).await? else {
        return ensure(api, scope, default).await;
    };
    let Some(wanted) = reconciled(&scope.read(&stored), &default) else { return Ok(()) };
    if wanted["roleRef"] != scope.read(&stored)["roleRef"] {
        // A binding cannot be bound to another role, so it is made anew.
        api.delete_object(scope, &name, &Deletion::default()).await?;
        return ensure(api, scope, default).await;
    }
    let change = Change {
        make: &|_| Ok(wanted.clone()),
        subresource: None,
        tracking: Tracking::Done,
        honours_version: false,
        dry_run: false,
    };
    api.update_object(scope, &name, &change).await.map(drop)
}

/// The service that clients inside a cluster find the API by.
fn kubernetes_service() -> Value {
    json!({
        "metadata": {
            "name": "kubernetes",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": crate::api::FIRST_SERVICE_ADDRESS,
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
            "type": "ClusterIP",
        },
    })
}
