//! Unjoining a member from the federation.
//!
//! The hub keeps a finalizer on every Cluster. It removes it when the member is let go of: when its
//! leaves are released or deleted, or when a person abandons it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use limen_api::{Cluster, NAMESPACE};
use limen_core::global::Verdict;
use limen_sync::is_absent;
use serde_json::json;
use tokio::time::Instant;

use super::drain_before_unjoin::drain_before_unjoin;
use super::join::{JoinError, is_leaving, step};
use crate::clusters::{LET_GO, UNJOIN_ANNOTATION};

/// Time between two looks at the Cluster.
const LOOK: Duration = Duration::from_millis(200);

/// How a member leaves.
#[derive(Clone, Debug)]
pub struct UnjoinOptions {
    /// Its name.
    pub name: String,
    /// Delete its leaves; otherwise they are released and stay.
    pub delete_leaves: bool,
    /// Forget the member without touching it; takes precedence over `delete_leaves`.
    pub abandon: bool,
    /// Time to wait for the hub.
    pub patience: Duration,
}

/// Outcome of an unjoin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The hub has released all leaves, or deleted them.
    LetGo,
    /// The member keeps its leaves as they are.
    Abandoned {
        /// Number of leaves known there.
        leaves: usize,
    },
}

/// Has the hub let go of a member, and removes the member. A member whose leaves are deleted is
/// drained first.
pub async fn unjoin(hub: &Client, options: &UnjoinOptions) -> Result<Left, JoinError> {
    let UnjoinOptions { name, delete_leaves, abandon, patience } = options;
    let clusters: Api<Cluster> = Api::all(hub.clone());
    let read = || step(format!("read cluster {name}"));
    let found = clusters.get_opt(name).await.map_err(read())?;
    let cluster = found.ok_or_else(|| JoinError::Unknown(name.clone()))?;
    let delete = *delete_leaves && !abandon;
    if !abandon && verdict(&cluster) == Verdict::Unhealthy && !is_let_go(&cluster) {
        let (name, leaves) = (name.clone(), leaves_of(&cluster));
        return Err(JoinError::Unreachable { name, leaves, delete });
    }
    let secret = credential(hub, &cluster).await?;
    if delete {
        drain_before_unjoin(hub, name, *patience).await?;
    }
    let how = match (abandon, delete) {
        (true, _) => "abandon",
        (false, true) => "delete",
        (false, false) => "keep",
    };
    let (uid, patch) = (&cluster.metadata.uid, json!({"annotations": {UNJOIN_ANNOTATION: how}}));
    let mut patch = json!({"metadata": patch});
    patch["metadata"]["uid"] = json!(uid);
    clusters
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map_err(step(format!("mark cluster {name} as leaving")))?;
    let mut left = Left::LetGo;
    let (started, mut removed) = (Instant::now(), false);
    while let Some(found) = clusters.get_opt(name).await.map_err(read())? {
        if found.metadata.uid != *uid || !is_leaving(&found) {
            return match removed {
                true => Ok(left),
                false => Err(JoinError::JoinedAgain(name.clone())),
            };
        }
        let leaves = leaves_of(&found);
        if !removed && (*abandon || is_let_go(&found)) {
            left = if *abandon { Left::Abandoned { leaves } } else { Left::LetGo };
            let failed = step(format!("remove cluster {name}"));
            removed = remove(&clusters, &found).await.map_err(failed)?;
            continue;
        }
        if started.elapsed() > *patience {
            let (name, seconds) = (name.clone(), patience.as_secs());
            return Err(match verdict(&found) == Verdict::Unhealthy && !abandon {
                true => JoinError::Unreachable { name, leaves, delete },
                false => JoinError::Unfinished { name, leaves, seconds },
            });
        }
        tokio::time::sleep(LOOK).await;
    }
    if let Some(secret) = secret {
        remove_credential(hub, &secret).await?;
    }
    Ok(left)
}

/// Whether the API of a member answers the hub.
fn verdict(cluster: &Cluster) -> Verdict {
    let verdicts = cluster.status.as_ref().and_then(|status| status.verdicts.as_ref());
    verdicts.map_or(Verdict::Unknown, |verdicts| verdicts.api.verdict)
}

/// Number of leaves known in a member.
fn leaves_of(cluster: &Cluster) -> usize {
    cluster.status.as_ref().map_or(0, |status| status.leaves)
}

/// Whether the hub has let go of a member. The number of leaves alone may be older than a creation
/// that is under way.
fn is_let_go(cluster: &Cluster) -> bool {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    let mut let_go = conditions.filter(|known| known.type_ == LET_GO);
    leaves_of(cluster) == 0 && let_go.any(|known| known.status == "True")
}

/// Deletes an object exactly as it was read.
fn exactly(metadata: &ObjectMeta) -> DeleteParams {
    let (uid, resource_version) = (metadata.uid.clone(), metadata.resource_version.clone());
    let preconditions = Some(Preconditions { uid, resource_version });
    DeleteParams { preconditions, ..DeleteParams::default() }
}

/// Removes a Cluster as it was read; false if it has changed since.
async fn remove(clusters: &Api<Cluster>, cluster: &Cluster) -> kube::Result<bool> {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    removed(clusters.delete(name, &exactly(&cluster.metadata)).await)
}

fn removed<T>(answer: kube::Result<T>) -> kube::Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if is_absent(&error) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

/// The Secret with a member's credential.
async fn credential(hub: &Client, cluster: &Cluster) -> Result<Option<Secret>, JoinError> {
    let Some(credentials) = &cluster.spec.credentials else { return Ok(None) };
    let secrets: Api<Secret> = Api::namespaced(hub.clone(), NAMESPACE);
    let secret = secrets.get_opt(&credentials.name).await;
    secret.map_err(step(format!("read the Secret {}", credentials.name)))
}

/// Removes a credential as it was read. One that has changed since belongs to a join that began
/// after the member was removed.
async fn remove_credential(hub: &Client, secret: &Secret) -> Result<(), JoinError> {
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let secrets: Api<Secret> = Api::namespaced(hub.clone(), NAMESPACE);
    let deleted = secrets.delete(name, &exactly(&secret.metadata)).await;
    removed(deleted).map(drop).map_err(step(format!("remove the Secret {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_names_uid_and_version_of_the_object_that_was_read() {
        let metadata = ObjectMeta {
            uid: Some("u-1".to_owned()),
            resource_version: Some("7".to_owned()),
            ..ObjectMeta::default()
        };
        let sent = serde_json::to_value(exactly(&metadata)).unwrap_or_default();
        assert_eq!(sent["preconditions"], json!({"uid": "u-1", "resourceVersion": "7"}));
    }
}
