//! What a hub needs before it can federate: its namespace, its CRDs, its types.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use limen_api::{FederatedType, NAMESPACE};
use limen_core::federated::{Kind, ObjectId};
use limen_sync::ObjectApi;
use serde_json::{Value, json};

use crate::kinds::{federated_types, leaf_kind};

/// Why a hub could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The hub did not take something.
    #[error("cannot set up {what} on the hub: {error}")]
    Apply {
        /// What.
        what: String,
        /// Why not.
        error: kube::Error,
    },
    /// The hub does not say who it is.
    #[error("the hub has no namespace kube-system to know it by")]
    NoIdentity,
}

/// What leaves of this hub are marked with: the uid of its oldest namespace.
pub async fn hub_id(api: &ObjectApi) -> Result<String, SetupError> {
    let id = cluster_object("v1", "Namespace", "namespaces", "kube-system");
    let namespace = api.get(&id).await.map_err(|error| failed("kube-system", error))?;
    let uid = namespace.as_ref().and_then(|namespace| namespace["metadata"]["uid"].as_str());
    uid.map(str::to_owned).ok_or(SetupError::NoIdentity)
}

/// Makes what a hub needs, or brings it up to date.
pub async fn set_up(api: &ObjectApi) -> Result<(), SetupError> {
    let namespace = cluster_object("v1", "Namespace", "namespaces", NAMESPACE);
    apply(
        api,
        &namespace,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
    )
    .await?;
    for crd in limen_api::crds() {
        apply_crd(api, crd).await?;
    }
    let types: Vec<FederatedType> = federated_types();
    for federated_type in &types {
        enable(api, federated_type).await?;
        let name = federated_type.metadata.name.clone().unwrap_or_default();
        let id = cluster_object("limen.dev/v1alpha1", "FederatedType", "federatedtypes", &name);
        let object = serde_json::to_value(federated_type).unwrap_or_default();
        apply(api, &id, object).await?;
    }
    Ok(())
}

/// Makes the hub serve the federated forms of one type.
pub(crate) async fn enable(api: &ObjectApi, federated: &FederatedType) -> Result<(), SetupError> {
    let leaf = leaf_kind(&federated.spec);
    apply_crd(api, limen_api::federated_kind(&leaf)).await?;
    for crd in limen_api::three_object_kinds(&leaf) {
        apply_crd(api, crd).await?;
    }
    Ok(())
}

async fn apply_crd(api: &ObjectApi, crd: CustomResourceDefinition) -> Result<(), SetupError> {
    let name = crd.metadata.name.clone().unwrap_or_default();
    let id = cluster_object(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        &name,
    );
    let mut object = serde_json::to_value(crd).unwrap_or_default();
    object["apiVersion"] = json!(id.kind.api_version);
    object["kind"] = json!(id.kind.kind);
    apply(api, &id, object).await
}

/// Applies an object; a kind that has just been defined may take a moment to be served.
async fn apply(api: &ObjectApi, id: &ObjectId, object: Value) -> Result<(), SetupError> {
    let mut tries = 0;
    loop {
        match api.apply(id, &object).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 && tries < 50 => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(error) => return Err(failed(&id.to_string(), error)),
        }
    }
}

fn failed(what: &str, error: kube::Error) -> SetupError {
    SetupError::Apply { what: what.to_owned(), error }
}

/// The id of an object that is in no namespace.
pub(crate) fn cluster_object(api_version: &str, kind: &str, plural: &str, name: &str) -> ObjectId {
    let kind: std::sync::Arc<Kind> = limen_api::kind((api_version, kind, plural, false));
    ObjectId { kind, namespace: None, name: name.to_owned() }
}
