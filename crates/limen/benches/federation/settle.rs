//! Waiting for a hub that has nothing left to do.

use std::time::{Duration, Instant};

use anyhow::Result;
use limen_sync::ObjectApi;

/// The number of the last write to a hub.
pub(crate) async fn revision(hub: &ObjectApi) -> Result<u64> {
    let kind = limen_api::kind(("networking.k8s.io/v1", "Ingress", "ingresses", true));
    let (_, version) = hub.list(&kind, "limen.dev/none").await?;
    Ok(version.parse()?)
}

/// Waits until a hub has written nothing for two seconds.
pub(crate) async fn settle(hub: &ObjectApi) -> Result<()> {
    let mut quiet = Instant::now();
    let mut last = revision(hub).await?;
    while quiet.elapsed() < Duration::from_secs(2) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = revision(hub).await?;
        if now != last {
            (last, quiet) = (now, Instant::now());
        }
    }
    Ok(())
}
