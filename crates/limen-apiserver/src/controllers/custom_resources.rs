//! Custom resource definitions: served as soon as they are there, gone as soon as they are not.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::follow::{Follower, Seen};
use crate::api::{Api, Change, Deletion, Propagation, Scope, Tracking};
use crate::crd::{CLEANUP, Taken, accept, resource_types, stored_type};
use crate::error::ApiResult;
use crate::request::Options;

const GROUP: &str = "apiextensions.k8s.io";
const RETRY: Duration = Duration::from_secs(1);

/// Follows changes that other servers on the same store make, and empties what is being deleted.
pub(super) async fn run(api: Arc<Api>) {
    let mut follower = Follower::new(&api, format!("{GROUP}/"), RETRY);
    while let Some(seen) = follower.next().await {
        let outcome = match seen {
            Seen::Tick => api.empty_leaving_definitions().await,
            _ => api.learn_custom_resources().await,
        };
        if let Err(error) = outcome {
            tracing::debug!(%error, "custom resource definitions will be looked at again");
        }
    }
}

fn is_leaving(definition: &Value) -> bool {
    definition["metadata"]["deletionTimestamp"].is_string()
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

impl Api {
    fn definitions(&self) -> Scope {
        self.scope(GROUP, "v1", "customresourcedefinitions", None)
    }

    async fn all_definitions(&self) -> ApiResult<Vec<Value>> {
        let scope = self.definitions();
        let listing = self.select(&scope, &Options::default()).await?;
        Ok(listing.items.iter().map(|stored| scope.read(stored)).collect())
    }

    /// Accepts what is new, and serves what is established from now on.
    pub(crate) async fn learn_custom_resources(&self) -> ApiResult<()> {
        let mut definitions = self.all_definitions().await?;
        for n in 0..definitions.len() {
            if is_leaving(&definitions[n]) {
                continue;
            }
            let taken = Taken::by_others(&definitions[n], &definitions);
            let status = accept(&definitions[n], &taken, &self.timestamp());
            if definitions[n]["status"] != status {
                self.set_status(&definitions[n], &status).await?;
                definitions[n]["status"] = status;
            }
        }
        let served = definitions.iter().filter(|definition| is_established(definition));
        self.registry.set_custom(served.flat_map(resource_types).map(Arc::new));
        self.empty_leaving_definitions().await
    }

    async fn set_status(&self, definition: &Value, status: &Value) -> ApiResult<()> {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let status = status.clone();
        let set = move |old: &Value| {
            let mut new = old.clone();
            new["status"] = status.clone();
            Ok(new)
        };
        self.change_definition(name, Some("status"), &set).await
    }

    async fn change_definition(
        &self,
        name: &str,
        subresource: Option<&str>,
        make: &(dyn Fn(&Value) -> ApiResult<Value> + Send + Sync),
    ) -> ApiResult<()> {
        let change = Change {
            make,
            subresource,
            tracking: Tracking::Done,
            honours_version: false,
            dry_run: false,
        };
        match self.update_object(&self.definitions(), name, &change).await {
            Err(error) if error.code == http::StatusCode::NOT_FOUND => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Deletes the objects of definitions that are being deleted, and lets those go that have none
    /// left.
    async fn empty_leaving_definitions(&self) -> ApiResult<()> {
        let mut gone = false;
        for definition in self.all_definitions().await?.iter().filter(|found| is_leaving(found)) {
            let Some(kind) = stored_type(definition).map(Arc::new) else {
                continue;
            };
            let scope = Scope::new(&kind, None);
            if !self.delete_all(&scope).await? {
                continue;
            }
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            let release = |old: &Value| {
                let mut new = old.clone();
                if let Some(finalizers) = new["metadata"]["finalizers"].as_array_mut() {
                    finalizers.retain(|name| name != CLEANUP);
                }
                Ok(new)
            };
            self.change_definition(name, None, &release).await?;
            gone = true;
        }
        if gone {
            let definitions = self.all_definitions().await?;
            let served = definitions.iter().filter(|definition| is_established(definition));
            self.registry.set_custom(served.flat_map(resource_types).map(Arc::new));
        }
        Ok(())
    }

    /// Deletes all objects of a type. Returns whether none are left.
    async fn delete_all(&self, scope: &Scope) -> ApiResult<bool> {
        let deletion =
            Deletion { propagation: Some(Propagation::Background), ..Deletion::default() };
        for stored in &self.select(scope, &Options::default()).await?.items {
            let object = scope.read(stored);
            let inner = Scope::new(&scope.kind, object["metadata"]["namespace"].as_str());
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            match self.delete_object(&inner, name, &deletion).await {
                Err(error) if error.code != http::StatusCode::NOT_FOUND => return Err(error),
                _ => {}
            }
        }
        Ok(self.select(scope, &Options::default()).await?.items.is_empty())
    }
}
