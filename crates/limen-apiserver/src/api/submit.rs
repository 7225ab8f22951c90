//! Objects that clients send whole: creates and updates.

use http::{Response, StatusCode};
use serde_json::Value;

use super::dispatch::{Answer, Asked};
use super::{Api, Change, Make, Scope, Tracking};
use crate::answer::Body;
use crate::error::{ApiError, ApiResult};
use crate::field_error::{FieldError, FieldPath};

impl Api {
    pub(super) async fn on_create(&self, asked: &Asked, scope: &Scope) -> ApiResult<Answer> {
        if scope.kind.namespaced && scope.namespace.is_none() {
            return Err(ApiError::method_not_allowed());
        }
        let (object, warnings) = asked.object(&scope.kind)?;
        let of_kind = scope.warnings(&object, true);
        let outcome = self.create(asked, scope, object).await;
        Ok(Answer::of_write(outcome, warnings, of_kind))
    }

    async fn create(
        &self,
        asked: &Asked,
        scope: &Scope,
        object: Value,
    ) -> ApiResult<Response<Body>> {
        self.check_grant(&asked.identity, scope, None, &object)?;
        let types = self.registry.types();
        let manager = asked.manager()?;
        let writing = self.writing(&types, asked, &manager);
        let dry_run = asked.options.dry_run;
        let stored = self.create_object(scope, object, Tracking::Record(&writing), dry_run).await?;
        self.written(scope).await;
        let code = StatusCode::CREATED;
        Ok(self.show(scope, &stored, code, &asked.options, asked.wanted))
    }

    pub(super) async fn on_update(
        &self,
        asked: &Asked,
        scope: &Scope,
        name: &str,
    ) -> ApiResult<Answer> {
        let (object, warnings) = asked.object(&scope.kind)?;
        let of_kind = scope.warnings(&object, false);
        let outcome = self.update(asked, scope, name, &object).await;
        Ok(Answer::of_write(outcome, warnings, of_kind))
    }

    async fn update(
        &self,
        asked: &Asked,
        scope: &Scope,
        name: &str,
        object: &Value,
    ) -> ApiResult<Response<Body>> {
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if scope.kind.custom && version.is_empty() {
            return Err(missing_version(scope, name));
        }
        let manager = asked.manager()?;
        let make = |old: &Value| {
            self.check_grant(&asked.identity, scope, Some(old), object)?;
            Ok(object.clone())
        };
        self.change(asked, scope, name, &manager, &make).await
    }

    /// Changes an object as asked, from what is there to what `make` makes of it.
    pub(super) async fn change(
        &self,
        asked: &Asked,
        scope: &Scope,
        name: &str,
        manager: &str,
        make: &Make<'_>,
    ) -> ApiResult<Response<Body>> {
        let types = self.registry.types();
        let writing = self.writing(&types, asked, manager);
        let change = Change {
            make,
            subresource: asked.path.subresource.as_deref(),
            tracking: Tracking::Record(&writing),
            honours_version: true,
            dry_run: asked.options.dry_run,
        };
        let stored = self.update_object(scope, name, &change).await?;
        self.written(scope).await;
        Ok(self.show(scope, &stored, StatusCode::OK, &asked.options, asked.wanted))
    }
}

impl Answer {
    /// What comes of a write. `of_kind` are the warnings that the kind has for objects that are
    /// valid.
    fn of_write(
        outcome: ApiResult<Response<Body>>,
        mut warnings: Vec<String>,
        of_kind: Vec<String>,
    ) -> Self {
        let is_invalid = outcome.as_ref().is_err_and(|error| error.reason == "Invalid");
        if !is_invalid {
            warnings.extend(of_kind);
        }
        Self { outcome, warnings }
    }
}

fn missing_version(scope: &Scope, name: &str) -> ApiError {
    let path = FieldPath::new("metadata").child("resourceVersion");
    let detail = "must be specified for an update";
    let error = FieldError::invalid_shown(&path, "0", detail);
    ApiError::invalid(scope.kind_subject(), name, &[error])
}
