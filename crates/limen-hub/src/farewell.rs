//! Taking traffic away from a member before its leaves go.

use std::time::Duration;

use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use limen_api::{Cluster, GlobalIngress, kind};
use limen_sync::{ObjectApi, lacks};
use serde_json::json;

use crate::join::{JoinError, step};

/// How long edges may take to obey, and requests that are under way to end.
const EDGES: Duration = Duration::from_secs(2);

/// Drains a member and returns when nothing that edges obey sends clients there. What is drained
/// and the last of its kind stays a way in, and edges use it only where there is no other.
pub(crate) async fn take_traffic_away(
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

/// How many backends a member serves and is not drained for.
async fn serving(hub: &Client, name: &str) -> Result<usize, JoinError> {
    let globals: Api<GlobalIngress> = Api::all(hub.clone());
    let globals = match globals.list(&ListParams::default()).await {
        Ok(globals) => globals,
        Err(error) => {
            let kind = kind(("limen.dev/v1alpha1", "GlobalIngress", "globalingresses", true));
            // A hub without traffic has none. Who else answers does not know.
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
