//! Requests that change objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::fields::{Ownership, merge};
use super::object::{is_terminating, set_defaults, uid, version};
use super::{
    Cause, Change, Effect, Key, Logged, Reply, Resource, Server, Stored, absent, finalizers,
};
use crate::actor::Actor;
use crate::api::Call;

impl Server {
    pub(super) fn create(
        &mut self,
        actor: &Actor,
        resource: &Resource,
        key: &Key,
        call: &Call,
    ) -> Reply {
        if let Some(refused) = self.refusal_to_create(resource, key) {
            return refused;
        }
        if self.objects.contains_key(key) {
            return Reply::failure(409, "AlreadyExists", &format!("{key} already exists"));
        }
        let mut object = call.body.clone();
        object["apiVersion"] = json!(resource.api_version());
        object["kind"] = json!(resource.kind);
        let mut owners = Ownership::default();
        owners.update(&json!({}), &object, manager(call));
        if !key.namespace.is_empty() {
            object["metadata"]["namespace"] = json!(key.namespace);
        }
        if key.name.is_empty() {
            return Reply::failure(422, "Invalid", "metadata.name is required");
        }
        self.insert(actor, key, object, owners);
        self.shown(key).map_or_else(|| absent(key), Reply::created)
    }

    /// Why an object cannot be created: its namespace is absent or on its way out.
    fn refusal_to_create(&self, resource: &Resource, key: &Key) -> Option<Reply> {
        if !resource.namespaced {
            return None;
        }
        let namespace = Key::namespace(&key.namespace);
        match self.get(&namespace) {
            None => Some(absent(&namespace)),
            Some(object) if is_terminating(object) => {
                let message = format!(
                    "{key} is forbidden: unable to create new content in namespace {} because it is being terminated",
                    key.namespace
                );
                Some(Reply::failure(403, "Forbidden", &message))
            }
            Some(_) => None,
        }
    }

    pub(super) fn patch(
        &mut self,
        actor: &Actor,
        resource: &Resource,
        key: &Key,
        part: Option<&str>,
        call: &Call,
    ) -> Reply {
        let applies = call.content_type.starts_with("application/apply-patch");
        let Some(stored) = self.objects.get(key).cloned() else {
            return match applies && part.is_none() {
                false => absent(key),
                true => self.apply_new(actor, resource, key, call),
            };
        };
        let metadata = &call.body["metadata"];
        if let Some(conflict) = precondition(&stored.object, metadata, key) {
            return conflict;
        }
        let mut owners = stored.owners.clone();
        let (mut object, live) = ((*stored.object).clone(), &*stored.object);
        let mut body = call.body.clone();
        if let Some(metadata) = body["metadata"].as_object_mut() {
            for field in ["uid", "resourceVersion", "managedFields", "creationTimestamp"] {
                metadata.remove(field);
            }
        }
        if applies {
            match owners.apply(live, &body, manager(call), call.parameter("force") == "true") {
                Ok(applied) => object = applied,
                Err(rivals) => {
                    let message = format!("Apply failed: conflicts with {rivals:?}");
                    return Reply::failure(409, "Conflict", &message);
                }
            }
        } else {
            merge(&mut object, &body);
        }
        match part {
            Some("status") => {
                let status = object["status"].take();
                object = live.clone();
                object["status"] = status;
            }
            _ => restore_status(&mut object, live),
        }
        if !applies {
            owners.update(live, &object, manager(call));
        }
        if call.parameter("dryRun") == "All" {
            return Reply::ok(object);
        }
        self.put_stored(actor, key, object, owners, Cause::Request);
        self.shown(key).map_or_else(|| Reply::ok(json!({})), Reply::ok)
    }

    fn apply_new(&mut self, actor: &Actor, resource: &Resource, key: &Key, call: &Call) -> Reply {
        if let Some(refused) = self.refusal_to_create(resource, key) {
            return refused;
        }
        if call.body["metadata"]["uid"].is_string() {
            let message = format!("{key} is gone, and with it the uid of the precondition");
            return Reply::failure(409, "Conflict", &message);
        }
        if call.parameter("dryRun") == "All" {
            return Reply::created(call.body.clone());
        }
        let mut body = call.body.clone();
        if let Some(metadata) = body["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        let mut owners = Ownership::default();
        let applied = owners.apply(&json!({}), &body, manager(call), true);
        let mut object = applied.unwrap_or_default();
        object["apiVersion"] = json!(resource.api_version());
        object["kind"] = json!(resource.kind);
        object["metadata"]["name"] = json!(key.name);
        if !key.namespace.is_empty() {
            object["metadata"]["namespace"] = json!(key.namespace);
        }
        self.insert(actor, key, object, owners);
        self.shown(key).map_or_else(|| absent(key), Reply::created)
    }

    pub(super) fn replace(&mut self, actor: &Actor, key: &Key, call: &Call) -> Reply {
        let Some(stored) = self.objects.get(key).cloned() else { return absent(key) };
        if let Some(conflict) = precondition(&stored.object, &call.body["metadata"], key) {
            return conflict;
        }
        let mut object = call.body.clone();
        for field in ["uid", "creationTimestamp", "deletionTimestamp", "generation"] {
            let kept = stored.object["metadata"][field].clone();
            match kept.is_null() {
                true => drop(object["metadata"].as_object_mut().map(|map| map.remove(field))),
                false => object["metadata"][field] = kept,
            }
        }
        restore_status(&mut object, &stored.object);
        let mut owners = stored.owners.clone();
        owners.update(&stored.object, &object, manager(call));
        self.put_stored(actor, key, object, owners, Cause::Request);
        self.shown(key).map_or_else(|| absent(key), Reply::ok)
    }

    pub(super) fn delete(&mut self, actor: &Actor, key: &Key, options: &Value) -> Reply {
        let Some(stored) = self.objects.get(key) else { return absent(key) };
        if let Some(conflict) = precondition(&stored.object, &options["preconditions"], key) {
            return conflict;
        }
        let orphan = options["propagationPolicy"] == "Orphan";
        let object = stored.shown();
        self.remove(actor, key, orphan, Cause::Request);
        Reply::ok(object)
    }

    /// Deletes an object, or marks it where finalizers are left.
    pub fn remove(&mut self, actor: &Actor, key: &Key, orphan: bool, cause: Cause) {
        let Some(stored) = self.objects.get(key) else { return };
        if is_terminating(&stored.object) {
            return;
        }
        let mut object = (*stored.object).clone();
        if orphan {
            let mut all: Vec<_> = finalizers(&object).map(str::to_owned).collect();
            all.push("orphan".to_owned());
            object["metadata"]["finalizers"] = json!(all);
        }
        let is_namespace = &*key.resource == "namespaces";
        if finalizers(&object).next().is_none() && !is_namespace {
            return self.erase(actor, key, cause);
        }
        object["metadata"]["deletionTimestamp"] = json!(self.now.1);
        if is_namespace {
            object["status"]["phase"] = json!("Terminating");
            self.terminating.insert(key.name.clone(), actor.clone());
        }
        let owners = stored.owners.clone();
        self.put_stored(actor, key, object, owners, cause);
    }

    /// Writes an object as a controller or a person would, past all checks.
    pub fn put(&mut self, actor: &Actor, key: &Key, object: Value) {
        self.put_as(actor, key, object, "kubectl");
    }

    /// As [`Server::put`], with the manager that shall own what changes.
    pub fn put_as(&mut self, actor: &Actor, key: &Key, object: Value, manager: &str) {
        match self.objects.get(key).cloned() {
            None => {
                let mut owners = Ownership::default();
                owners.update(&json!({}), &object, manager);
                self.insert(actor, key, object, owners);
            }
            Some(stored) => {
                let mut owners = stored.owners;
                owners.update(&stored.object, &object, manager);
                self.put_stored(actor, key, object, owners, Cause::Request);
            }
        }
    }

    fn insert(&mut self, actor: &Actor, key: &Key, mut object: Value, owners: Ownership) {
        self.uids += 1;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in ["managedFields", "deletionTimestamp"] {
                metadata.remove(field);
            }
        }
        if let Some(object) = object.as_object_mut() {
            object.remove("status");
        }
        object["metadata"]["uid"] = json!(format!("{}-{}", self.name, self.uids));
        object["metadata"]["creationTimestamp"] = json!(self.now.1);
        object["metadata"]["generation"] = json!(1);
        set_defaults(&mut object);
        self.store(key, object, owners, "ADDED", actor, Cause::Request, Change::Created);
    }

    pub(super) fn put_stored(
        &mut self,
        actor: &Actor,
        key: &Key,
        mut object: Value,
        owners: Ownership,
        cause: Cause,
    ) {
        let Some(stored) = self.objects.get_mut(key) else { return };
        set_defaults(&mut object);
        let (before, now_gone) = (stored.object.clone(), is_terminating(&object));
        if now_gone && finalizers(&object).next().is_none() && &*key.resource != "namespaces" {
            return self.erase(actor, key, cause);
        }
        if object == *before {
            // Who owns what may have changed all the same.
            stored.owners = owners;
            return;
        }
        let content = |object: &Value| {
            let mut object = object.clone();
            for field in ["metadata", "status"] {
                object[field].take();
            }
            object
        };
        if content(&object) != content(&before) {
            let generation = before["metadata"]["generation"].as_i64().unwrap_or_default();
            object["metadata"]["generation"] = json!(generation + 1);
        }
        let change = match now_gone && !is_terminating(&before) {
            true => Change::Marked,
            false => Change::Updated,
        };
        self.store(key, object, owners, "MODIFIED", actor, cause, change);
    }

    #[expect(clippy::too_many_arguments, reason = "the one place where everything meets")]
    fn store(
        &mut self,
        key: &Key,
        mut object: Value,
        owners: Ownership,
        event: &'static str,
        actor: &Actor,
        cause: Cause,
        change: Change,
    ) {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let before = self.objects.get(key).map(|stored| stored.object.clone());
        let stored = Stored { object: Arc::new(object), owners };
        let after = stored.object.clone();
        let shown = stored.shown();
        self.objects.insert(key.clone(), stored);
        self.note(actor, cause, change, key, before, Some(after), event, shown);
    }

    /// Takes an object away at once.
    pub(super) fn erase(&mut self, actor: &Actor, key: &Key, cause: Cause) {
        let Some(stored) = self.objects.remove(key) else { return };
        self.revision += 1;
        let mut last = stored.shown();
        last["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let before = Some(stored.object);
        self.note(actor, cause, Change::Removed, key, before, None, "DELETED", last);
    }

    #[expect(clippy::too_many_arguments, reason = "the one place where everything meets")]
    fn note(
        &mut self,
        actor: &Actor,
        cause: Cause,
        change: Change,
        key: &Key,
        before: Option<Arc<Value>>,
        after: Option<Arc<Value>>,
        event: &'static str,
        object: Value,
    ) {
        self.log.entry(key.resource.clone()).or_default().push(Logged {
            version: self.revision,
            at: self.now.0,
            event,
            object,
            before: before.clone(),
        });
        self.littered |= change != Change::Updated;
        let (actor, key) = (actor.clone(), key.clone());
        self.effects.push(Effect { actor, cause, change, key, before, after });
    }

    fn shown(&self, key: &Key) -> Option<Value> {
        self.objects.get(key).map(Stored::shown)
    }
}

/// Status has its own path: writes elsewhere leave it alone.
fn restore_status(object: &mut Value, live: &Value) {
    match live["status"].is_null() {
        true => drop(object.as_object_mut().map(|fields| fields.remove("status"))),
        false => object["status"] = live["status"].clone(),
    }
}

/// Why a precondition does not hold.
fn precondition(live: &Value, wanted: &Value, key: &Key) -> Option<Reply> {
    let fails = |field: &str, is: &str| {
        wanted[field].as_str().filter(|wanted| !wanted.is_empty() && *wanted != is).map(|wanted| {
            let message = format!("{key}: {field} is {is}, not {wanted}");
            Reply::failure(409, "Conflict", &message)
        })
    };
    fails("uid", uid(live)).or_else(|| fails("resourceVersion", version(live)))
}

fn manager(call: &Call) -> &str {
    match call.parameter("fieldManager") {
        "" => "unknown",
        manager => manager,
    }
}
