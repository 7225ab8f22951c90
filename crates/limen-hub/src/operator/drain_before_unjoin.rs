//! Drains a member before its leaves are deleted.

use std::time::Duration;

use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use limen_api::{Cluster, GlobalIngress, kind};
use limen_sync::{ObjectApi, lacks};
use serde_json::json;

use super::join::{JoinError, step};

/// Time for edges to obey, and for requests in flight to end.
const EDGES: Duration = Duration::from_secs(2);

/// Drains a member and returns when no GlobalIngress sends clients there. The last target of a
/// backend stays as a fallback, also drained.
pub(crate) async fn drain_before_unjoin(
    hub: &Client,
    name: &str,
    patience: Duration,
) -> Result<(), JoinError> {
    if serving(hub, name).await? == 0 {
        return Ok(());
    }
    let clusters: Api<Cluster> = Api::all(hub.clone());
    let drain = json!({"spec": {"drain": true, "drainSchedule": null}});
    clusters
        .patch(name, &PatchParams::default(), &Patch::Merge(drain))
        .await
        .map_err(step(format!("drain cluster {name}")))?;
    let started = tokio::time::Instant::now();
    loop {
        let backends = serving(hub, name).await?;
        if backends == 0 {
            break;
        }
        if started.elapsed() > patience {
            let (name, seconds) = (name.to_owned(), patience.as_secs());
            return Err(JoinError::StillServing { name, backends, seconds });
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(EDGES).await;
    Ok(())
}

/// Number of backends that a member serves without being drained.
async fn serving(hub: &Client, name: &str) -> Result<usize, JoinError> {
    let globals: Api<GlobalIngress> = Api::all(hub.clone());
    let globals = match globals.list(&ListParams::default()).await {
        Ok(globals) => globals,
        Err(error) => {
            let kind = kind(("limen.dev/v1alpha1", "GlobalIngress", "globalingresses", true));
            // A hub without traffic has none; any other answer leaves it unknown.
            return match lacks(&ObjectApi::new(hub.clone()), &kind).await {
                Ok(true) => Ok(0),
                _ => Err(step("read GlobalIngress objects")(error)),
            };
        }
    };
    let backends = globals.iter().flat_map(|global| &global.spec.global.backends);
    let serves = |backend: &&limen_core::global::Backend| {
        let targets = &backend.targets;
        targets.iter().any(|target| target.cluster == name && target.drained_percent < 100)
    };
    Ok(backends.filter(serves).count())
}
