//! Forgetting old versions: what is older than a few minutes can no longer be listed or watched
//! from, as in Kubernetes.

use std::sync::Arc;
use std::time::Duration;

use crate::api::Api;

const KEPT: Duration = Duration::from_secs(300);

pub(super) async fn run(api: Arc<Api>) {
    let stopping = api.stopping.clone();
    let mut boundary = None;
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            () = tokio::time::sleep(KEPT) => {}
        }
        if let Some(revision) = boundary.take()
            && let Err(error) = api.store.compact(revision).await
        {
            tracing::warn!(%error, "old versions could not be forgotten");
        }
        boundary = api.store.revision().await.ok();
    }
}
