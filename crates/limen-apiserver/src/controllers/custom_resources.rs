//! Custom resource definitions: served as soon as they are there, gone as soon as they are not.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::follow::{Follower, Seen, state};
use crate::api::{Api, Change, Deletion, Propagation, Scope, Tracking};
use crate::crd::{CLEANUP, Definitions, Taken, accept, is_leaving, stored_type};
use crate::error::ApiResult;
use crate::request::Options;
use crate::storage::{StoredObject, store_error};

const GROUP: &str = "apiextensions.k8s.io";
const RETRY: Duration = Duration::from_secs(1);

/// Follows changes that other servers on the same store make, and empties what is being deleted.
pub(super) async fn run(api: Arc<Api>) {
    let mut follower = Follower::new(&api, format!("{GROUP}/"), RETRY);
    while let Some(seen) = follower.next().await {
        let is_settled = api.definitions.lock().await.is_settled();
        let outcome = match seen {
            Seen::Tick if is_settled => api.empty_leaving_definitions().await,
            _ => api.learn_custom_resources().await,
        };
        if let Err(error) = outcome {
            tracing::debug!(%error, "custom resource definitions will be looked at again");
        }
    }
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
        let mut definitions = self.definitions.lock().await;
        self.settle(&mut definitions).await?;
        drop(definitions);
        self.empty_leaving_definitions().await
    }

    /// Brings what is served in line with the definitions that there are. What is cut short is done
    /// again, even if nothing has changed since.
    async fn settle(&self, definitions: &mut Definitions) -> ApiResult<()> {
        let is_owed = !definitions.begin();
        let has_changed = self.renew(definitions).await?;
        // Another one may come while one is accepted.
        while (has_changed || is_owed) && self.accept_all(definitions).await? {
            self.renew(definitions).await?;
        }
        self.registry.set_custom(definitions.served());
        definitions.finish();
        Ok(())
    }

    /// Reads what has changed; whether anything has.
    async fn renew(&self, definitions: &mut Definitions) -> ApiResult<bool> {
        let scope = self.definitions();
        let found = state(self, &scope.place().prefix()).await;
        let (entries, _) = found.map_err(|error| store_error(&error))?;
        Ok(definitions.renew(entries, |entry| scope.read(&StoredObject::new(entry))))
    }

    /// Says of every definition whether its names are free; whether anything was said that is new.
    async fn accept_all(&self, definitions: &Definitions) -> ApiResult<bool> {
        let mut outlines: Vec<Value> = definitions.outlines().cloned().collect();
        let mut changed = false;
        for n in 0..outlines.len() {
            if is_leaving(&outlines[n]) {
                continue;
            }
            let mut taken = Taken::by_others(&outlines[n], &outlines);
            taken.group = self.is_in_built_in_group(&outlines[n]);
            let status = accept(&outlines[n], &taken, &self.timestamp());
            if outlines[n]["status"] != status {
                self.set_status(&outlines[n], &status).await?;
                outlines[n]["status"] = status;
                changed = true;
            }
        }
        Ok(changed)
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
        if !self.definitions.lock().await.outlines().any(is_leaving) {
            return Ok(());
        }
        let mut gone = false;
        for definition in self.all_definitions().await?.iter().filter(|found| is_leaving(found)) {
            let Some(kind) = stored_type(definition).map(Arc::new) else {
                continue;
            };
            // What is in a built-in group was never this definition's.
            let scope = Scope::new(&kind, None);
            if !self.is_in_built_in_group(definition) && !self.delete_all(&scope).await? {
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
            let mut definitions = self.definitions.lock().await;
            self.settle(&mut definitions).await?;
        }
        Ok(())
    }

    fn is_in_built_in_group(&self, definition: &Value) -> bool {
        definition["spec"]["group"].as_str().is_some_and(|group| self.registry.is_built_in(group))
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
