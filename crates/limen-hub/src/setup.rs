//! What a hub needs before it can federate: its namespace, its CRDs, its types.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use limen_api::{FederatedType, GATEWAYS, NAMESPACE, error_text};
use limen_core::federated::{Kind, ObjectId};
use limen_core::reconcile::fingerprint;
use limen_sync::ObjectApi;
use serde_json::{Value, json};

use crate::kinds::{federated_types, leaf_kind};

/// On what set-up has made: what it was made to look like, so that it is not made again.
pub const MADE_ANNOTATION: &str = "limen.dev/made";
/// How many definitions are written at the same time: together they reach the disk faster.
const TOGETHER: usize = 4;

/// Why a hub could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The hub did not take something.
    #[error("cannot set up {what} on the hub: {}", error_text(error))]
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

/// Id of a hub, which its leaves are labelled with: the uid of its cluster.
pub async fn hub_id(api: &ObjectApi) -> Result<String, SetupError> {
    let uid = cluster_uid(api).await.map_err(|error| failed("kube-system", error))?;
    uid.ok_or(SetupError::NoIdentity)
}

/// Uid of a cluster's namespace kube-system, by which clusters are told apart.
pub(crate) async fn cluster_uid(api: &ObjectApi) -> kube::Result<Option<String>> {
    let id = cluster_object("v1", "Namespace", "namespaces", "kube-system");
    let namespace = api.get(&id).await?;
    let uid = namespace.as_ref().and_then(|namespace| namespace["metadata"]["uid"].as_str());
    Ok(uid.map(str::to_owned))
}

/// Makes what a hub needs, or brings it up to date.
pub async fn set_up(api: &ObjectApi) -> Result<(), SetupError> {
    for name in [NAMESPACE, GATEWAYS] {
        let namespace = cluster_object("v1", "Namespace", "namespaces", name);
        let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        apply(api, &namespace, made).await?;
    }
    let types: Vec<FederatedType> = federated_types();
    let definitions = limen_api::crds().into_iter().map(definition);
    let forms = types.iter().flat_map(forms);
    bring_up_to_date(api, definitions.chain(forms).collect()).await?;
    let types = types.iter().map(|federated| {
        let name = federated.metadata.name.clone().unwrap_or_default();
        let id = cluster_object("limen.dev/v1alpha1", "FederatedType", "federatedtypes", &name);
        (id, serde_json::to_value(federated).unwrap_or_default())
    });
    bring_up_to_date(api, types.collect()).await
}

/// What a hub of this version has among its definitions, each with what [`MADE_ANNOTATION`] says
/// of it.
pub fn definition_marks() -> Vec<(String, String)> {
    let forms = federated_types().iter().flat_map(forms).collect::<Vec<_>>();
    let definitions = limen_api::crds().into_iter().map(definition).chain(forms);
    definitions.map(|(id, object)| (id.name, mark(&object))).collect()
}

fn mark(object: &Value) -> String {
    format!("{:016x}", fingerprint(object))
}

/// Makes the hub serve the federated forms of one type.
pub(crate) async fn enable(api: &ObjectApi, federated: &FederatedType) -> Result<(), SetupError> {
    bring_up_to_date(api, forms(federated)).await
}

/// The definitions of the federated forms of one type.
fn forms(federated: &FederatedType) -> Vec<(ObjectId, Value)> {
    let leaf = leaf_kind(&federated.spec);
    let three = limen_api::three_object_kinds(&leaf);
    [limen_api::federated_kind(&leaf)].into_iter().chain(three).map(definition).collect()
}

fn definition(crd: CustomResourceDefinition) -> (ObjectId, Value) {
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
    (id, object)
}

/// Applies those objects, all of one kind, that an earlier set-up has not left as they are now.
async fn bring_up_to_date(
    api: &ObjectApi,
    objects: Vec<(ObjectId, Value)>,
) -> Result<(), SetupError> {
    let Some((first, _)) = objects.first() else { return Ok(()) };
    let made = made_before(api, &first.kind).await;
    let objects = objects.into_iter().map(|(id, mut object)| {
        let mark = mark(&object);
        object["metadata"]["annotations"][MADE_ANNOTATION] = json!(mark);
        (id, object, mark)
    });
    stream::iter(objects.filter(|(id, _, mark)| made.get(&id.name) != Some(mark)))
        .map(async |(id, object, _)| apply(api, &id, object).await)
        .buffer_unordered(TOGETHER)
        .try_collect()
        .await
}

/// The marks of what earlier set-ups have made, by name. What cannot be read is made again.
async fn made_before(api: &ObjectApi, kind: &Kind) -> BTreeMap<String, String> {
    let objects = api.list_metadata(kind).await.unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let entries = objects.iter().filter_map(|object| {
        let metadata = &object["metadata"];
        Some((text(&metadata["name"])?, text(&metadata["annotations"][MADE_ANNOTATION])?))
    });
    entries.collect()
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
