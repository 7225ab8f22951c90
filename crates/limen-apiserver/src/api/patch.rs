//! Changing a part of an object: the three patches, and server-side apply.

use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::Value;

use super::dispatch::{Answer, Asked};
use super::{Api, Change, Scope, Tracking};
use crate::apply::managed_apply;
use crate::apply::manager_name::validate_for_patch;
use crate::decode::{PatchMedia, parse_patch};
use crate::error::{ApiError, ApiResult, Subject};
use crate::patch::{PatchKind, apply_patch, unknown_operation_fields};
use crate::schema::Node;

const APPLY: &str = "application/apply-patch+yaml";
const ACCEPTED: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    APPLY,
];

/// The media type of a body, without its parameters.
fn media_type(asked: &Asked) -> &str {
    let given = asked.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    given.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

/// What the patch in the body makes of an object.
pub(super) fn patched(asked: &Asked, current: &Value, schema: Node<'_>) -> ApiResult<Value> {
    let media = media_type(asked);
    let kind = PatchKind::of_media_type(media)
        .ok_or_else(|| ApiError::unsupported_media_type(media, &ACCEPTED))?;
    let media = match kind {
        PatchKind::Json => PatchMedia::Json,
        PatchKind::Merge => PatchMedia::Merge,
        PatchKind::Strategic => PatchMedia::Strategic,
    };
    apply_patch(kind, current, &parse_patch(&asked.body, media)?.value, schema)
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

    /// What is wrong with the patch itself, as far as that is no reason to refuse it.
    fn patch_problems(&self) -> ApiResult<Vec<String>> {
        let media = match PatchKind::of_media_type(media_type(self)) {
            Some(PatchKind::Json) => PatchMedia::Json,
            Some(PatchKind::Merge) => PatchMedia::Merge,
            _ => PatchMedia::Strategic,
        };
        let patch = parse_patch(&self.body, media)?;
        let mut problems = patch.strict_errors;
        problems.extend(unknown_operation_fields(&patch.value));
        self.strict(problems)
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
        if media == "application/strategic-merge-patch+json" && scope.kind.custom {
            return Err(ApiError::unsupported_media_type(
                media,
                &[ACCEPTED[0], ACCEPTED[1], APPLY],
            ));
        }
        if PatchKind::of_media_type(media).is_none() {
            return Err(ApiError::unsupported_media_type(media, &ACCEPTED));
        }
        asked.check_patch_options(false)?;
        let types = self.registry.types();
        let manager = asked.manager()?;
        let writing = self.writing(&types, asked, &manager);
        let problems = asked.patch_problems()?;
        let warnings = std::sync::Mutex::new(Vec::new());
        let make = |old: &Value| {
            let new = patched(asked, old, scope.kind.schema.get().root())?;
            let (new, warned) = asked.check_patched(scope, name, new)?;
            self.check_grant(&asked.identity, scope, Some(old), &new)?;
            if let Ok(mut warnings) = warnings.lock() {
                warnings.clone_from(&problems);
                warnings.extend(warned);
                warnings.extend(scope.warnings(&new, false));
            }
            Ok(new)
        };
        let change = Change {
            make: &make,
            subresource: asked.path.subresource.as_deref(),
            tracking: Tracking::Record(&writing),
            honours_version: true,
            dry_run: asked.options.dry_run,
        };
        let stored = self.update_object(scope, name, &change).await?;
        self.written(scope).await?;
        let response = self.show(scope, &stored, StatusCode::OK, &asked.options, asked.wanted);
        Ok(Answer { response, warnings: warnings.into_inner().unwrap_or_default() })
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

        if self.find(scope, name).await?.is_none() && subresource.is_none() {
            let mut object = apply(None)?;
            let given = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if given.is_empty() {
                object["metadata"]["name"] = name.into();
            } else if given != name {
                return Err(ApiError::other_name(&given, name));
            }
            self.check_grant(&asked.identity, scope, None, &object)?;
            match self.create_object(scope, object, Tracking::Done, asked.options.dry_run).await {
                // Somebody was quicker; what they made is applied to below.
                Err(error) if error.reason == "AlreadyExists" => {}
                outcome => {
                    let stored = outcome?;
                    self.written(scope).await?;
                    let code = StatusCode::CREATED;
                    let response = self.show(scope, &stored, code, &asked.options, asked.wanted);
                    return Ok(Answer { response, warnings });
                }
            }
        }
        let make = |old: &Value| {
            let new = apply(Some(old))?;
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
        self.written(scope).await?;
        let response = self.show(scope, &stored, StatusCode::OK, &asked.options, asked.wanted);
        Ok(Answer { response, warnings })
    }
}
