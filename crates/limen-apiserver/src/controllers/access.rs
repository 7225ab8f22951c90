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
const RETRY: Duration = Duration::from_secs(30);

/// Follows changes that other servers on the same store make; this one's own are learned at once.
pub(super) async fn run(api: Arc<Api>) {
    let mut follower = Follower::new(&api, format!("{GROUP}/"), RETRY);
    while let Some(seen) = follower.next().await {
        if !matches!(seen, Seen::Tick)
            && let Err(error) = api.learn_access().await
        {
            tracing::warn!(%error, "roles and bindings could not be read");
        }
    }
}

impl Api {
    /// Reads all roles and bindings and decides by them from now on.
    pub(crate) async fn learn_access(&self) -> ApiResult<()> {
        let mut objects = Vec::new();
        for plural in KINDS {
            let scope = self.scope(GROUP, "v1", plural, None);
            let listing = self.select(&scope, &Options::default()).await?;
            let mut found: Vec<Value> =
                listing.items.iter().map(|stored| scope.read(stored)).collect();
            if plural == "clusterroles" {
                let changed = settle_aggregation(&mut found);
                for role in found.iter().filter(|role| {
                    role["metadata"]["name"]
                        .as_str()
                        .is_some_and(|name| changed.iter().any(|c| c == name))
                }) {
                    self.write_rules(&scope, role).await?;
                }
            }
            objects.append(&mut found);
        }
        self.rbac.store(Arc::new(Rbac::new(&objects)));
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
