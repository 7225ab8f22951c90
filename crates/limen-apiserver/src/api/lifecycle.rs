//! What every object goes through on its way into the store, whatever its kind.
//!
//! ```text
//!   create   system metadata ► spec only ► defaults ► owners of fields ► what the server adds
//!            ► validation
//!   update   system metadata ► spec or status ► carried-over fields ► defaults ► generation
//!            ► owners of fields ► validation
//! ```
//!
//! Pure: the time, the uid and the name come from the caller.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::Scope;
use super::scope::api_version;
use crate::apply::{self, FieldSet, keep_times_if_unchanged, managed_update};
use crate::error::{ApiError, ApiResult};
use crate::field_error::FieldError;
use crate::kinds::metadata;
use crate::registry::Types;

/// What the server gives a new object.
pub(crate) struct Birth {
    pub(crate) uid: String,
    pub(crate) timestamp: String,
}

/// Who writes, through what and when: what `managedFields` record.
pub(crate) struct Writing<'a> {
    pub(crate) types: &'a Types,
    pub(crate) manager: &'a str,
    /// Empty for the object itself.
    pub(crate) subresource: &'a str,
    pub(crate) now: Timestamp,
}

/// Whether the owners of fields are still to be recorded.
#[derive(Clone, Copy)]
pub(crate) enum Tracking<'a> {
    /// Whatever changes belongs to this writer.
    Record(&'a Writing<'a>),
    /// Server-side apply has seen to it, or it is the server's own doing.
    Done,
}

impl Writing<'_> {
    /// Calls `work` with what server-side apply needs to know of this writing.
    pub(crate) fn with_apply_scope<T>(
        &self,
        scope: &Scope,
        work: impl FnOnce(&apply::Scope<'_>) -> T,
    ) -> T {
        let kind = &scope.kind;
        let ignored = match self.subresource {
            "status" => match StatusWrite::of(scope) {
                StatusWrite::NoMetadata => FieldSet::of_fields(&[&["spec"], &["metadata"]]),
                StatusWrite::AllBut(field) => {
                    FieldSet::of_fields(&[&["spec"], &["metadata", field]])
                }
                StatusWrite::Metadata => FieldSet::of_fields(&[&["spec"]]),
            },
            _ if kind.has_status => FieldSet::of_fields(&[&["status"]]),
            _ => FieldSet::default(),
        };
        let schema_at = |wanted: &str| {
            let (group, version) = wanted.split_once('/').unwrap_or(("", wanted));
            let found = self.types.of_kind(group, version, &kind.kind)?;
            Some(found.schema.get().root())
        };
        work(&apply::Scope {
            schema: kind.schema.get().root(),
            api_version: &api_version(&kind.group, &kind.version),
            kind: &kind.kind,
            subresource: self.subresource,
            custom: kind.custom,
            ignored: &ignored,
            schema_at: &schema_at,
            now: self.now,
        })
    }

    fn record(&self, scope: &Scope, live: Option<&Value>, object: &mut Value) {
        *object =
            self.with_apply_scope(scope, |apply| managed_update(apply, live, object, self.manager));
    }
}

/// Readies a new object to be stored.
pub(crate) fn prepare_create(
    scope: &Scope,
    object: &mut Value,
    birth: &Birth,
    tracking: Tracking<'_>,
) -> ApiResult<()> {
    let rules = &scope.kind.rules;
    let system = ["selfLink", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"];
    let metadata = metadata_mut(object);
    for field in system {
        metadata.remove(field);
    }
    metadata.insert("uid".to_owned(), birth.uid.as_str().into());
    metadata.insert("creationTimestamp".to_owned(), birth.timestamp.as_str().into());
    if has_generation(scope) {
        metadata.insert("generation".to_owned(), 1.into());
    }
    // A node says what it is when it joins.
    let is_node = scope.kind.group.is_empty() && scope.kind.kind == "Node";
    if scope.kind.has_status
        && !is_node
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
    default(scope, object);
    // Nobody owns what the server adds by itself.
    if let Tracking::Record(writing) = tracking {
        writing.record(scope, None, object);
    }
    (rules.prepare_create)(object);
    settle_families(scope, object, None)?;
    let mut errors = Vec::new();
    metadata::validate_create(&scope.kind, object, &mut errors);
    validate(scope, object, None, &mut errors);
    (rules.validate_create)(object, &mut errors);
    refuse(scope, object, &errors)
}

/// Readies a changed object to be stored in place of `old`. `subresource` is what it was changed
/// through.
pub(crate) fn prepare_update(
    scope: &Scope,
    old: &Value,
    new: &mut Value,
    subresource: Option<&str>,
    tracking: Tracking<'_>,
) -> ApiResult<()> {
    let kind = &scope.kind;
    keep_system_metadata(old, new);
    match subresource {
        Some("status") => keep_all_but_status(scope, old, new),
        Some("finalize") => keep_all_but_finalizers(old, new),
        _ => {
            if kind.has_status {
                keep_field(old, new, "status");
            }
            (kind.rules.prepare_update)(new, old);
        }
    }
    default(scope, new);
    if subresource.is_none() {
        settle_families(scope, new, Some(old))?;
    }
    if has_generation(scope) && subresource != Some("status") && spec_differs(old, new) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        new["metadata"]["generation"] = (generation + 1).into();
    }
    match tracking {
        Tracking::Record(writing) => writing.record(scope, Some(old), new),
        Tracking::Done => keep_times_if_unchanged(new, old),
    }

    let mut errors = Vec::new();
    if subresource == Some("status") {
        if kind.custom {
            errors.extend(crate::crd::validate_status(new, old, kind.schema.get().root()));
            if let Some(scale) = &kind.scale {
                errors.extend(crate::crd::validate_scale(new, scale, true));
            }
        } else {
            (kind.rules.validate_status)(new, old, &mut errors);
        }
    } else if subresource == Some("finalize") {
        crate::kinds::namespace::validate_finalize(new, &mut errors);
    } else {
        validate(scope, new, Some(old), &mut errors);
        (kind.rules.validate_update)(new, old, &mut errors);
    }
    let mut all = Vec::new();
    metadata::validate_update(kind, new, old, &mut all);
    all.extend(errors);
    refuse(scope, new, &all)
}

/// A Service's IP families are settled before anything else is looked at.
fn settle_families(scope: &Scope, object: &mut Value, old: Option<&Value>) -> ApiResult<()> {
    if !(scope.kind.group.is_empty() && scope.kind.kind == "Service") {
        return Ok(());
    }
    let settled = crate::kinds::service::allocation::init_families(object, old);
    settled.or_else(|errors| refuse(scope, object, &errors))
}

fn default(scope: &Scope, object: &mut Value) {
    let kind = &scope.kind;
    if kind.custom {
        crate::crd::default(object, kind.schema.get().root());
    } else {
        (kind.rules.default)(object);
    }
}

fn validate(scope: &Scope, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let kind = &scope.kind;
    if kind.custom {
        errors.extend(crate::crd::validate(object, old, kind.schema.get().root()));
        if let Some(scale) = &kind.scale {
            errors.extend(crate::crd::validate_scale(object, scale, false));
        }
    } else {
        (kind.rules.validate)(object, errors);
    }
}

fn refuse(scope: &Scope, object: &Value, errors: &[FieldError]) -> ApiResult<()> {
    if errors.is_empty() {
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Err(ApiError::invalid(scope.kind_subject(), name, errors))
}

/// Whether objects count their changes of intent.
fn has_generation(scope: &Scope) -> bool {
    let kind = &scope.kind;
    kind.custom
        || matches!(
            (kind.group.as_str(), kind.kind.as_str()),
            (
                "apps"
                    | "batch"
                    | "networking.k8s.io"
                    | "discovery.k8s.io"
                    | "apiextensions.k8s.io",
                _
            ) | ("policy", "PodDisruptionBudget")
                | ("", "Pod")
        )
}

/// Whether anything but metadata and status differs.
fn spec_differs(old: &Value, new: &Value) -> bool {
    let intent = |object: &Value| -> Map<String, Value> {
        let fields = object.as_object().cloned().unwrap_or_default();
        let kept = fields.into_iter().filter(|(name, _)| {
            !matches!(name.as_str(), "metadata" | "status" | "apiVersion" | "kind")
        });
        kept.collect()
    };
    intent(old) != intent(new)
}

pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = Value::Object(Map::new());
    }
    object["metadata"].as_object_mut().expect("it was made an object")
}

/// What only the server sets stays as it was.
fn keep_system_metadata(old: &Value, new: &mut Value) {
    let metadata = metadata_mut(new);
    metadata.remove("selfLink");
    for field in [
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
    ] {
        match old["metadata"].get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
}

fn keep_field(old: &Value, new: &mut Value, field: &str) {
    let Some(fields) = new.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}

/// What of the metadata a write through the status subresource changes.
enum StatusWrite {
    Metadata,
    AllBut(&'static str),
    NoMetadata,
}

impl StatusWrite {
    fn of(scope: &Scope) -> Self {
        match (scope.kind.group.as_str(), scope.kind.kind.as_str()) {
            _ if scope.kind.custom => Self::NoMetadata,
            ("apiextensions.k8s.io", _) => Self::NoMetadata,
            ("apps", "Deployment") => Self::AllBut("labels"),
            ("", "Pod") => Self::AllBut("ownerReferences"),
            _ => Self::Metadata,
        }
    }
}

/// Through the status subresource the status changes, and of the rest as much as the kind lets it.
fn keep_all_but_status(scope: &Scope, old: &Value, new: &mut Value) {
    let status = new.get("status").cloned();
    let metadata = new["metadata"].clone();
    *new = old.clone();
    match StatusWrite::of(scope) {
        StatusWrite::NoMetadata => {
            if let Some(fields) = metadata.get("managedFields") {
                new["metadata"]["managedFields"] = fields.clone();
            }
        }
        of => {
            new["metadata"] = metadata;
            keep_system_metadata(old, new);
            if let StatusWrite::AllBut(field) = of {
                keep_field(&old["metadata"], &mut new["metadata"], field);
            }
        }
    }
    let Some(fields) = new.as_object_mut() else { return };
    match status {
        Some(status) => fields.insert("status".to_owned(), status),
        None => fields.remove("status"),
    };
}

/// Through the finalize subresource of a namespace only its finalizers change.
fn keep_all_but_finalizers(old: &Value, new: &mut Value) {
    let finalizers = new["spec"]["finalizers"].clone();
    *new = old.clone();
    match finalizers.as_array().is_none_or(Vec::is_empty) {
        false => new["spec"]["finalizers"] = finalizers,
        true => {
            if let Some(spec) = new["spec"].as_object_mut() {
                spec.remove("finalizers");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::kinds::builtin_types;

    fn scope(group: &str, plural: &str) -> Scope {
        let types = builtin_types().into_iter();
        let kind = types.into_iter().find(|it| it.group == group && it.plural == plural);
        Scope::new(&Arc::new(kind.unwrap()), None)
    }

    #[test]
    fn a_status_takes_as_much_metadata_along_as_its_kind_lets_it() {
        let object = |label: &str, owner: &str, count: i64| {
            json!({
                "metadata": {"name": "a", "labels": {"l": label}, "ownerReferences": [owner]},
                "spec": {"replicas": count},
                "status": {"replicas": count},
            })
        };
        let (old, sent) = (object("old", "old", 1), object("new", "new", 2));
        let cases = [
            ("apps", "deployments", "old", "new"),
            ("", "pods", "new", "old"),
            ("apps", "statefulsets", "new", "new"),
            ("apiextensions.k8s.io", "customresourcedefinitions", "old", "old"),
        ];
        for (group, plural, label, owner) in cases {
            let mut new = sent.clone();
            keep_all_but_status(&scope(group, plural), &old, &mut new);
            let mut expected = object(label, owner, 1);
            expected["status"] = json!({"replicas": 2});
            assert_eq!(new, expected, "{plural}");
        }
    }

    #[test]
    fn a_kind_that_counts_no_generations_keeps_the_one_it_is_given() {
        let generation = |group: &str, plural: &str| {
            let mut object = json!({"metadata": {"name": "a", "generation": 5}});
            let birth = Birth { uid: "u".to_owned(), timestamp: "t".to_owned() };
            // Whatever else is wrong with it.
            let _ = prepare_create(&scope(group, plural), &mut object, &birth, Tracking::Done);
            object["metadata"]["generation"].clone()
        };
        assert_eq!(generation("", "configmaps"), 5);
        assert_eq!(generation("apps", "deployments"), 1);
    }
}
