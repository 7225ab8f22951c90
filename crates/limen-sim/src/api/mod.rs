//! A Kubernetes API in memory: one type for the hub's store and for members.
//!
//! ```text
//! Call ──► Server::answer ──► Reply
//!              │    └────────► effects: each object before and after
//!              └─ log ───────► watches
//! ```
//!
//! Pure: it has no clock, no chance and no network of its own. The time is an argument, and
//! background work (garbage collection, namespace termination) happens in [`Server::tick`].

mod background;
mod fields;
mod kinds;
mod object;
mod reply;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

pub use self::fields::{Manager, leaves, merge};
pub use self::kinds::{Kinds, Resource};
pub use self::object::{
    Key, Stored, annotation, finalizers, is_terminating, label, owner_uids, uid, version,
};
pub use self::reply::{Body, Call, Reply};
use crate::actor::Actor;

/// Change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Created,
    /// It was changed.
    Updated,
    /// It was marked as deleted, and waits for finalizers.
    Marked,
    /// It is gone.
    Removed,
}

/// The path by which a change came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A request for this object.
    Request,
    /// The deletion of its namespace.
    Namespace,
    /// Garbage collection.
    Collection,
}

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The writer.
    pub actor: Actor,
    /// The path by which it came about.
    pub cause: Cause,
    /// What happened.
    pub change: Change,
    /// The object.
    pub key: Key,
    /// The object before.
    pub before: Option<Arc<Value>>,
    /// The object after.
    pub after: Option<Arc<Value>>,
}

/// An entry of the log that watches read.
#[derive(Clone, Debug)]
pub struct Logged {
    /// The version of the store after it.
    pub version: u64,
    /// Milliseconds since the start of the simulation.
    pub at: u64,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub event: &'static str,
    /// The object.
    pub object: Value,
    /// The object before, for selectors that it no longer matches.
    pub before: Option<Arc<Value>>,
}

/// A Kubernetes API in memory.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its name in traces.
    pub name: String,
    /// The kinds that it serves.
    pub kinds: Kinds,
    objects: BTreeMap<Key, Stored>,
    revision: u64,
    log: BTreeMap<Arc<str>, Vec<Logged>>,
    /// Watches from versions before this one have expired.
    compacted: u64,
    /// Number of uids given out; never goes back.
    uids: u64,
    /// Namespaces being deleted, and who deleted them.
    terminating: BTreeMap<String, Actor>,
    effects: Vec<Effect>,
    /// Something was added or removed since garbage was last collected.
    littered: bool,
    /// The current time: in milliseconds since the start, and as text.
    now: (u64, String),
}

/// Objects in one page of a list, for clients that ask for pages.
const PAGE: usize = 25;

impl Server {
    /// An API with the namespaces that every cluster has.
    pub fn new(name: &str, kinds: Kinds) -> Self {
        let mut server = Self {
            name: name.to_owned(),
            kinds,
            objects: BTreeMap::new(),
            revision: 1,
            log: BTreeMap::new(),
            compacted: 0,
            uids: 0,
            terminating: BTreeMap::new(),
            effects: Vec::new(),
            littered: true,
            now: (0, "2026-01-01T00:00:00Z".to_owned()),
        };
        for namespace in ["default", "kube-system", "limen-system"] {
            let object = json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": namespace}});
            server.put(&Actor::Cluster, &Key::namespace(namespace), object);
        }
        server.effects.clear();
        server
    }

    /// Sets the time for what follows.
    pub fn set_time(&mut self, millis: u64, text: String) {
        self.now = (millis, text);
    }

    /// The uid of the namespace kube-system, the identity of a cluster.
    pub fn identity(&self) -> String {
        self.get(&Key::namespace("kube-system"))
            .map(|found| uid(found).to_owned())
            .unwrap_or_default()
    }

    /// An object.
    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.objects.get(key).map(|stored| &*stored.object)
    }

    /// An object with the owners of its fields.
    pub fn stored(&self, key: &Key) -> Option<&Stored> {
        self.objects.get(key)
    }

    /// Every object, in order.
    pub fn all(&self) -> impl Iterator<Item = (&Key, &Value)> {
        self.objects.iter().map(|(key, stored)| (key, &*stored.object))
    }

    /// Every object of a kind, in order.
    pub fn of(&self, resource: &str) -> impl Iterator<Item = (&Key, &Value)> {
        let first = Key::new(resource, "", "");
        let resource: Arc<str> = resource.into();
        self.objects
            .range(first..)
            .take_while(move |(key, _)| key.resource == resource)
            .map(|(key, stored)| (key, &*stored.object))
    }

    /// The current version of the store.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The changes since the last call.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Forgets the log: watches must list again.
    pub fn compact(&mut self) {
        self.log.clear();
        self.compacted = self.revision;
    }

    /// Becomes an earlier state of itself, as from a backup. Uids stay unique.
    pub fn restore(&mut self, backup: &Self) {
        let (uids, now) = (self.uids.max(backup.uids), self.now.clone());
        *self = Self { uids, now, ..backup.clone() };
        self.effects.clear();
        self.littered = true;
        self.compact();
    }

    /// The first entry of the log after a version that is about a kind.
    ///
    /// # Errors
    ///
    /// If the log no longer reaches back to that version.
    pub fn logged_after(&self, version: u64, resource: &str) -> Result<Option<&Logged>, Expired> {
        if version < self.compacted || version > self.revision {
            return Err(Expired);
        }
        let Some(log) = self.log.get(resource) else { return Ok(None) };
        Ok(log.get(log.partition_point(|entry| entry.version <= version)))
    }

    /// Answers a request that is no watch.
    pub fn answer(&mut self, actor: &Actor, call: &Call) -> Reply {
        let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
        let (group, version, rest) = match path.as_slice() {
            ["readyz" | "livez" | "healthz"] => return Reply::text("ok"),
            ["version"] => return Reply::text(&json!({"gitVersion": "v1.36.0"}).to_string()),
            ["api"] => return Reply::ok(json!({"kind": "APIVersions", "versions": ["v1"]})),
            ["apis"] => return Reply::ok(self.kinds.groups()),
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Reply::no_such_path(),
        };
        let (namespace, plural, name, part) = match rest {
            [] => {
                let known = self.kinds.resources(group, version);
                return known.map_or_else(Reply::no_such_path, Reply::ok);
            }
            ["namespaces", namespace, plural, rest @ ..]
                if !["status", "finalize"].contains(plural) =>
            {
                (*namespace, *plural, rest.first().copied(), rest.get(1).copied())
            }
            [plural, rest @ ..] => ("", *plural, rest.first().copied(), rest.get(1).copied()),
        };
        let Some(resource) = self.kinds.find(group, version, plural).cloned() else {
            return Reply::no_such_path();
        };
        let Some(name) = name else {
            return match call.method.as_str() {
                "GET" => self.list(&resource, namespace, call),
                "POST" => {
                    let name = call.body["metadata"]["name"].as_str().unwrap_or_default();
                    self.create(actor, &resource, &Key::new(&resource.id(), namespace, name), call)
                }
                _ => Reply::fault(405),
            };
        };
        let key = Key::new(&resource.id(), namespace, name);
        match call.method.as_str() {
            "GET" => match self.objects.get(&key) {
                Some(stored) => Reply::ok(stored.shown()),
                None => absent(&key),
            },
            "PATCH" => self.patch(actor, &resource, &key, part, call),
            "PUT" => self.replace(actor, &key, call),
            "DELETE" => self.delete(actor, &key, &call.body),
            _ => Reply::fault(405),
        }
    }

    fn list(&self, resource: &Resource, namespace: &str, call: &Call) -> Reply {
        let limit = call.parameter("limit").parse().ok().filter(|&limit| limit > 0);
        let limit = limit.map_or(usize::MAX, |limit: usize| limit.min(PAGE));
        let token = call.parameter("continue");
        let (version, start) = token.split_once(':').unwrap_or(("", token));
        let version = version.parse().unwrap_or(self.revision);
        // Pages show one state: once the kind has changed, the list begins anew.
        if !matches!(self.logged_after(version, &resource.id()), Ok(None)) {
            let message = "the provided continue parameter is too old";
            return Reply::failure(410, "Expired", message);
        }
        let place = |key: &Key| format!("{}/{}", key.namespace, key.name);
        let id = resource.id();
        let mut found = self
            .of(&id)
            .filter(|(key, _)| namespace.is_empty() || key.namespace == namespace)
            .filter(|(key, _)| start.is_empty() || place(key).as_str() > start)
            .filter(|(_, object)| object::matches(object, call.parameter("labelSelector")));
        let (mut items, mut last) = (Vec::new(), String::new());
        for (key, _) in found.by_ref().take(limit) {
            items.extend(self.objects.get(key).map(Stored::shown));
            last = place(key);
        }
        let more = match found.next() {
            Some(_) => format!("{version}:{last}"),
            None => String::new(),
        };
        Reply::ok(json!({"kind": format!("{}List", resource.kind),
            "apiVersion": resource.api_version(),
            "metadata": {"resourceVersion": version.to_string(), "continue": more},
            "items": items}))
    }
}

/// The log no longer reaches back to a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired;

/// The event that a watch with a selector sees, if any.
pub fn selected_event(entry: &Logged, selector: &str) -> Option<&'static str> {
    let now = object::matches(&entry.object, selector);
    let before = entry.before.as_ref().is_some_and(|before| object::matches(before, selector));
    match (entry.event, before, now) {
        ("DELETED", _, true) | (_, true, false) => Some("DELETED"),
        ("DELETED", ..) | (_, false, false) => None,
        (_, false, true) => Some("ADDED"),
        (_, true, true) => Some("MODIFIED"),
    }
}

fn absent(key: &Key) -> Reply {
    Reply::failure(404, "NotFound", &format!("{key} not found"))
}
