//! Changing a part of an object: the three patches, and server-side apply.

use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::Value;

use super::dispatch::{Answer, Asked};
use super::patched::BodyPatch;
use super::{Api, Change, Scope, Tracking};
use crate::apply::managed_apply;
use crate::apply::manager_name::validate_for_patch;
use crate::decode;
use crate::error::{ApiError, ApiResult, Subject};
use crate::field_error::{FieldError, FieldPath};
use crate::request::Verb;

const APPLY: &str = "application/apply-patch+yaml";
/// The media type of a body, without its parameters.
pub(super) fn media_type(asked: &Asked) -> &str {
    let given = asked.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    given.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

impl Asked {
    fn check_patch_options(&self, applies: bool) -> ApiResult<()> {
        let manager = self.options.field_manager.as_deref().unwrap_or_default();
        let errors = validate_for_patch(manager, self.options.force, applies);
        if errors.is_empty() {
            return Ok(());
        }
        let subject = Subject { group: "meta.k8s.io", resource: "PatchOptions" };
        Err(ApiError::invalid(subject, "", &errors))
    }
}

impl Api {
    pub(super) async fn on_patch(
        &self,
        asked: &Asked,
        scope: &Scope,
        name: &str,
    ) -> ApiResult<Answer> {
        let media = media_type(asked);
        if media == APPLY {
            return self.on_apply(asked, scope, name).await;
        }
        let kind = BodyPatch::kind(asked, scope.kind.custom)?;
        asked.check_patch_options(false)?;
        let manager = asked.manager()?;
        let (patch, validation) = (BodyPatch::read(asked, kind)?, asked.validation()?);
        let warnings = std::sync::Mutex::new(Vec::new());
        let make = |old: &Value| {
            let new = patch.apply(old, scope.kind.schema.get().root())?;
            let (new, warned) = patch.settle(&new, &scope.kind, validation)?;
            check_uid(scope, name, old, &new)?;
            self.check_grant(&asked.identity, scope, Some(old), &new)?;
            if let Ok(mut warnings) = warnings.lock() {
                *warnings = warned;
                warnings.extend(scope.warnings(&new, false));
            }
            Ok(new)
        };
        let response = self.change(asked, scope, name, &manager, &make).await?;
        Ok(Answer { outcome: Ok(response), warnings: warnings.into_inner().unwrap_or_default() })
    }

    async fn on_apply(&self, asked: &Asked, scope: &Scope, name: &str) -> ApiResult<Answer> {
        let types = self.registry.types();
        let manager = asked.options.field_manager.clone().unwrap_or_default();
        asked.check_patch_options(true)?;
        let (applied, mut warnings) = asked.applied()?;
        warnings.extend(scope.warnings(&applied, false));
        let writing = self.writing(&types, asked, &manager);
        let subresource = asked.path.subresource.as_deref();
        let apply = |live: Option<&Value>| {
            writing.with_apply_scope(scope, |apply| {
                managed_apply(apply, live, &applied, &manager, asked.options.force.unwrap_or(false))
            })
        };

        // What was merged is written as the type would be, which has fields that are never left out.
        let settle = |object: Value| {
            let normalized = decode::normalize(object, (&*scope.kind).into());
            normalized.map(|normalized| normalized.object).map_err(ApiError::internal)
        };

        if self.find(scope, name).await?.is_none() && subresource.is_none() {
            let mut object = settle(apply(None)?)?;
            // There is no version to compare it with.
            super::metadata_mut(&mut object).remove("resourceVersion");
            let given = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if given.is_empty() {
                object["metadata"]["name"] = name.into();
            } else if given != name {
                return Err(ApiError::other_name(&given, name));
            }
            self.check_grant(&asked.identity, scope, None, &object)?;
            // Who may patch may not create for that alone. They are told so once there is nothing
            // else to say against the object, as in Kubernetes.
            let mut wanted = asked.path.attributes(&asked.identity, Verb::Create);
            wanted.namespace = scope.namespace.as_deref().unwrap_or_default();
            let refusal = self.allow(&wanted).err();
            let dry_run = asked.options.dry_run || refusal.is_some();
            match self.create_object(scope, object, Tracking::Done, dry_run).await {
                // Somebody was quicker; what they made is applied to below.
                Err(error) if error.reason == "AlreadyExists" => {}
                outcome => {
                    let stored = outcome?;
                    if let Some(refusal) = refusal {
                        return Err(refusal);
                    }
                    self.written(scope).await;
                    let code = StatusCode::CREATED;
                    let response = self.show(scope, &stored, code, &asked.options, asked.wanted);
                    return Ok(Answer { outcome: Ok(response), warnings });
                }
            }
        }
        let make = |old: &Value| {
            let new = settle(apply(Some(old))?)?;
            check_uid(scope, name, old, &new)?;
            self.check_grant(&asked.identity, scope, Some(old), &new)?;
            Ok(new)
        };
        let change = Change {
            make: &make,
            subresource,
            tracking: Tracking::Done,
            honours_version: true,
            dry_run: asked.options.dry_run,
        };
        let stored = self.update_object(scope, name, &change).await?;
        self.written(scope).await;
        let response = self.show(scope, &stored, StatusCode::OK, &asked.options, asked.wanted);
        Ok(Answer { outcome: Ok(response), warnings })
    }
}

/// A patch that changes the uid makes another object of it; an update with another uid is about an
/// object that is gone, which is found out elsewhere.
fn check_uid(scope: &Scope, name: &str, old: &Value, new: &Value) -> ApiResult<()> {
    let uid = &new["metadata"]["uid"];
    if uid.as_str().is_none_or(str::is_empty) || *uid == old["metadata"]["uid"] {
        return Ok(());
    }
    let path = FieldPath::new("metadata").child("uid");
    let error = || FieldError::invalid(&path, uid, "field is immutable");
    // It is found twice: among the metadata, and as what identifies the object.
    Err(ApiError::invalid(scope.kind_subject(), name, &[error(), error()]))
}
