//! Emptying namespaces that are being deleted, and then letting them go.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::MANAGER;
use super::follow::{Follower, Seen};
use super::namespace_conditions::Remains;
use crate::api::{Api, Change, Deletion, Propagation, Scope, Tracking, Writing};
use crate::error::ApiResult;
use crate::request::Options;
use crate::storage::{StoredObject, all_prefix};

/// How often a namespace that is not empty yet is looked at again.
const RETRY: Duration = Duration::from_millis(500);

pub(super) async fn run(api: Arc<Api>) {
    let namespaces = api.namespaces();
    let mut emptier = Emptier { api: api.clone(), namespaces, leaving: HashSet::new() };
    let prefix = all_prefix(&emptier.namespaces.kind);
    let mut follower = Follower::new(&api, prefix, RETRY);
    while let Some(seen) = follower.next().await {
        emptier.on(seen).await;
    }
}

struct Emptier {
    api: Arc<Api>,
    namespaces: Scope,
    /// The namespaces that are being deleted.
    leaving: HashSet<String>,
}

impl Emptier {
    async fn on(&mut self, seen: Seen) {
        match seen {
            Seen::State(entries) => {
                self.leaving.clear();
                for entry in entries {
                    self.note(&StoredObject::new(entry));
                }
            }
            Seen::Events(events) => {
                for event in events {
                    if let Some(entry) = event.current.clone() {
                        self.note(&StoredObject::new(entry));
                    }
                }
            }
            Seen::Tick => {}
        }
        for name in self.leaving.clone() {
            match self.empty(&name).await {
                Ok(true) => {
                    self.leaving.remove(&name);
                }
                Ok(false) => {}
                Err(error) if error.code == http::StatusCode::NOT_FOUND => {
                    self.leaving.remove(&name);
                }
                Err(error) => tracing::debug!(%error, name, "the namespace is not empty yet"),
            }
        }
    }

    fn note(&mut self, stored: &StoredObject) {
        let namespace = self.namespaces.read(stored);
        if namespace["metadata"]["deletionTimestamp"].is_string()
            && let Some(name) = namespace["metadata"]["name"].as_str()
        {
            self.leaving.insert(name.to_owned());
        }
    }

    /// Deletes everything in a namespace. Returns whether nothing was left, so that it could go.
    async fn empty(&self, name: &str) -> ApiResult<bool> {
        let mut remains = Remains::default();
        for kind in self.api.registry.types().stored() {
            if !kind.namespaced {
                continue;
            }
            let scope = Scope::new(&kind, Some(name));
            if let Err(error) = self.empty_of(&scope, &mut remains).await {
                remains.failures.push(error.message);
            }
        }
        if remains.is_empty() {
            self.update(name, "finalize", &|old| {
                let mut new = old.clone();
                if let Some(finalizers) = new["spec"]["finalizers"].as_array_mut() {
                    finalizers.retain(|finalizer| finalizer != "kubernetes");
                }
                Ok(new)
            })
            .await?;
            return Ok(true);
        }
        let now = self.api.timestamp();
        self.update(name, "status", &|old| {
            let mut new = old.clone();
            remains.report(&mut new, &now);
            Ok(new)
        })
        .await?;
        Ok(false)
    }

    /// Deletes what there is of one type, and counts what is left.
    async fn empty_of(&self, scope: &Scope, remains: &mut Remains) -> ApiResult<()> {
        let listing = self.api.select(scope, &Options::default()).await?;
        if listing.items.is_empty() {
            return Ok(());
        }
        let deletion =
            Deletion { propagation: Some(Propagation::Background), ..Deletion::default() };
        for stored in &listing.items {
            let object = scope.read(stored);
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            match self.api.delete_object(scope, name, &deletion).await {
                Ok(_) => {}
                Err(error) if error.code == http::StatusCode::NOT_FOUND => {}
                Err(error) => return Err(error),
            }
        }
        let left = self.api.select(scope, &Options::default()).await?.items;
        if !left.is_empty() {
            let kind = format!("{}.{}", scope.kind.plural, scope.kind.group);
            remains.objects.insert(kind, left.len());
        }
        for stored in &left {
            let object = scope.read(stored);
            let finalizers = object["metadata"]["finalizers"].as_array().into_iter().flatten();
            for finalizer in finalizers.filter_map(Value::as_str) {
                *remains.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
        Ok(())
    }

    async fn update(
        &self,
        name: &str,
        subresource: &str,
        make: &(dyn Fn(&Value) -> ApiResult<Value> + Send + Sync),
    ) -> ApiResult<()> {
        let types = self.api.registry.types();
        let now = self.api.now();
        let writing = Writing { types: &types, manager: MANAGER, subresource, now };
        let change = Change {
            make,
            subresource: Some(subresource),
            tracking: Tracking::Record(&writing),
            honours_version: false,
            dry_run: false,
        };
        self.api.update_object(&self.namespaces, name, &change).await.map(drop)
    }
}
