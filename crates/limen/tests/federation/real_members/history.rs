//! Every version that objects of one kind have had in a member.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use kube::api::{
    ApiResource, DynamicObject, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::processes::eventually;

/// The name of the object that a history changes itself.
const MARKER: &str = "marker";

/// A change of an object.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// The object is gone; this is what it was last.
    pub(super) gone: bool,
    pub(super) object: Value,
}

impl Change {
    pub(super) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        self.object["metadata"]["uid"].as_str().unwrap_or_default()
    }
}

/// Follows all objects of a kind in the namespace default. Versions come in their order, so all that
/// came before a change of the marker is known when that change is.
pub(super) struct History {
    api: Api<DynamicObject>,
    changes: Arc<Mutex<Vec<Change>>>,
    following: JoinHandle<()>,
}

impl History {
    /// Follows from now on; the marker is an object to be created for this.
    pub(super) async fn start<K: Resource<DynamicType = ()>>(
        client: &Client,
        mut marker: Value,
    ) -> Self {
        let kind = ApiResource::erase::<K>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &kind);
        marker["metadata"] = json!({"name": MARKER});
        let marker: DynamicObject = serde_json::from_value(marker).unwrap();
        let marker = api.create(&PostParams::default(), &marker).await.unwrap();
        let version = marker.metadata.resource_version.unwrap();
        let changes: Arc<Mutex<Vec<Change>>> = Arc::default();
        let (events, kept) = (api.clone(), changes.clone());
        let following = tokio::spawn(async move {
            let stream = events.watch(&WatchParams::default(), &version).await.unwrap();
            let mut stream = std::pin::pin!(stream);
            while let Some(event) = stream.next().await {
                let (object, gone) = match event.unwrap() {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                    WatchEvent::Deleted(object) => (object, true),
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(status) => panic!("the history has a gap: {status:?}"),
                };
                let object = serde_json::to_value(object).unwrap();
                kept.lock().unwrap().push(Change { gone, object });
            }
        });
        Self { api, changes, following }
    }

    /// All changes so far, without those of the marker.
    pub(super) async fn so_far(&self) -> Vec<Change> {
        let label = Patch::Merge(json!({"metadata": {"annotations": {
            "count": self.changes.lock().unwrap().len().to_string()}}}));
        let marked = self.api.patch(MARKER, &PatchParams::default(), &label).await.unwrap();
        let version = marked.metadata.resource_version.unwrap();
        eventually("the history", async || {
            assert!(!self.following.is_finished(), "the history has ended early");
            let changes = self.changes.lock().unwrap();
            let seen =
                |change: &Change| change.object["metadata"]["resourceVersion"] == version.as_str();
            (changes.iter().any(seen), format!("without version {version}: {changes:?}"))
        })
        .await;
        let changes = self.changes.lock().unwrap();
        changes.iter().filter(|change| change.name() != MARKER).cloned().collect()
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.following.abort();
    }
}
