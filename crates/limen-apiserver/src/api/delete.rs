//! Deleting: at once, or once the finalizers are done.

use http::{Response, StatusCode};
use limen_store::{Error as StoreError, Expect, Txn, WriteOp};
use serde_json::{Value, json};

use super::{Api, Scope};
use crate::answer::{Body, Wanted};
use crate::error::{ApiError, ApiResult, Subject};
use crate::field_error::{FieldError, FieldPath};
use crate::request::Options;
use crate::storage::{StoredObject, encode, store_error};

/// How an object is to be deleted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deletion {
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) dry_run: bool,
}

/// What happens to the objects that the deleted one owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are deleted afterwards.
    Background,
    /// They are deleted before.
    Foreground,
    /// They are left alone.
    Orphan,
}

/// What became of the object.
pub(crate) enum Deleted {
    /// It is gone; this is what it was.
    Gone(Value),
    /// It waits for its finalizers.
    Waiting(StoredObject),
}

pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

/// Namespaces that every cluster needs.
const PERMANENT: [&str; 3] = ["default", "kube-system", "kube-public"];

impl Deletion {
    /// From the query and the body, of which the body wins.
    pub(crate) fn new(options: &Options, body: &Value) -> ApiResult<Self> {
        let text =
            |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let preconditions = &body["preconditions"];
        let policy = text(&body["propagationPolicy"]).or_else(|| options.propagation.clone());
        let orphan = body["orphanDependents"].as_bool().or(options.orphan_dependents);
        let propagation = match (policy.as_deref(), orphan) {
            (Some(policy), Some(_)) => {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                let path = FieldPath::new("propagationPolicy");
                return Err(invalid(&FieldError::invalid(&path, &policy.into(), detail)));
            }
            (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
            (Some(other), _) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                let path = FieldPath::new("propagationPolicy");
                return Err(invalid(&FieldError::not_supported(&path, &other.into(), &supported)));
            }
            (None, None) => None,
        };
        let dry_run = body["dryRun"].as_array().is_some_and(|values| !values.is_empty());
        if dry_run && body["dryRun"] != json!(["All"]) {
            let path = FieldPath::new("dryRun");
            return Err(invalid(&FieldError::not_supported(&path, &body["dryRun"], &["All"])));
        }
        Ok(Self {
            uid: text(&preconditions["uid"]),
            version: text(&preconditions["resourceVersion"]),
            propagation,
            dry_run: dry_run || options.dry_run,
        })
    }

    fn check(&self, scope: &Scope, name: &str, object: &Value) -> ApiResult<()> {
        let metadata = &object["metadata"];
        let compare = |what: &str, wanted: &Option<String>, field: &str, why: &str| {
            let found = metadata[field].as_str().unwrap_or_default();
            match wanted {
                Some(wanted) if wanted != found => Err(ApiError::conflict(
                    scope.kind_subject(),
                    name,
                    &format!(
                        "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {why}"
                    ),
                )),
                _ => Ok(()),
            }
        };
        compare("UID", &self.uid, "uid", "deleted and then recreated")?;
        compare("ResourceVersion", &self.version, "resourceVersion", "modified")
    }
}

fn invalid(error: &FieldError) -> ApiError {
    let subject = Subject { group: "meta.k8s.io", resource: "DeleteOptions" };
    ApiError::invalid(subject, "", std::slice::from_ref(error))
}

fn is_namespace(scope: &Scope) -> bool {
    scope.kind.group.is_empty() && scope.kind.kind == "Namespace"
}

fn shows_deleted(scope: &Scope) -> bool {
    scope.kind.group.is_empty()
        && matches!(scope.kind.kind.as_str(), "Pod" | "Service" | "ServiceAccount")
}

impl Api {
    pub(crate) async fn delete(
        &self,
        scope: &Scope,
        name: &str,
        deletion: &Deletion,
        options: &Options,
        wanted: Wanted,
    ) -> ApiResult<Response<Body>> {
        Ok(match self.delete_object(scope, name, deletion).await? {
            Deleted::Waiting(stored) => self.show(scope, &stored, StatusCode::OK, options, wanted),
            // Some kinds show what was deleted.
            Deleted::Gone(object) if shows_deleted(scope) => {
                self.show_value(scope, &object, StatusCode::OK, options, wanted)
            }
            Deleted::Gone(object) => {
                let mut details = json!({
                    "name": name,
                    "kind": scope.kind.plural,
                    "uid": object["metadata"]["uid"],
                });
                if !scope.kind.group.is_empty() {
                    details["group"] = scope.kind.group.as_str().into();
                }
                let status = json!({
                    "kind": "Status",
                    "apiVersion": "v1",
                    "metadata": {},
                    "status": "Success",
                    "details": details,
                });
                wanted.value(StatusCode::OK, &status)
            }
        })
    }

    pub(crate) async fn delete_object(
        &self,
        scope: &Scope,
        name: &str,
        deletion: &Deletion,
    ) -> ApiResult<Deleted> {
        let key = scope.place().key(name);
        loop {
            let found = self.find(scope, name).await?;
            let stored = found.ok_or_else(|| ApiError::not_found(scope.subject(), name))?;
            let object = stored.object(&scope.api_version(), &scope.kind.kind);
            deletion.check(scope, name, &object)?;

            if is_namespace(scope) && PERMANENT.contains(&name) {
                let detail = "this namespace may not be deleted";
                return Err(ApiError::forbidden(scope.subject(), name, detail));
            }
            let marked = self.mark(scope, &object, deletion);
            let txn = match &marked {
                Some(marked) if *marked == object => return Ok(Deleted::Waiting(stored)),
                Some(marked) => Txn::update(key.clone(), encode(marked), stored.revision),
                None => {
                    let released = self.released(scope, &object, None);
                    let txn = Txn::delete(key.clone(), Expect::Modified(stored.revision));
                    released
                        .into_iter()
                        .fold(txn, |txn, key| txn.and(key, Expect::Any, WriteOp::Delete))
                }
            };
            if deletion.dry_run {
                return Ok(match marked {
                    Some(marked) => Deleted::Waiting(stored.with(encode(&marked))),
                    None => Deleted::Gone(object),
                });
            }
            match self.store.commit(txn).await {
                Ok(revision) if marked.is_none() => {
                    let mut object = object;
                    object["metadata"]["resourceVersion"] = revision.to_string().into();
                    return Ok(Deleted::Gone(object));
                }
                Ok(revision) => {
                    let value = encode(&marked.unwrap_or_default());
                    return Ok(Deleted::Waiting(stored.with(value).at_revision(revision)));
                }
                // Somebody was quicker: look again.
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(store_error(&error)),
            }
        }
    }

    /// The object as it waits for its finalizers; `None` if it can go at once.
    fn mark(&self, scope: &Scope, object: &Value, deletion: &Deletion) -> Option<Value> {
        let mut marked = object.clone();
        let finalizers = object["metadata"].get("finalizers").and_then(Value::as_array);
        let mut finalizers = finalizers.cloned().unwrap_or_default();
        let is_new = object["metadata"].get("deletionTimestamp").is_none();
        if is_new && scope.kind.kind == "CustomResourceDefinition" {
            crate::crd::terminate(&mut marked, &mut finalizers, &self.timestamp());
        }
        let metadata = marked["metadata"].as_object_mut()?;
        if let Some(propagation) = deletion.propagation {
            finalizers.retain(|name| *name != FOREGROUND && *name != ORPHAN);
            match propagation {
                Propagation::Background => {}
                Propagation::Foreground => finalizers.push(FOREGROUND.into()),
                Propagation::Orphan => finalizers.push(ORPHAN.into()),
            }
        }
        let is_namespace = is_namespace(scope);
        let holds_content = is_namespace
            && object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if finalizers.is_empty() && !holds_content {
            return None;
        }
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".to_owned(), finalizers.into());
        }
        if is_new {
            metadata.insert("deletionTimestamp".to_owned(), self.timestamp().into());
            if !is_namespace {
                metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
            }
            if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
                metadata.insert("generation".to_owned(), (generation + 1).into());
            }
        }
        if is_namespace {
            marked["status"]["phase"] = "Terminating".into();
        }
        Some(marked)
    }

    pub(crate) async fn delete_collection(
        &self,
        scope: &Scope,
        deletion: &Deletion,
        options: &Options,
        wanted: Wanted,
    ) -> ApiResult<Response<Body>> {
        let listing = self.select(scope, options).await?;
        let mut items = Vec::new();
        for stored in &listing.items {
            let object = scope.read(stored);
            let metadata = &object["metadata"];
            let name = metadata["name"].as_str().unwrap_or_default();
            match self.delete_object(scope, name, deletion).await {
                Ok(_) => items.push(object.clone()),
                // Somebody else has deleted it, which is what was wanted.
                Err(error) if error.code == StatusCode::NOT_FOUND => {}
                Err(error) => return Err(error),
            }
        }
        if !scope.kind.custom {
            for object in items.iter_mut().filter_map(Value::as_object_mut) {
                object.retain(|name, _| name != "kind" && name != "apiVersion");
            }
        }
        let list = json!({
            "kind": scope.kind.list_kind,
            "apiVersion": scope.api_version(),
            "metadata": {"resourceVersion": listing.revision.to_string()},
            "items": items,
        });
        Ok(wanted.value(StatusCode::OK, &list))
    }
}
