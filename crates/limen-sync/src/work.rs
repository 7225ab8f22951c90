//! One piece of work in a member.
//!
//! Every write to an existing object names the uid and the version that it was decided on. Where
//! the object has changed meanwhile, it is read again and the decision is taken anew.

use std::time::Duration;

use limen_core::federated::ObjectId;
use limen_core::handover::{applied_over, other_owner};
use limen_core::leaf::{
    ADOPTED_ANNOTATION, EPOCH_ANNOTATION, HASH_ANNOTATION, HUB_LABEL, Leaf, ROOT_LABEL,
};
use limen_core::mark::Mark;
use limen_core::namespace_contents::NamespaceVerdict;
use limen_core::reconcile::{Action, Held, Refusal, decide, differences, fenced};
use serde_json::{Value, json};

use crate::desired::{Desired, DesiredLeaf};
use crate::leaves::NAMED;
use crate::member_error::{MemberError, MemberErrorKind};
use crate::namespace;
use crate::object_api::{FIELD_MANAGER, ObjectApi, Precondition, is_absent, is_conflict};

const PATIENCE: u64 = 15;

/// What is to be done.
pub(crate) enum Task {
    /// See what is there under the name of a leaf, and act on it.
    Place { desired: DesiredLeaf, mark: Mark },
    /// Make a leaf of ours look as it shall; `drift` names the fields that others have changed.
    Update {
        desired: DesiredLeaf,
        mark: Mark,
        over: Precondition,
        adopted: bool,
        drift: Option<Vec<String>>,
    },
    /// Find the manager that keeps changing a leaf.
    FindRival { fields: Vec<String> },
    /// Delete a leaf of ours.
    Delete { version: Precondition },
    /// Delete a Namespace of ours if nothing foreign is in it, else release it. `patient` means
    /// that leaves in it may still go by themselves.
    DeleteNamespace { version: Precondition, patient: bool },
    /// Take our marks off.
    Release { version: Precondition },
    /// See whether there is a leaf of ours: a request may have made one, or one that was deleted
    /// may be gone.
    Look { uid: String },
}

/// A change of a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeafChange {
    /// A leaf was already as desired.
    Found,
    /// A leaf was created.
    Created,
    /// A leaf was updated.
    Updated,
    /// Fields of a leaf that were changed in the member were put right.
    Corrected(Vec<String>),
    /// An object that was there before became a leaf.
    Adopted,
    /// A leaf was deleted.
    Deleted,
    /// A leaf was released: it stays in the member and is no leaf any more.
    Released,
    /// Fields of a leaf are left to another manager, which keeps changing them.
    Yielded {
        /// The fields.
        fields: Vec<String>,
        /// The field manager.
        manager: String,
    },
}

/// How it went.
pub(crate) enum Outcome {
    /// The member holds this leaf.
    Holds(LeafChange, Value),
    /// The member holds it no longer, or not as ours.
    LetGo(LeafChange),
    /// The member has one of its own, which is used as it is.
    Shared,
    /// The member has one of its own, which is left alone.
    Refused(Refusal),
    /// It must go before anything can be done.
    MustWait,
    /// The Namespace waits for these objects in it to go.
    NotYet(Vec<String>),
    /// Another manager owns these fields.
    Rival { fields: Vec<String>, manager: String },
    /// The object is not as the decision assumed: this is there, if anything of ours.
    Changed { found: Option<Value>, uid: String },
    /// The member holds none of ours; what was known of one with this uid is not true any more.
    Absent { uid: String },
}

impl Task {
    /// Does the work.
    pub(crate) async fn perform(
        self,
        api: &ObjectApi,
        id: &ObjectId,
        hub: &str,
    ) -> Result<Outcome, MemberError> {
        let limit = match self {
            Self::DeleteNamespace { .. } => namespace::PATIENCE + PATIENCE,
            _ => PATIENCE,
        };
        let attempt = self.attempt(api, id, hub);
        let work = tokio::time::timeout(Duration::from_secs(limit), attempt).await;
        work.map_err(|_| MemberError::timeout(limit))?
    }

    async fn attempt(
        self,
        api: &ObjectApi,
        id: &ObjectId,
        hub: &str,
    ) -> Result<Outcome, MemberError> {
        match self {
            Self::Place { desired, mark } => place(api, id, hub, &desired, mark).await,
            Self::Update { desired, mark, over, adopted, drift } => {
                let Some(leaf) = desired.leaf() else { return Ok(Outcome::MustWait) };
                let applied = apply(api, id, leaf, mark, &over, adopted).await;
                let change = match drift {
                    Some(fields) => LeafChange::Corrected(fields),
                    None => LeafChange::Updated,
                };
                let holds = applied.map(|object| Outcome::Holds(change, object));
                reread(api, id, hub, &over, holds).await
            }
            Self::FindRival { fields } => {
                let found = api.get_managed(id).await?;
                let manager = found.as_ref().and_then(|object| rival(object, &fields));
                let manager = manager.unwrap_or("an unknown manager").to_owned();
                Ok(Outcome::Rival { fields, manager })
            }
            Self::Delete { version } => delete(api, id, hub, &version).await,
            Self::DeleteNamespace { version, patient } => {
                let contents = namespace::contents(api, &id.name, hub).await?;
                match contents.verdict(hub) {
                    NamespaceVerdict::Empty => delete(api, id, hub, &version).await,
                    NamespaceVerdict::NotYet(left) if patient => Ok(Outcome::NotYet(left)),
                    NamespaceVerdict::NotYet(left) | NamespaceVerdict::Foreign(left) => {
                        let left = left.join(", ");
                        tracing::info!(%id, %left, "namespace released: others use it");
                        release(api, id, hub, &version).await
                    }
                }
            }
            Self::Release { version } => release(api, id, hub, &version).await,
            Self::Look { uid } => {
                let found = api.get(id).await?.filter(|object| is_ours(object, hub));
                Ok(match found {
                    Some(leaf) => Outcome::Holds(LeafChange::Found, leaf),
                    None => Outcome::Absent { uid },
                })
            }
        }
    }
}

async fn delete(
    api: &ObjectApi,
    id: &ObjectId,
    hub: &str,
    version: &Precondition,
) -> Result<Outcome, MemberError> {
    let deleted = api.delete_version(id, version).await;
    let outcome = deleted.map(|()| Outcome::LetGo(LeafChange::Deleted));
    reread(api, id, hub, version, outcome.map_err(MemberErrorOr::from)).await
}

async fn release(
    api: &ObjectApi,
    id: &ObjectId,
    hub: &str,
    version: &Precondition,
) -> Result<Outcome, MemberError> {
    let Precondition { uid, resource_version } = version;
    let annotations =
        json!({HASH_ANNOTATION: null, EPOCH_ANNOTATION: null, ADOPTED_ANNOTATION: null});
    let patch = json!({"metadata": {
        "uid": uid, "resourceVersion": resource_version,
        "labels": {HUB_LABEL: null, ROOT_LABEL: null}, "annotations": annotations}});
    let released = api.merge(id, "", &patch).await;
    let outcome = released.map(|_| Outcome::LetGo(LeafChange::Released));
    reread(api, id, hub, version, outcome.map_err(MemberErrorOr::from)).await
}

/// A failed write: because the object is not as assumed, or for another reason.
enum MemberErrorOr {
    /// The object has changed or is gone.
    Changed(kube::Error),
    Failed(MemberError),
}

impl From<kube::Error> for MemberErrorOr {
    fn from(error: kube::Error) -> Self {
        match is_conflict(&error) || is_absent(&error) {
            true => Self::Changed(error),
            false => Self::Failed(error.into()),
        }
    }
}

/// Reads an object again that was not as a write assumed.
async fn reread(
    api: &ObjectApi,
    id: &ObjectId,
    hub: &str,
    assumed: &Precondition,
    written: Result<Outcome, MemberErrorOr>,
) -> Result<Outcome, MemberError> {
    let error = match written {
        Ok(outcome) => return Ok(outcome),
        Err(MemberErrorOr::Failed(error)) => return Err(error),
        Err(MemberErrorOr::Changed(error)) => error,
    };
    let found = api.get(id).await?;
    let same = |object: &Value| version_of(object) == *assumed;
    // A conflict over the very version that was assumed is about something else.
    if found.as_ref().is_some_and(same) {
        return Err(error.into());
    }
    let found = found.filter(|object| is_ours(object, hub));
    Ok(Outcome::Changed { found, uid: assumed.uid.clone() })
}

fn is_ours(object: &Value, hub: &str) -> bool {
    object["metadata"]["labels"][HUB_LABEL] == hub
}

fn version_of(object: &Value) -> Precondition {
    let Held { uid, resource_version, .. } = Held::of(object);
    Precondition { uid: uid.into(), resource_version: resource_version.into() }
}

async fn place(
    api: &ObjectApi,
    id: &ObjectId,
    hub: &str,
    desired: &DesiredLeaf,
    mark: Mark,
) -> Result<Outcome, MemberError> {
    let Desired::Leaf { leaf, create, .. } = &desired.desired else {
        return Ok(Outcome::MustWait);
    };
    // Mostly there is nothing, and then one request does it all.
    if *create
        && let Some(object) =
            api.apply_new_with(id, &leaf.object.value(), &annotations(mark, false)).await?
    {
        return Ok(Outcome::Holds(LeafChange::Created, object));
    }
    let Some(found) = api.get(id).await? else { return Ok(Outcome::MustWait) };
    let held = Held::of(&found);
    let applied_before = held.applied.as_ref() == Some(&leaf.hash);
    let drift = match applied_before {
        true => differences(&leaf.object.value(), &found, NAMED),
        false => Vec::new(),
    };
    let contained = applied_before && drift.is_empty();
    let action = decide(&desired.wanted(None, contained), Some(&held), hub);
    let change = match fenced(action, Some(&held), mark.epoch) {
        Action::Update if drift.is_empty() => LeafChange::Updated,
        Action::Update => LeafChange::Corrected(drift),
        Action::Adopt => LeafChange::Adopted,
        Action::Refuse(refusal) => return Ok(Outcome::Refused(refusal)),
        Action::Keep if held.leaf_of(hub).is_some() => {
            return Ok(Outcome::Holds(LeafChange::Found, found));
        }
        Action::Keep => return Ok(Outcome::Shared),
        Action::Create | Action::Wait | Action::Delete | Action::Release => {
            return Ok(Outcome::MustWait);
        }
    };
    let adopted = held.adopted || change == LeafChange::Adopted;
    let over = version_of(&found);
    match apply(api, id, leaf, mark, &over, adopted).await {
        Ok(object) => Ok(Outcome::Holds(change, object)),
        Err(MemberErrorOr::Failed(error)) => Err(error),
        Err(MemberErrorOr::Changed(_)) => Ok(Outcome::MustWait),
    }
}

/// Applies a leaf over a version of an object. Fields that are handed over keep their value until
/// another manager owns them.
async fn apply(
    api: &ObjectApi,
    id: &ObjectId,
    leaf: &Leaf,
    mark: Mark,
    over: &Precondition,
    adopted: bool,
) -> Result<Value, MemberErrorOr> {
    let annotations = annotations(mark, adopted);
    if leaf.handed_over.is_empty() {
        return Ok(api.apply_over(id, &leaf.object.value(), over, &annotations).await?);
    }
    let current = api.get_managed(id).await?.filter(|found| version_of(found) == *over);
    let Some(current) = current else { return Err(MemberErrorOr::Changed(changed())) };
    let object = applied_over(&leaf.object.value(), &leaf.handed_over, &current, FIELD_MANAGER);
    Ok(api.apply_over(id, &object, over, &annotations).await?)
}

fn changed() -> kube::Error {
    kube::Error::Service("the object has changed meanwhile".into())
}

/// The bookkeeping of a write, which is no part of the leaf.
fn annotations(mark: Mark, adopted: bool) -> Vec<(&'static str, String)> {
    let mut annotations = vec![(EPOCH_ANNOTATION, mark.to_string())];
    if adopted {
        annotations.push((ADOPTED_ANNOTATION, "true".to_owned()));
    }
    annotations
}

/// A manager other than Limen that owns one of the fields, or that wrote last.
fn rival<'a>(object: &'a Value, fields: &[String]) -> Option<&'a str> {
    let pointer = |field: &String| format!("/{}", field.replace('.', "/"));
    let owner = fields.iter().find_map(|field| other_owner(object, &pointer(field), FIELD_MANAGER));
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let others = entries.filter(|entry| entry["manager"] != FIELD_MANAGER);
    let last = || others.max_by_key(|entry| entry["time"].as_str().unwrap_or_default());
    owner.or_else(|| last().and_then(|entry| entry["manager"].as_str()))
}

/// Whether a failure is over by itself once this hub leads again.
pub(crate) fn is_fenced(error: &MemberError) -> bool {
    error.kind == MemberErrorKind::NotLeading
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A member in which every write meets another version, and then this is found.
    fn member(found: Option<Value>) -> ObjectApi {
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let failure = |code: u16, reason: &str| {
                json!({"kind": "Status", "status": "Failure", "message": "", "reason": reason,
                    "code": code})
            };
            let (status, answer) = match (request.method() == http::Method::GET, &found) {
                (true, Some(found)) => (200, found.clone()),
                (true, None) => (404, failure(404, "NotFound")),
                (false, _) => (409, failure(409, "Conflict")),
            };
            let body = kube::client::Body::from(answer.to_string().into_bytes());
            let answer = http::Response::builder().status(status).body(body).unwrap();
            async move { Ok::<_, std::io::Error>(answer) }
        });
        ObjectApi::new(kube::Client::new(service, "default"))
    }

    fn leaf(hub: &str, uid: &str, version: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "web", "namespace": "default", "uid": uid, "resourceVersion": version,
            "labels": {HUB_LABEL: hub, ROOT_LABEL: "root"}}})
    }

    /// Each write of a leaf that was seen in version 1.
    fn writes() -> [Task; 3] {
        let version = Precondition { uid: "leaf".to_owned(), resource_version: "1".to_owned() };
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "web", "namespace": "default"}});
        let leaf = Leaf { object: (&object).into(), hash: "hash".into(), handed_over: Vec::new() };
        let on_conflict = limen_core::federated::OnConflict::Abort;
        let desired = Desired::Leaf { leaf: leaf.into(), on_conflict, create: true };
        let desired = DesiredLeaf { root_uid: "root".into(), replaces: None, revision: 2, desired };
        let (mark, over) = (Mark::default(), version.clone());
        [
            Task::Update { desired, mark, over, adopted: false, drift: None },
            Task::Delete { version: version.clone() },
            Task::Release { version },
        ]
    }

    #[tokio::test]
    async fn a_write_that_meets_another_version_is_decided_anew_on_what_is_there() {
        let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
        let id = ObjectId { kind, namespace: Some("default".to_owned()), name: "web".to_owned() };
        for task in writes() {
            let newer = leaf("hub", "leaf", "2");
            let outcome = task.perform(&member(Some(newer.clone())), &id, "hub").await.unwrap();
            let Outcome::Changed { found: Some(found), uid } = outcome else {
                panic!("a newer version of the leaf was not found")
            };
            assert_eq!((&found["metadata"], uid.as_str()), (&newer["metadata"], "leaf"));
        }
        for found in [None, Some(leaf("another", "foreign", "2"))] {
            for task in writes() {
                let outcome = task.perform(&member(found.clone()), &id, "hub").await.unwrap();
                let gone =
                    matches!(&outcome, Outcome::Changed { found: None, uid } if uid == "leaf");
                assert!(gone, "it is no leaf of this hub any more: {found:?}");
            }
        }
        for task in writes() {
            let outcome = task.perform(&member(Some(leaf("hub", "leaf", "1"))), &id, "hub").await;
            assert!(outcome.is_err(), "a conflict over the version that was seen is an error");
        }
    }

    #[test]
    fn the_manager_of_a_field_is_named_before_the_last_writer() {
        let replicas = json!({"f:spec": {"f:replicas": {}}});
        let labels = json!({"f:metadata": {"f:labels": {}}});
        let object = json!({"metadata": {"managedFields": [
            {"manager": "limen", "time": "2026-01-03T00:00:00Z", "fieldsV1": replicas},
            {"manager": "kubectl", "time": "2026-01-02T00:00:00Z", "fieldsV1": labels},
            {"manager": "keda", "time": "2026-01-01T00:00:00Z", "fieldsV1": replicas}]}});
        assert_eq!(rival(&object, &["spec.replicas".to_owned()]), Some("keda"));
        assert_eq!(rival(&object, &["spec.paused".to_owned()]), Some("kubectl"));
        assert_eq!(rival(&json!({}), &["spec.paused".to_owned()]), None);
    }
}
