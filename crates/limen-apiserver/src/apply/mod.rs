//! Server-side apply: who owns which field, and what becomes of an object when somebody applies a
//! part of it.
//!
//! ```text
//!                applied configuration
//!                        │
//!  live object ──────> merge ──> prune ──> compare ──> conflicts, or
//!  + managedFields    by schema   what     with live   the new object + managedFields
//!                               the applier
//!                              gave up
//! ```
//!
//! Every other write is followed too ([`managed_update`]): whoever changes a field owns it from
//! then on, and whoever applies something else there gets a conflict.
//!
//! Everything is pure; the time is an argument. Nothing here validates or defaults objects: what
//! [`managed_apply`] returns goes through that like any other object.

mod blank;
mod compare;
mod conflict;
mod field_set;
mod fields_v1;
mod last_applied;
pub(crate) mod manager_name;
mod merge;
mod owned;
mod ownership;
mod path;
mod reconcile;
mod remove;
mod tracking;
mod types;
mod validate;

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) use field_set::FieldSet;
use last_applied::KUBECTL;
use ownership::{Operation, Owned, Owner, Ownership, is_reset};
use path::PathElement;
use tracking::ApplyError;
use types::Type;

use crate::error::{ApiError, ApiResult};
use crate::schema::Node;

/// How many owners by update an object may have; the oldest beyond that become one.
const MAX_UPDATERS: usize = 10;

/// The manager that owns what was there before anybody was followed.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The subresource that counts replicas.
const SCALE: &str = "scale";

/// Metadata that nobody owns.
const NEVER_OWNED: &[&[&str]] = &[
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// What a write is about.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    /// What objects of the kind look like in the version of the request.
    pub(crate) schema: Node<'a>,
    /// Group and version of the request, as in `apiVersion`.
    pub(crate) api_version: &'a str,
    /// The kind.
    pub(crate) kind: &'a str,
    /// The subresource that is written; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// Whether this is a custom resource: those start from nothing and may contain null.
    pub(crate) custom: bool,
    /// The fields that this way of writing leaves alone, such as `.status` for the object itself.
    pub(crate) ignored: &'a FieldSet,
    /// The schema of the kind in another version; `None` if that version is not served.
    pub(crate) schema_at: &'a dyn Fn(&str) -> Option<Node<'a>>,
    /// The time of the write.
    pub(crate) now: Timestamp,
}

impl<'a> Scope<'a> {
    fn type_at(&self, api_version: &str) -> Option<Type<'a>> {
        if api_version == self.api_version {
            return Some(Type::of(self.schema));
        }
        (self.schema_at)(api_version).map(Type::of)
    }

    /// The live object without its owners; the empty one if there is none yet.
    fn base(&self, live: Option<&Value>) -> Value {
        let mut base = match live {
            Some(live) => live.clone(),
            None if self.custom => json!({}),
            None => blank::blank(self.schema),
        };
        if let Some(fields) = base.as_object_mut() {
            fields.entry("apiVersion").or_insert_with(|| json!(self.api_version));
            fields.entry("kind").or_insert_with(|| json!(self.kind));
        }
        set_managed_fields(&mut base, None);
        base
    }
}

/// Applies a configuration to a live object, or makes the object if there is none. Returns the
/// object with its `managedFields`; if it equals the live one, nothing needs to be written.
pub(crate) fn managed_apply(
    scope: &Scope<'_>,
    live: Option<&Value>,
    applied: &Value,
    manager: &str,
    force: bool,
) -> ApiResult<Value> {
    let mut ownership = Ownership::read(managed_fields(live).unwrap_or(&Value::Null))
        .map_err(|error| unexplained(format!("failed to decode managed fields: {error}")))?;
    check_type(scope, applied)?;
    let base = scope.base(live);
    if ownership.owned.is_empty() {
        let blank = scope.base(None);
        record_update(scope, &blank, &base, &mut ownership, BEFORE_FIRST_APPLY).map_err(
            |error| unexplained(format!("failed to create manager for existing fields: {error}")),
        )?;
    }
    check_configuration(scope, applied)?;

    let owner = Owner::new(manager, Operation::Apply, scope.api_version, scope.subresource);
    let before = ownership.clone();
    let mut attempt = |force: bool| {
        ownership = before.clone();
        tracking::apply(scope, &base, applied, &mut ownership, &owner, force)
    };
    let outcome = match attempt(force) {
        Err(ApplyError::Conflicts(conflicts)) if manager == KUBECTL => {
            let schema = Type::of(scope.schema);
            match last_applied::applied_before(&base, schema, scope.api_version) {
                Some(allowed) => match conflict::besides(conflicts, &allowed) {
                    rest if rest.is_empty() => attempt(true),
                    rest => Err(ApplyError::Conflicts(rest)),
                },
                None => Err(ApplyError::Conflicts(conflicts)),
            }
        }
        outcome => outcome,
    };
    let changed = outcome.map_err(|error| match error {
        ApplyError::Conflicts(conflicts) => conflict::error(&conflicts),
        ApplyError::Unmergeable(message) => unexplained(message),
    })?;
    strip(&mut ownership, &owner);

    let mut object = match changed {
        Some(object) => {
            ownership.times.insert(owner, scope.now);
            object
        }
        None => base,
    };
    if !scope.custom {
        drop_nulls(&mut object);
    }
    if manager == KUBECTL {
        last_applied::refresh(&mut object, applied);
    }
    set_managed_fields(&mut object, ownership.write());
    if let Some(live) = live {
        keep_times_if_unchanged(&mut object, live);
    }
    Ok(object)
}

/// The new object of a create, an update or a patch with its `managedFields`: the manager owns
/// what it changed. `new` is whole and defaulted, and may carry `managedFields` of its own.
pub(crate) fn managed_update(
    scope: &Scope<'_>,
    live: Option<&Value>,
    new: &Value,
    manager: &str,
) -> Value {
    let sent = managed_fields(Some(new));
    let mut ownership = if scope.subresource.is_empty() && is_reset(sent) {
        Ownership::default()
    } else {
        // Clients that know nothing of managedFields leave them out; that removes nothing.
        let sent = sent.filter(|_| scope.subresource.is_empty());
        let sent = sent.and_then(|sent| Ownership::read(sent).ok());
        let kept = || Ownership::read(managed_fields(live)?).ok();
        sent.filter(|sent| !sent.owned.is_empty()).or_else(kept).unwrap_or_default()
    };
    let mut object = new.clone();
    set_managed_fields(&mut object, None);
    // An object that is not followed is followed from its first apply on.
    if ownership.owned.is_empty() && live.is_some_and(has_uid) {
        return object;
    }
    let base = scope.base(live);
    match record_update(scope, &base, &object, &mut ownership, manager) {
        Ok(()) => {
            ownership.cap_updaters(MAX_UPDATERS);
            set_managed_fields(&mut object, ownership.write());
        }
        // What cannot be followed is not followed; it is no reason to refuse the write.
        Err(_) => return object,
    }
    if let Some(live) = live {
        keep_times_if_unchanged(&mut object, live);
    }
    object
}

/// Whether anybody owns the field at a path of named fields.
pub(crate) fn is_owned(object: &Value, path: &[&str]) -> bool {
    let path: Vec<PathElement> = path.iter().map(|name| PathElement::field(name)).collect();
    let ownership = managed_fields(Some(object)).and_then(|entries| Ownership::read(entries).ok());
    ownership.is_some_and(|all| all.owned.values().any(|owned| owned.set.has(&path)))
}

/// Gives owners their old times back if nothing but times changed, so that the object equals the
/// old one. To be called again after admission, which may have undone a change.
pub(crate) fn keep_times_if_unchanged(new: &mut Value, old: &Value) {
    let (Some(Value::Array(new_entries)), Some(Value::Array(old_entries))) =
        (managed_fields(Some(new)), managed_fields(Some(old)))
    else {
        return;
    };
    let timeless = |entries: &[Value]| {
        let mut entries = entries.to_vec();
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            entry.remove("time");
        }
        entries
    };
    if timeless(new_entries) != timeless(old_entries) {
        return;
    }
    let mut as_before = new.clone();
    set_managed_fields(&mut as_before, Some(Value::Array(old_entries.clone())));
    if as_before == *old {
        *new = as_before;
    }
}

/// Counts what an update changed for its manager.
fn record_update(
    scope: &Scope<'_>,
    old: &Value,
    new: &Value,
    ownership: &mut Ownership,
    manager: &str,
) -> Result<(), String> {
    let changed = tracking::update(scope, old, new, ownership)?;
    let changed = changed.difference(&FieldSet::of_fields(NEVER_OWNED));
    if changed.is_empty() {
        return Ok(());
    }
    let owner = Owner::new(manager, Operation::Update, scope.api_version, scope.subresource);
    let set = match ownership.owned.get(&owner) {
        Some(previous) => changed.union(&previous.set),
        None => changed,
    };
    let api_version = scope.api_version.to_owned();
    ownership.owned.insert(owner.clone(), Owned { set, api_version });
    // Kubernetes translates between the owners of a Scale and those of its object, and loses the
    // time on the way; owners are sorted by it.
    if scope.subresource == SCALE {
        ownership.times.remove(&owner);
    } else {
        ownership.times.insert(owner, scope.now);
    }
    Ok(())
}

fn strip(ownership: &mut Ownership, owner: &Owner) {
    if let Some(owned) = ownership.owned.get_mut(owner) {
        owned.set = owned.set.difference(&FieldSet::of_fields(NEVER_OWNED));
        if owned.set.is_empty() {
            ownership.owned.remove(owner);
        }
    }
}

fn check_type(scope: &Scope<'_>, applied: &Value) -> ApiResult<()> {
    let text = |name: &str| applied.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("apiVersion") == scope.api_version && text("kind") == scope.kind {
        return Ok(());
    }
    let shown = shown_type(text("apiVersion"), text("kind"));
    Err(ApiError::bad_request(format!("invalid object type: {shown}")))
}

fn check_configuration(scope: &Scope<'_>, applied: &Value) -> ApiResult<()> {
    if managed_fields(Some(applied)).is_some_and(|fields| !fields.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let Some(problems) = validate::problems(Type::of(scope.schema), applied) else {
        return Ok(());
    };
    let text = |name: &str| {
        let value = applied.get("metadata").and_then(|metadata| metadata.get(name));
        value.and_then(Value::as_str).unwrap_or_default()
    };
    Err(unexplained(format!(
        "failed to create typed patch object ({}/{}; {}): {problems}",
        text("namespace"),
        text("name"),
        shown_type(scope.api_version, scope.kind)
    )))
}

/// A type as Go prints it: `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`.
fn shown_type(api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    format!("{group}/{version}, Kind={kind}")
}

/// An error that kube-apiserver has no code for.
fn unexplained(message: String) -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
}

fn managed_fields(object: Option<&Value>) -> Option<&Value> {
    object?.get("metadata")?.get("managedFields")
}

fn set_managed_fields(object: &mut Value, entries: Option<Value>) {
    let Some(object) = object.as_object_mut() else { return };
    match entries {
        Some(entries) => {
            let metadata = object.entry("metadata").or_insert_with(|| json!({}));
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("managedFields".to_owned(), entries);
            }
        }
        None => {
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
        }
    }
}

fn has_uid(object: &Value) -> bool {
    let uid = object.get("metadata").and_then(|metadata| metadata.get("uid"));
    uid.and_then(Value::as_str).is_some_and(|uid| !uid.is_empty())
}

/// Built-in kinds know no null: it is the same as leaving a field out.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value: &mut Value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
