//! The Secrets that gateways need, copied to a namespace of their own.
//!
//! ```text
//! GlobalIngress: which Secrets ─┐
//! Secret: its version ──────────┼─► is the copy what it should be? ─► copy it, or drop the copy
//! copy: of which version ───────┘
//! ```
//!
//! A gateway may read that namespace and no other, so whoever takes a gateway over has the
//! certificates that are served anyway, and not the credentials of members. Nothing of what is in
//! a Secret is kept here: it is read when it is copied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limen_api::{COPY_OF, COPY_VERSION, GATEWAYS};
use limen_core::compile::Key;
use limen_core::federated::ObjectId;
use limen_sync::ObjectApi;
use serde_json::{Value, json};

use super::Traffic;
use crate::outbox::Record;

/// What gateways use of a Secret.
const PARTS: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];

/// What is known of Secrets that gateways need.
#[derive(Default)]
pub(super) struct Certificates {
    /// By GlobalIngress: the Secrets that it names.
    named: BTreeMap<Key, BTreeSet<Key>>,
    /// By Secret: how many GlobalIngresses name it.
    users: BTreeMap<Key, usize>,
    /// By Secret: the version that it has.
    versions: BTreeMap<Key, String>,
    /// By Secret: the version that there is a copy of, and the copy's name and uid.
    copies: BTreeMap<Key, Copied>,
}

/// A copy, as it is on the hub.
struct Copied {
    version: String,
    name: String,
    uid: String,
}

impl Certificates {
    /// The version that should be copied: nothing if nobody names it, or if it is not there.
    fn wanted(&self, secret: &Key) -> Option<&String> {
        self.users.get(secret).and_then(|_| self.versions.get(secret))
    }

    /// What remains to be done about a Secret.
    pub(super) fn task(&self, secret: &Key) -> Option<Task> {
        let copy = self.copies.get(secret);
        match self.wanted(secret) {
            Some(version) if copy.is_some_and(|copy| copy.version == *version) => None,
            Some(_) => Some(Task::Copy(secret.clone())),
            None => copy.map(|copy| Task::Drop(copy_id(&copy.name), copy.uid.clone())),
        }
    }

    /// Whether a Secret exists.
    pub(super) fn exists(&self, secret: &Key) -> bool {
        self.versions.contains_key(secret)
    }

    /// The GlobalIngresses that name a Secret.
    fn users_of(&self, secret: &Key) -> Vec<Key> {
        if !self.users.contains_key(secret) {
            return Vec::new();
        }
        let named = self.named.iter().filter(|(_, secrets)| secrets.contains(secret));
        named.map(|(global, _)| global.clone()).collect()
    }

    /// A GlobalIngress names these Secrets. Those that this may concern.
    fn name(&mut self, global: &Key, secrets: BTreeSet<Key>) -> BTreeSet<Key> {
        let before = self.named.remove(global).unwrap_or_default();
        for secret in secrets.difference(&before) {
            *self.users.entry(secret.clone()).or_default() += 1;
        }
        for secret in before.difference(&secrets) {
            let users = self.users.get_mut(secret);
            if users.is_some_and(|users| {
                *users -= 1;
                *users == 0
            }) {
                self.users.remove(secret);
            }
        }
        let concerned = before.symmetric_difference(&secrets).cloned().collect();
        if !secrets.is_empty() {
            self.named.insert(global.clone(), secrets);
        }
        concerned
    }
}

/// What remains to be done about a Secret.
pub(super) enum Task {
    /// Copy it.
    Copy(Key),
    /// Drop the copy.
    Drop(ObjectId, String),
}

impl Traffic {
    /// A GlobalIngress, of whomever, names these Secrets of its namespace.
    pub(super) fn secrets_named(&mut self, global: &Key, names: impl Iterator<Item = String>) {
        let secrets = names.map(|name| (global.0.clone(), name)).collect();
        for secret in self.certificates.name(global, secrets) {
            self.look_at_copy(secret);
        }
    }

    /// A Secret that no member's credential is in has changed.
    pub(crate) fn secret_changed(&mut self, key: Key, object: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        if key.0 != GATEWAYS {
            let version = text(&metadata["resourceVersion"]);
            if self.certificates.versions.insert(key.clone(), version).is_none() {
                self.users_dirty(&key);
            }
            return self.look_at_copy(key);
        }
        let annotations = &metadata["annotations"];
        let Some(source) = annotations[COPY_OF].as_str().and_then(|of| of.split_once('/')) else {
            return;
        };
        let source = (source.0.to_owned(), source.1.to_owned());
        let version = text(&annotations[COPY_VERSION]);
        let copy = Copied { version, name: key.1, uid: text(&metadata["uid"]) };
        self.certificates.copies.insert(source.clone(), copy);
        self.look_at_copy(source);
    }

    /// Such a Secret is gone.
    pub(crate) fn secret_gone(&mut self, key: &Key) {
        if key.0 != GATEWAYS {
            self.certificates.versions.remove(key);
            self.users_dirty(key);
            return self.look_at_copy(key.clone());
        }
        let copies = &mut self.certificates.copies;
        let source = copies.iter().find(|(_, copy)| copy.name == key.1).map(|(of, _)| of.clone());
        if let Some(source) = source {
            copies.remove(&source);
            self.look_at_copy(source);
        }
    }

    /// Whether clients can use the roots that name a Secret may have changed.
    fn users_dirty(&mut self, secret: &Key) {
        if !self.complete {
            return;
        }
        for global in self.certificates.users_of(secret) {
            self.dirty.extend(super::roots_of(&global).map(Arc::new));
        }
    }

    /// Every Secret that is remembered.
    pub(super) fn known_secrets(&self) -> impl Iterator<Item = Key> {
        let copies = self.certificates.copies.values();
        let copies = copies.map(|copy| (GATEWAYS.to_owned(), copy.name.clone()));
        self.certificates.versions.keys().cloned().chain(copies)
    }

    /// Everything has been read once: what is missing is copied, and what nobody needs dropped.
    pub(super) fn look_at_copies(&mut self) {
        let known = &self.certificates;
        let all: BTreeSet<Key> = known.users.keys().chain(known.copies.keys()).cloned().collect();
        for secret in all {
            self.look_at_copy(secret);
        }
    }

    fn look_at_copy(&mut self, secret: Key) {
        if self.complete && self.certificates.task(&secret).is_some() {
            self.records.push(Record::Certificate(secret));
        }
    }
}

impl Task {
    pub(super) async fn send(self, api: &ObjectApi) -> kube::Result<Option<Value>> {
        let secret = match self {
            Self::Drop(id, uid) => return api.delete(&id, &uid).await.map(|()| None),
            Self::Copy(secret) => secret,
        };
        let Some(object) = api.get(&secret_id(&secret)).await? else { return Ok(None) };
        let name = copy_name(&secret);
        let parts = PARTS.iter().filter(|part| object["data"][**part].is_string());
        let parts = parts.map(|part| ((*part).to_owned(), object["data"][*part].clone()));
        let copy = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "name": name, "namespace": GATEWAYS,
                "annotations": {
                    COPY_OF: format!("{}/{}", secret.0, secret.1),
                    COPY_VERSION: object["metadata"]["resourceVersion"]}},
            "data": parts.collect::<serde_json::Map<_, _>>()});
        api.apply(&copy_id(&name), &copy).await.map(Some)
    }
}

/// No namespace has a dot in it, so no two Secrets have the same. Names that would be too long are
/// told apart by a number.
fn copy_name((namespace, name): &Key) -> String {
    let whole = format!("{namespace}.{name}");
    match whole.len() {
        ..=253 => whole,
        _ => format!("{namespace}.{:016x}", limen_core::decide::hash(whole.as_bytes())),
    }
}

fn copy_id(name: &str) -> ObjectId {
    secret_id(&(GATEWAYS.to_owned(), name.to_owned()))
}

fn secret_id((namespace, name): &Key) -> ObjectId {
    let kind = limen_api::kind(("v1", "Secret", "secrets", true));
    ObjectId { kind, namespace: Some(namespace.clone()), name: name.clone() }
}
