//! Creating and changing objects.

use std::collections::HashSet;

use limen_store::{Error as StoreError, Expect, Revision, Txn, WriteOp};
use serde_json::{Value, json};

use super::allocate::Allocation;
use super::lifecycle::{Birth, Tracking, metadata_mut, prepare_create, prepare_update};
use super::{Api, Scope};
use crate::error::{ApiError, ApiResult};
use crate::storage::{StoredObject, encode, store_error};

/// How often a change that needs no particular version is tried against others' changes.
const ATTEMPTS: usize = 20;
/// After so many attempts it is looked up which node ports are in use, and not guessed.
const GUESSES: usize = 3;
/// How often a generated name is tried.
const NAME_ATTEMPTS: usize = 8;

impl Api {
    pub(crate) async fn create_object(
        &self,
        scope: &Scope,
        object: Value,
        tracking: Tracking<'_>,
        dry_run: bool,
    ) -> ApiResult<StoredObject> {
        let mut object = object;
        place(scope, &mut object)?;
        let metadata = metadata_mut(&mut object);
        let given = metadata.get("resourceVersion").and_then(Value::as_str).unwrap_or_default();
        if given.parse::<u64>().is_ok_and(|version| version > 0) {
            return Err(ApiError::unexplained(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let text = |field: &str| {
            metadata.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (name, prefix) = (text("name"), text("generateName"));
        if !name.is_empty() || prefix.is_empty() {
            return self.create_named(scope, object, tracking, dry_run).await;
        }
        let mut attempt = 1;
        loop {
            let mut named = object.clone();
            metadata_mut(&mut named).insert("name".to_owned(), generate_name(&prefix).into());
            match self.create_named(scope, named, tracking, dry_run).await {
                Err(error) if error.reason == "AlreadyExists" && attempt < NAME_ATTEMPTS => {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn create_named(
        &self,
        scope: &Scope,
        object: Value,
        tracking: Tracking<'_>,
        dry_run: bool,
    ) -> ApiResult<StoredObject> {
        let mut object = object;
        let birth = Birth { uid: new_uid(), timestamp: self.timestamp() };
        let guard = self.namespace_guard(scope, &object).await?;
        prepare_create(scope, &mut object, &birth, tracking)?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let key = scope.place().key(&name);
        let mut used = HashSet::new();
        for attempt in 0..ATTEMPTS {
            if attempt >= GUESSES {
                used = self.used_node_ports(scope).await?;
            }
            let mut allocated = object.clone();
            let allocation = self.allocate(scope, &mut allocated, None, &used)?;
            let value = encode(&scope.to_stored(allocated));
            if dry_run {
                if self.find(scope, &name).await?.is_some() {
                    return Err(ApiError::already_exists(scope.subject(), &name));
                }
                return Ok(StoredObject::unsaved(value));
            }
            let ttl = self.time_to_live(scope);
            let put = WriteOp::Put { value: value.clone(), ttl };
            let mut txn = Txn::one(key.clone(), Expect::Absent, put);
            if let Some((namespace, revision)) = &guard {
                txn = txn.and(namespace.clone(), Expect::Modified(*revision), WriteOp::Check);
            }
            for taken in &allocation.taken {
                let held = WriteOp::Put { value: key.clone(), ttl: None };
                txn = txn.and(taken.clone(), Expect::Absent, held);
            }
            match self.store.commit(txn).await {
                Ok(revision) => return Ok(StoredObject::unsaved(value).at_revision(revision)),
                Err(StoreError::Conflict { key: at, .. }) if at == key => {
                    return Err(ApiError::already_exists(scope.subject(), &name));
                }
                // The namespace changed, in which case it is looked at again, or an address was
                // taken by somebody else, in which case another one is tried.
                Err(StoreError::Conflict { key: at, .. }) => {
                    if guard.as_ref().is_some_and(|(namespace, _)| *namespace == at) {
                        return Box::pin(self.create_named(scope, object, tracking, dry_run)).await;
                    }
                    if let Some(refusal) = allocation.refusal(&at) {
                        return Err(refusal);
                    }
                }
                Err(error) => return Err(store_error(&error)),
            }
        }
        Err(ApiError::unavailable("the object could not be created because of too many conflicts"))
    }

    /// The namespace that must still be as it is when the object is written.
    async fn namespace_guard(
        &self,
        scope: &Scope,
        object: &Value,
    ) -> ApiResult<Option<(bytes::Bytes, Revision)>> {
        let Some(name) = scope.namespace.as_deref() else { return Ok(None) };
        let namespaces = self.namespaces();
        let found = self.find(&namespaces, name).await?;
        let stored = found.ok_or_else(|| ApiError::not_found(namespaces.subject(), name))?;
        let namespace = namespaces.read(&stored);
        if namespace["metadata"]["deletionTimestamp"].is_string() {
            let detail = format!(
                "unable to create new content in namespace {name} because it is being terminated"
            );
            let object_name = object["metadata"]["name"].as_str().unwrap_or_default();
            let mut error = ApiError::forbidden(scope.subject(), object_name, &detail);
            let cause = json!({
                "reason": "NamespaceTerminating",
                "message": format!("namespace {name} is being terminated"),
                "field": "metadata.namespace",
            });
            if let Some(details) = &mut error.details {
                details["causes"] = json!([cause]);
            }
            return Err(error);
        }
        Ok(Some((namespaces.place().key(name), stored.revision)))
    }

    /// Changes an object by `change`, which is given what is there and says what should be, and
    /// is asked again if somebody else was quicker.
    pub(crate) async fn update_object(
        &self,
        scope: &Scope,
        name: &str,
        change: &Change<'_>,
    ) -> ApiResult<StoredObject> {
        let key = scope.place().key(name);
        let mut used = HashSet::new();
        let mut turn = self.turns.enter(&key).await;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 && turn.is_none() {
                turn = Some(self.turns.take(&key).await);
            }
            if attempt >= GUESSES {
                used = self.used_node_ports(scope).await?;
            }
            let found = self.find(scope, name).await?;
            let stored = found.ok_or_else(|| ApiError::not_found(scope.subject(), name))?;
            let old = scope.read(&stored);
            let mut new = (change.make)(&old)?;
            place(scope, &mut new)?;
            check_identity(scope, name, &old, &new)?;
            let given = new["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
            let pinned = !given.is_empty() && change.honours_version;
            if pinned && given.parse::<u64>().is_err() {
                let message = format!("strconv.ParseUint: parsing {given:?}: invalid syntax");
                return Err(ApiError::unexplained(message));
            }
            if pinned && given != stored.revision.to_string() {
                return Err(ApiError::modified(scope.subject(), name));
            }
            prepare_update(scope, &old, &mut new, change.subresource, change.tracking)?;
            let (mut allocation, mut released) = (Allocation::default(), Vec::new());
            if change.subresource.is_none() {
                allocation = self.allocate(scope, &mut new, Some(&old), &used)?;
                released = self.released(scope, &old, Some(&new));
            }
            if new == old {
                return Ok(stored);
            }
            let done = is_finalized(&new);
            let value = encode(&scope.to_stored(new.clone()));
            if change.dry_run {
                return Ok(stored.with(value));
            }
            let mut txn = if done {
                released = self.released(scope, &old, None);
                Txn::delete(key.clone(), Expect::Modified(stored.revision))
            } else {
                let put = WriteOp::Put { value: value.clone(), ttl: self.time_to_live(scope) };
                Txn::one(key.clone(), Expect::Modified(stored.revision), put)
            };
            for taken in &allocation.taken {
                let held = WriteOp::Put { value: key.clone(), ttl: None };
                txn = txn.and(taken.clone(), Expect::Absent, held);
            }
            for free in released {
                txn = txn.and(free, Expect::Any, WriteOp::Delete);
            }
            match self.store.commit(txn).await {
                Ok(revision) => return Ok(stored.with(value).at_revision(revision)),
                // Somebody was faster. A version that the client named will not fit any more when it
                // is looked at again; one that a patch has only taken over will.
                Err(StoreError::Conflict { key: at, .. }) => {
                    if let Some(refusal) = allocation.refusal(&at) {
                        return Err(refusal);
                    }
                }
                Err(error) => return Err(store_error(&error)),
            }
        }
        Err(ApiError::modified(scope.subject(), name))
    }
}

/// From what is there to what should be.
pub(crate) type Make<'a> = dyn Fn(&Value) -> ApiResult<Value> + Send + Sync + 'a;

/// A change to one object.
pub(crate) struct Change<'a> {
    pub(crate) make: &'a Make<'a>,
    pub(crate) subresource: Option<&'a str>,
    pub(crate) tracking: Tracking<'a>,
    /// Whether a resourceVersion in the new object must be the current one.
    pub(crate) honours_version: bool,
    pub(crate) dry_run: bool,
}

/// Puts an object into the namespace of the request, which it must not contradict.
fn place(scope: &Scope, object: &mut Value) -> ApiResult<()> {
    let metadata = metadata_mut(object);
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    match &scope.namespace {
        Some(namespace) if given.is_empty() => {
            metadata.insert("namespace".to_owned(), namespace.as_str().into());
        }
        Some(namespace) if given != namespace => {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Some(_) => {}
        None if given.is_empty() => {
            metadata.remove("namespace");
        }
        None => {
            return Err(ApiError::bad_request(
                "namespace should not be set on cluster-scoped resources",
            ));
        }
    }
    Ok(())
}

fn check_identity(scope: &Scope, name: &str, old: &Value, new: &Value) -> ApiResult<()> {
    let text = |object: &Value, field: &str| -> String {
        object["metadata"][field].as_str().unwrap_or_default().to_owned()
    };
    let new_name = text(new, "name");
    if new_name.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if new_name != name {
        return Err(ApiError::other_name(&new_name, name));
    }
    let (old_uid, new_uid) = (text(old, "uid"), text(new, "uid"));
    if !new_uid.is_empty() && new_uid != old_uid {
        let detail = format!(
            "Precondition failed: UID in precondition: {new_uid}, UID in object meta: {old_uid}"
        );
        return Err(ApiError::conflict(scope.subject(), name, &detail));
    }
    Ok(())
}

/// Whether an object that is being deleted has nothing left to wait for.
fn is_finalized(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    let is_namespace = object["kind"] == "Namespace" && object["apiVersion"] == "v1";
    metadata["deletionTimestamp"].is_string()
        && empty(&metadata["finalizers"])
        && (!is_namespace || empty(&object["spec"]["finalizers"]))
}

/// A name from a prefix, as Kubernetes makes it: five characters that spell no words.
fn generate_name(prefix: &str) -> String {
    const CHARACTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    const LONGEST: usize = 63 - 5;
    let kept: String = prefix.chars().take(LONGEST).collect();
    let random = (0..5).map(|_| char::from(CHARACTERS[rand::random_range(0..CHARACTERS.len())]));
    kept.chars().chain(random).collect()
}

pub(super) fn new_uid() -> String {
    let mut bytes: [u8; 16] = rand::random();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut uid = String::with_capacity(36);
    for (n, byte) in bytes.into_iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            uid.push('-');
        }
        for digit in [byte >> 4, byte & 0xf] {
            uid.push(char::from_digit(digit.into(), 16).unwrap_or_default());
        }
    }
    uid
}
