//! The garbage collector: objects whose owners are gone go too.
//!
//! One task keeps a graph of who owns whom, by uid, from the metadata of every object in the
//! store, and acts on three things:
//!
//! - an object is gone: what it owned and nobody else owns is deleted, and what somebody else
//!   owns too forgets it;
//! - an object waits with the finalizer `foregroundDeletion`: what it owns is deleted first;
//! - an object waits with the finalizer `orphan`: what it owns is let go first.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use limen_store::{Entry, Event, Revision};
use serde::Deserialize;
use serde_json::Value;

use super::MANAGER;
use super::follow::{Follower, Seen};
use crate::api::{
    Api, Change, Deletion, FOREGROUND, ORPHAN, Propagation, Scope, Tracking, Writing, metadata_mut,
};
use crate::error::{ApiError, ApiResult};
use crate::storage::{all_prefix, place_of};

/// How often what failed is tried again.
const RETRY: Duration = Duration::from_secs(5);

pub(super) async fn run(api: Arc<Api>) {
    let mut collector =
        Collector { api: api.clone(), graph: Graph::default(), again: HashSet::new() };
    let mut follower = Follower::new(&api, String::new(), RETRY);
    while let Some(seen) = follower.next().await {
        collector.on(seen).await;
    }
}

struct Collector {
    api: Arc<Api>,
    graph: Graph,
    /// Objects to look at again, since something about them failed.
    again: HashSet<Uid>,
}

type Uid = Arc<str>;

/// Who owns whom.
#[derive(Default)]
struct Graph {
    objects: HashMap<Uid, Object>,
    by_key: HashMap<bytes::Bytes, Uid>,
    /// The objects that name an owner, which may not be there.
    owned: HashMap<Uid, HashSet<Uid>>,
}

/// What the collector remembers of an object.
struct Object {
    key: bytes::Bytes,
    /// The revision that all of this is of.
    revision: Revision,
    owners: Vec<Owner>,
    foreground: bool,
    orphan: bool,
    deleting: bool,
}

struct Owner {
    uid: Uid,
    blocks: bool,
}

#[derive(Deserialize)]
struct Parsed {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    owner_references: Vec<Reference>,
    #[serde(default)]
    finalizers: Vec<String>,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    uid: String,
    #[serde(default)]
    block_owner_deletion: bool,
}

impl Graph {
    /// Remembers an object as it is. Returns its uid.
    fn put(&mut self, entry: &Entry) -> Option<Uid> {
        let metadata = serde_json::from_slice::<Parsed>(&entry.value).ok()?.metadata;
        if metadata.uid.is_empty() {
            return None;
        }
        let uid: Uid = metadata.uid.as_str().into();
        self.forget_owners(&uid);
        let owners: Vec<Owner> = metadata
            .owner_references
            .iter()
            .map(|reference| Owner {
                uid: reference.uid.as_str().into(),
                blocks: reference.block_owner_deletion,
            })
            .collect();
        for owner in &owners {
            self.owned.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        let has = |finalizer: &str| metadata.finalizers.iter().any(|name| name == finalizer);
        let object = Object {
            key: entry.key.clone(),
            revision: entry.modified,
            owners,
            foreground: has(FOREGROUND),
            orphan: has(ORPHAN),
            deleting: metadata.deletion_timestamp.is_some(),
        };
        self.by_key.insert(entry.key.clone(), uid.clone());
        self.objects.insert(uid.clone(), object);
        Some(uid)
    }

    /// Forgets an object. Returns its uid and its owners.
    fn remove(&mut self, key: &bytes::Bytes) -> Option<(Uid, Vec<Uid>)> {
        let uid = self.by_key.remove(key)?;
        self.forget_owners(&uid);
        let object = self.objects.remove(&uid)?;
        Some((uid, object.owners.into_iter().map(|owner| owner.uid).collect()))
    }

    fn forget_owners(&mut self, uid: &Uid) {
        let Some(object) = self.objects.get(uid) else { return };
        for owner in &object.owners {
            if let Some(owned) = self.owned.get_mut(&owner.uid) {
                owned.remove(uid);
                if owned.is_empty() {
                    self.owned.remove(&owner.uid);
                }
            }
        }
    }

    fn owned_by(&self, uid: &Uid) -> Vec<Uid> {
        self.owned.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Whether an object owns another one, or owns one that does, and so on.
    fn is_above(&self, uid: &Uid, other: &Uid) -> bool {
        let mut seen = HashSet::new();
        let mut left = vec![uid.clone()];
        while let Some(uid) = left.pop() {
            if uid == *other {
                return true;
            }
            if seen.insert(uid.clone()) {
                left.extend(self.owned_by(&uid));
            }
        }
        false
    }

    /// Whether an object has owners, all of which are gone.
    fn is_abandoned(&self, uid: &Uid) -> bool {
        self.objects.get(uid).is_some_and(|object| {
            !object.deleting
                && !object.owners.is_empty()
                && object.owners.iter().all(|owner| !self.objects.contains_key(&owner.uid))
        })
    }

    /// Whether an owner is there to stay, and does not wait for what it owns to go.
    fn is_solid(&self, owner: &Uid) -> bool {
        let waits = |object: &Object| object.deleting && object.foreground;
        self.objects.get(owner).is_some_and(|object| !waits(object))
    }

    /// The owners that an object need not name any longer, since another one keeps it.
    fn needless_owners(&self, uid: &Uid) -> Vec<Uid> {
        let owners = self.objects.get(uid).map(|object| object.owners.as_slice());
        let (solid, needless): (Vec<&Owner>, Vec<&Owner>) =
            owners.unwrap_or_default().iter().partition(|owner| self.is_solid(&owner.uid));
        if solid.is_empty() {
            return Vec::new();
        }
        needless.into_iter().map(|owner| owner.uid.clone()).collect()
    }
}

impl Collector {
    async fn on(&mut self, seen: Seen) {
        match seen {
            Seen::State(entries) => {
                self.graph = Graph::default();
                let all: Vec<Uid> =
                    entries.iter().filter_map(|entry| self.graph.put(entry)).collect();
                for uid in all {
                    self.look_at(&uid).await;
                }
            }
            Seen::Events(events) => {
                for event in events {
                    self.on_event(&event).await;
                }
            }
            Seen::Tick => {
                for uid in std::mem::take(&mut self.again) {
                    self.look_at(&uid).await;
                }
            }
        }
    }

    async fn on_event(&mut self, event: &Event) {
        if let Some(entry) = &event.current {
            if let Some(uid) = self.graph.put(entry) {
                self.look_at(&uid).await;
                self.look_at_waiting_owners(&uid).await;
            }
            return;
        }
        let Some((uid, owners)) = self.graph.remove(&event.key) else { return };
        for owned in self.graph.owned_by(&uid) {
            self.look_at(&owned).await;
        }
        for owner in owners {
            self.look_at(&owner).await;
        }
    }

    /// Owners that could not go on because what was known of an object was out of date.
    async fn look_at_waiting_owners(&mut self, uid: &Uid) {
        let owners = self.graph.objects.get(uid).map(|object| object.owners.as_slice());
        let owners: Vec<Uid> =
            owners.unwrap_or_default().iter().map(|owner| owner.uid.clone()).collect();
        for owner in owners {
            if self.again.remove(&owner) {
                self.look_at(&owner).await;
            }
        }
    }

    /// Does what an object needs, and remembers to try again if that fails.
    async fn look_at(&mut self, uid: &Uid) {
        let Some(object) = self.graph.objects.get(uid) else { return };
        let outcome = if object.deleting && object.orphan {
            self.let_go(uid).await
        } else if object.deleting && object.foreground {
            self.delete_owned(uid).await
        } else if self.graph.is_abandoned(uid) {
            self.delete(uid, None).await
        } else {
            self.forget(uid, self.graph.needless_owners(uid)).await
        };
        match outcome {
            Err(error) if error.code != StatusCode::NOT_FOUND => {
                tracing::debug!(%error, %uid, "the garbage collector will try again");
                self.again.insert(uid.clone());
            }
            _ => {}
        }
    }

    /// Deletes what an object owns, and lets the object go when nothing that blocks it is left.
    async fn delete_owned(&self, owner: &Uid) -> ApiResult<()> {
        let mut blocked = false;
        for uid in self.graph.owned_by(owner) {
            let Some(object) = self.graph.objects.get(&uid) else { continue };
            // Somebody else still owns it: it stays, and only ceases to be owned by this one.
            let needless = self.graph.needless_owners(&uid);
            if !needless.is_empty() {
                self.forget(&uid, needless).await?;
                continue;
            }
            // In a circle, everybody would wait for everybody else.
            let blocks = object.owners.iter().any(|other| other.uid == *owner && other.blocks);
            blocked |= blocks && !self.graph.is_above(&uid, owner);
            if !object.deleting {
                let owns = !self.graph.owned_by(&uid).is_empty();
                self.delete(&uid, owns.then_some(Propagation::Foreground)).await?;
            }
        }
        if blocked { Ok(()) } else { self.remove_finalizer(owner, FOREGROUND).await }
    }

    /// Takes an object off the owners of what it owns, and lets the object go.
    async fn let_go(&self, owner: &Uid) -> ApiResult<()> {
        for uid in self.graph.owned_by(owner) {
            self.forget(&uid, vec![owner.clone()]).await?;
        }
        self.remove_finalizer(owner, ORPHAN).await
    }

    /// Takes these owners off an object.
    async fn forget(&self, uid: &Uid, owners: Vec<Uid>) -> ApiResult<()> {
        // Mostly there are none, and then it does not matter where the object is.
        if owners.is_empty() {
            return Ok(());
        }
        let Some((scope, name)) = self.locate(uid) else { return Ok(()) };
        let is_kept = move |reference: &Value| {
            !owners.iter().any(|owner| reference["uid"].as_str() == Some(owner))
        };
        let make = move |old: &Value| {
            let mut new = old.clone();
            retain_or_remove(&mut new, "ownerReferences", &is_kept);
            Ok(new)
        };
        ignore_missing(self.change(&scope, &name, &make).await)
    }

    /// Deletes an object if it is still as it is remembered: it may have got another owner since.
    async fn delete(&self, uid: &Uid, propagation: Option<Propagation>) -> ApiResult<()> {
        let Some((scope, name)) = self.locate(uid) else { return Ok(()) };
        let revision = self.graph.objects.get(uid).map(|object| object.revision.to_string());
        let deletion = Deletion {
            uid: Some(uid.to_string()),
            version: revision,
            propagation: propagation.or(Some(Propagation::Background)),
            ..Deletion::default()
        };
        ignore_missing(self.api.delete_object(&scope, &name, &deletion).await.map(drop))
    }

    async fn remove_finalizer(&self, uid: &Uid, finalizer: &'static str) -> ApiResult<()> {
        let Some((scope, name)) = self.locate(uid) else { return Ok(()) };
        let make = move |old: &Value| {
            let mut new = old.clone();
            retain_or_remove(&mut new, "finalizers", |name| *name != finalizer);
            Ok(new)
        };
        ignore_missing(self.change(&scope, &name, &make).await)
    }

    async fn change(
        &self,
        scope: &Scope,
        name: &str,
        make: &(dyn Fn(&Value) -> ApiResult<Value> + Send + Sync),
    ) -> ApiResult<()> {
        let types = self.api.registry.types();
        let now = self.api.now();
        let writing = Writing { types: &types, manager: MANAGER, subresource: "", now };
        let change = Change {
            make,
            subresource: None,
            tracking: Tracking::Record(&writing),
            honours_version: false,
            dry_run: false,
        };
        self.api.update_object(scope, name, &change).await.map(drop)
    }

    fn locate(&self, uid: &Uid) -> Option<(Scope, String)> {
        let object = self.graph.objects.get(uid)?;
        let types = self.api.registry.types();
        let stored = types.stored();
        let kind =
            stored.iter().find(|kind| object.key.starts_with(all_prefix(kind).as_bytes()))?;
        let (namespace, name) = place_of(kind, &object.key)?;
        Some((Scope::new(kind, namespace), name.to_owned()))
    }
}

/// Keeps some items of a list in the metadata; an empty list goes altogether.
fn retain_or_remove(object: &mut Value, field: &str, keep: impl Fn(&Value) -> bool) {
    let metadata = metadata_mut(object);
    if let Some(items) = metadata.get_mut(field).and_then(Value::as_array_mut) {
        items.retain(keep);
        if items.is_empty() {
            metadata.remove(field);
        }
    }
}

fn ignore_missing(outcome: ApiResult<()>) -> ApiResult<()> {
    match outcome {
        Err(ApiError { code: StatusCode::NOT_FOUND, .. }) => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(key: &'static str, metadata: &Value) -> Entry {
        let value = json!({"metadata": metadata}).to_string().into();
        Entry { key: key.into(), value, created: Revision(2), modified: Revision(2) }
    }

    #[test]
    fn an_object_is_abandoned_when_all_of_its_owners_are_gone() {
        let mut graph = Graph::default();
        let owned = json!({"uid": "c", "ownerReferences": [{"uid": "a"}, {"uid": "b"}]});
        graph.put(&entry("a", &json!({"uid": "a"})));
        graph.put(&entry("b", &json!({"uid": "b"})));
        let c = graph.put(&entry("c", &owned)).unwrap();
        assert!(!graph.is_abandoned(&c));
        assert_eq!(graph.remove(&"a".into()).unwrap().0, "a".into());
        assert!(!graph.is_abandoned(&c));
        graph.remove(&"b".into());
        assert!(graph.is_abandoned(&c));
        assert_eq!(graph.owned_by(&"b".into()), std::slice::from_ref(&c));
        let (uid, owners) = graph.remove(&"c".into()).unwrap();
        assert_eq!((uid, owners), (c, vec!["a".into(), "b".into()]));
        assert!(graph.owned.is_empty());
    }

    #[test]
    fn circles_of_owners_are_seen() {
        let mut graph = Graph::default();
        for (key, owner) in [("a", "c"), ("b", "a"), ("c", "b"), ("d", "c")] {
            graph.put(&entry(key, &json!({"uid": key, "ownerReferences": [{"uid": owner}]})));
        }
        assert!(graph.is_above(&"b".into(), &"a".into()));
        assert!(graph.is_above(&"a".into(), &"d".into()));
        assert!(!graph.is_above(&"d".into(), &"a".into()));
    }

    #[test]
    fn an_object_forgets_the_owners_that_are_gone_or_going_while_another_stays() {
        let here = |uid: &str| json!({"uid": uid});
        let waiting =
            json!({"uid": "a", "deletionTimestamp": "t", "finalizers": ["foregroundDeletion"]});
        let cases = [
            (vec![here("a"), here("b")], vec![]),
            (vec![here("a")], vec!["b"]),
            (vec![], vec![]),
            (vec![waiting.clone(), here("b")], vec!["a"]),
            (vec![waiting], vec![]),
        ];
        for (owners, expected) in cases {
            let mut graph = Graph::default();
            for (key, owner) in ["a", "b"].into_iter().zip(&owners) {
                graph.put(&entry(key, owner));
            }
            let owned = json!({"uid": "c", "ownerReferences": [{"uid": "a"}, {"uid": "b"}]});
            let c = graph.put(&entry("c", &owned)).unwrap();
            let expected: Vec<Uid> = expected.into_iter().map(Uid::from).collect();
            assert_eq!(graph.needless_owners(&c), expected, "{owners:?}");
        }
    }

    #[test]
    fn an_object_without_owners_is_never_abandoned() {
        let mut graph = Graph::default();
        let uid = graph.put(&entry("a", &json!({"uid": "a"}))).unwrap();
        assert!(!graph.is_abandoned(&uid));
    }
}
