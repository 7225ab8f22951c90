//! Keeping what RBAC decides by up to date, and aggregated roles in step.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::follow::{Follower, Seen};
use crate::api::{Api, Change, Tracking};
use crate::error::ApiResult;
use crate::rbac::{Rbac, settle_aggregation};
use crate::request::Options;

const GROUP: &str = "rbac.authorization.k8s.io";
const KINDS: [&str; 4] = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];
const RETRY: Duration = Duration::from_secs(1);

/// Follows changes that other servers on the same store make; this one's own are learned at once.
pub(super) async fn run(api: Arc<Api>) {
    let mut follower = Follower::new(&api, format!("{GROUP}/"), RETRY);
    while let Some(seen) = follower.next().await {
        if matches!(seen, Seen::Tick) && !*api.access_is_stale.lock().await {
            continue;
        }
        if let Err(error) = api.learn_access().await {
            tracing::warn!(%error, "roles and bindings could not be read; they will be again");
        }
    }
}

impl Api {
    /// Reads all roles and bindings and decides by them from now on. One reading waits for the
    /// other, so that an older state never follows a newer one; and one that fails or is cut short
    /// is made up for.
    pub(crate) async fn learn_access(&self) -> ApiResult<()> {
        let mut is_stale = self.access_is_stale.lock().await;
        *is_stale = true;
        self.read_access().await?;
        *is_stale = false;
        Ok(())
    }

    async fn read_access(&self) -> ApiResult<()> {
        let roles = self.scope(GROUP, "v1", "clusterroles", None);
        let (mut objects, mut aggregated) = (Vec::new(), Vec::new());
        for plural in KINDS {
            let scope = self.scope(GROUP, "v1", plural, None);
            let listing = self.select(&scope, &Options::default()).await?;
            let mut found: Vec<Value> =
                listing.items.iter().map(|stored| scope.read(stored)).collect();
            if plural == "clusterroles" {
                let changed = settle_aggregation(&mut found);
                let is_changed = |role: &&Value| {
                    let name = role["metadata"]["name"].as_str();
                    name.is_some_and(|name| changed.iter().any(|changed| changed == name))
                };
                aggregated = found.iter().filter(is_changed).cloned().collect();
            }
            objects.append(&mut found);
        }
        self.rbac.store(Arc::new(Rbac::new(&objects)));
        // Last, since what was taken away is so even where nothing can be written.
        for role in &aggregated {
            self.write_rules(&roles, role).await?;
        }
        Ok(())
    }

    async fn write_rules(&self, scope: &crate::api::Scope, role: &Value) -> ApiResult<()> {
        let name = role["metadata"]["name"].as_str().unwrap_or_default();
        let rules = role["rules"].clone();
        let make = move |old: &Value| {
            let mut new = old.clone();
            new["rules"] = rules.clone();
            Ok(new)
        };
        let change = Change {
            make: &make,
            subresource: None,
            tracking: Tracking::Done,
            honours_version: false,
            dry_run: false,
        };
        self.update_object(scope, name, &change).await.map(drop)
    }
}
