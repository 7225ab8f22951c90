//! Controllers of a cluster: garbage collection and namespace termination.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::object::{finalizers, is_terminating, owner_uids, uid};
use super::{Cause, Key, Server};
use crate::actor::Actor;
use crate::random::Random;

/// Objects that one step of a namespace's termination deletes at most.
const AT_ONCE: usize = 40;

impl Server {
    /// One step of garbage collection and namespace termination.
    pub fn tick(&mut self, random: &mut Random) {
        self.terminate_namespaces(random);
        self.collect_garbage();
    }

    fn terminate_namespaces(&mut self, random: &mut Random) {
        for (namespace, actor) in self.terminating.clone() {
            let inside = self.all().filter(|(key, _)| key.namespace == namespace);
            // Objects of an unserved kind cannot be deleted, and keep the namespace.
            let served = |key: &Key| self.kinds.get(&key.resource).is_some();
            let mut left: Vec<Key> = inside
                .filter(|(key, object)| !is_terminating(object) && served(key))
                .map(|(key, _)| key.clone())
                .collect();
            for _ in 0..AT_ONCE.min(left.len()) {
                let key = left.swap_remove(random.index(left.len()));
                self.remove(&actor, &key, false, Cause::Namespace);
            }
            let key = Key::namespace(&namespace);
            let empty = !self.all().any(|(key, _)| key.namespace == namespace);
            let Some(object) = self.get(&key) else {
                self.terminating.remove(&namespace);
                continue;
            };
            if empty && finalizers(object).next().is_none() {
                self.terminating.remove(&namespace);
                self.erase(&actor, &key, Cause::Request);
            }
        }
    }

    fn collect_garbage(&mut self) {
        if !std::mem::take(&mut self.littered) {
            return;
        }
        let owned = self.all().any(|(_, object)| !owner_uids(object).is_empty());
        let orphaning: Vec<(Key, String)> = self
            .all()
            .filter(|(_, object)| {
                is_terminating(object) && finalizers(object).any(|f| f == "orphan")
            })
            .map(|(key, object)| (key.clone(), uid(object).to_owned()))
            .collect();
        if !owned && orphaning.is_empty() {
            return;
        }
        for (key, owner) in orphaning {
            self.orphan_dependents(&owner);
            let Some(object) = self.get(&key) else { continue };
            let mut object = object.clone();
            let left: Vec<_> =
                finalizers(&object).filter(|name| *name != "orphan").map(str::to_owned).collect();
            object["metadata"]["finalizers"] = json!(left);
            self.put_as(&Actor::Cluster, &key, object, "kube-controller-manager");
        }
        let known: BTreeSet<String> =
            self.all().map(|(_, object)| uid(object).to_owned()).collect();
        let ownerless = |object: &Value| {
            let owners = owner_uids(object);
            !owners.is_empty() && !owners.iter().any(|owner| known.contains(*owner))
        };
        let garbage: Vec<Key> = self
            .all()
            .filter(|(_, object)| ownerless(object))
            .map(|(key, _)| key.clone())
            .collect();
        for key in garbage {
            self.remove(&Actor::Cluster, &key, false, Cause::Collection);
        }
    }

    fn orphan_dependents(&mut self, owner: &str) {
        let owned: Vec<Key> = self
            .all()
            .filter(|(_, object)| owner_uids(object).contains(&owner))
            .map(|(key, _)| key.clone())
            .collect();
        for key in owned {
            let Some(object) = self.get(&key) else { continue };
            let mut object = object.clone();
            let left: Vec<Value> = object["metadata"]["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|reference| reference["uid"] != owner)
                .cloned()
                .collect();
            object["metadata"]["ownerReferences"] = json!(left);
            self.put_as(&Actor::Cluster, &key, object, "kube-controller-manager");
        }
    }
}
