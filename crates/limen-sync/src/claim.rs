//! The claim: a ConfigMap in the member that names the one hub instance that writes there.
//!
//! A copy of a hub, or a hub from a backup, finds the claim of the other instance and stops. The
//! claim also carries the newest mark written to the member, so that older state is known as such
//! even where no leaf shows it.

use std::sync::Arc;

use limen_core::federated::{Kind, ObjectId};
use limen_core::leaf::{CLAIM_LABEL, HUB_LABEL};
use limen_core::mark::Mark;
use serde_json::{Value, json};

use crate::member_error::{MemberError, MemberErrorKind};
use crate::object_api::{ObjectApi, Precondition, is_absent, is_conflict};

/// The writes of a claim that others may interrupt before it is tried again later.
const TRIES: usize = 4;

/// The hub instance that writes to a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// The instance.
    pub instance: String,
    /// The newest hub state that it has written to the member.
    pub mark: Mark,
}

/// A claim, and the version of the ConfigMap that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundClaim {
    pub(crate) claim: Claim,
    pub(crate) version: Precondition,
}

/// The outcome of claiming a member.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    /// The member carries the claim.
    Held(FoundClaim),
    /// The member carried none, and carries this one now.
    Created,
    /// The member carries another claim than it was known to, or none any more.
    Gone,
    /// Another instance, or a later epoch of this one, holds the member.
    Refused(FoundClaim),
}

/// The kind of claims.
pub(crate) fn claim_kind() -> Arc<Kind> {
    limen_api::kind(("v1", "ConfigMap", "configmaps", true))
}

/// The ConfigMap that has the claim of a hub.
pub(crate) fn claim_id(hub: &str) -> ObjectId {
    let short: String = hub.chars().take(8).collect();
    ObjectId {
        kind: claim_kind(),
        namespace: Some(limen_api::NAMESPACE.to_owned()),
        name: format!("limen-hub-{short}"),
    }
}

/// Whether an object is a claim, and so no leaf.
pub(crate) fn is_claim(object: &Value) -> bool {
    object["metadata"]["labels"][CLAIM_LABEL] == "true"
}

impl FoundClaim {
    pub(crate) fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (data, metadata) = (&object["data"], &object["metadata"]);
        Self {
            claim: Claim {
                instance: text(&data["instance"]),
                mark: text(&data["mark"]).parse().unwrap_or_default(),
            },
            version: Precondition {
                uid: text(&metadata["uid"]),
                resource_version: text(&metadata["resourceVersion"]),
            },
        }
    }
}

/// The claim that a member carries.
pub(crate) async fn read(api: &ObjectApi, hub: &str) -> kube::Result<Option<FoundClaim>> {
    let found = api.get(&claim_id(hub)).await?;
    Ok(found.filter(is_claim).map(|object| FoundClaim::of(&object)))
}

/// Claims a member. `known` is the claim that it is known to carry; `approved` is another instance
/// whose claim may be replaced.
pub(crate) async fn write(
    api: &ObjectApi,
    hub: &str,
    claim: &Claim,
    mut known: Option<FoundClaim>,
    approved: Option<&str>,
) -> Result<Claimed, MemberError> {
    let id = claim_id(hub);
    let is_foreign = |found: &FoundClaim| {
        let instance = found.claim.instance.as_str();
        instance != claim.instance && Some(instance) != approved
    };
    for _ in 0..TRIES {
        let written = match &known {
            None => create(api, hub, &id, claim).await,
            Some(found) => {
                if found.claim.mark.epoch > claim.mark.epoch || is_foreign(found) {
                    return Ok(Claimed::Refused(found.clone()));
                }
                if found.claim.instance == claim.instance && found.claim.mark >= claim.mark {
                    return Ok(Claimed::Held(found.clone()));
                }
                replace(api, &id, claim, found).await
            }
        };
        match written {
            Ok(_) if known.is_none() => return Ok(Claimed::Created),
            Ok(object) => return Ok(Claimed::Held(FoundClaim::of(&object))),
            Err(error) if is_conflict(&error) || is_absent(&error) => {
                let found = api.get(&id).await?;
                if let Some(stranger) = found.as_ref().filter(|found| !is_claim(found)) {
                    return Err(not_a_claim(stranger));
                }
                let found = found.map(|object| FoundClaim::of(&object));
                let uid = |claim: &Option<FoundClaim>| Some(claim.as_ref()?.version.uid.clone());
                if uid(&found) != uid(&known) {
                    let foreign = found.filter(is_foreign);
                    return Ok(foreign.map_or(Claimed::Gone, Claimed::Refused));
                }
                known = found;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let message = "the claim of the cluster keeps changing".to_owned();
    Err(MemberError { kind: MemberErrorKind::Busy, message })
}

/// Deletes the claim of a member if it names this instance.
pub(crate) async fn release(api: &ObjectApi, hub: &str, instance: &str) -> Result<(), MemberError> {
    let found = read(api, hub).await?.filter(|found| found.claim.instance == instance);
    let Some(found) = found else { return Ok(()) };
    Ok(api.delete_version(&claim_id(hub), &found.version).await?)
}

async fn create(api: &ObjectApi, hub: &str, id: &ObjectId, claim: &Claim) -> kube::Result<Value> {
    let namespace = limen_api::NAMESPACE;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": id.name, "namespace": namespace,
            "labels": {HUB_LABEL: hub, CLAIM_LABEL: "true"}},
        "data": {"instance": claim.instance, "mark": claim.mark.to_string()}});
    let created = api.create(&id.kind, &object).await;
    // The namespace is there since the member was joined, unless somebody deleted it.
    if !created.as_ref().is_err_and(is_absent) {
        return created;
    }
    let kind = limen_api::kind(("v1", "Namespace", "namespaces", false));
    let missing = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    match api.create(&kind, &missing).await {
        Err(error) if !is_conflict(&error) => return Err(error),
        _ => {}
    }
    api.create(&id.kind, &object).await
}

async fn replace(
    api: &ObjectApi,
    id: &ObjectId,
    claim: &Claim,
    found: &FoundClaim,
) -> kube::Result<Value> {
    let Precondition { uid, resource_version } = &found.version;
    let mark = claim.mark.max(found.claim.mark);
    let patch = json!({
        "metadata": {"uid": uid, "resourceVersion": resource_version},
        "data": {"instance": claim.instance, "mark": mark.to_string()}});
    api.merge(id, "", &patch).await
}

fn not_a_claim(object: &Value) -> MemberError {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let message = format!(
        "ConfigMap {}/{name} is not a claim of this hub: it lacks the label {CLAIM_LABEL}; delete or rename it",
        limen_api::NAMESPACE
    );
    MemberError { kind: MemberErrorKind::Rejected, message }
}
