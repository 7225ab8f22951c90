//! Getting one object, and showing it.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{Api, Scope};
use crate::answer::{Body, Form, Tables, Wanted};
use crate::error::{ApiError, ApiResult};
use crate::request::Options;
use crate::storage::{StoredObject, store_error};

impl Api {
    /// The stored object of a name, if it is there.
    pub(crate) async fn find(&self, scope: &Scope, name: &str) -> ApiResult<Option<StoredObject>> {
        let entry = self.store.get(&scope.place().key(name), None).await;
        Ok(entry.map_err(|error| store_error(&error))?.map(StoredObject::new))
    }

    pub(crate) async fn get(
        &self,
        scope: &Scope,
        name: &str,
        options: &Options,
        wanted: Wanted,
    ) -> ApiResult<Response<Body>> {
        if wanted.form == Form::MetadataList {
            return Err(ApiError::not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
                scope.go_type()
            )));
        }
        self.check_not_too_new(options.version).await?;
        let found = self.find(scope, name).await?;
        let stored = found.ok_or_else(|| ApiError::not_found(scope.subject(), name))?;
        Ok(self.show(scope, &stored, StatusCode::OK, options, wanted))
    }

    /// Answers with one stored object in the form that the client wants.
    pub(crate) fn show(
        &self,
        scope: &Scope,
        stored: &StoredObject,
        code: StatusCode,
        options: &Options,
        wanted: Wanted,
    ) -> Response<Body> {
        if wanted.form == Form::Object && !scope.converts() {
            let mut json = Vec::with_capacity(1024);
            stored.write_json(&mut json, Some((&scope.api_version(), &scope.kind.kind)));
            return wanted.json(code, json);
        }
        self.show_value(scope, &scope.read(stored), code, options, wanted)
    }

    /// Answers with one object in the form that the client wants.
    pub(crate) fn show_value(
        &self,
        scope: &Scope,
        object: &Value,
        code: StatusCode,
        options: &Options,
        wanted: Wanted,
    ) -> Response<Body> {
        match wanted.form {
            Form::Object => wanted.value(code, object),
            Form::Metadata | Form::MetadataList => {
                wanted.value(code, &wanted.metadata_only(object))
            }
            Form::Table => {
                let include = options.include_object.as_deref();
                let tables = Tables::new(&scope.kind, wanted, include, self.now().as_second());
                let metadata =
                    json!({"resourceVersion": object["metadata"]["resourceVersion"].clone()});
                wanted.value(code, &tables.table(&metadata, std::slice::from_ref(object), true))
            }
        }
    }

    /// Refuses a revision that has not come about yet, in the words of Kubernetes.
    pub(crate) async fn check_not_too_new(&self, version: Option<u64>) -> ApiResult<()> {
        let Some(wanted) = version.filter(|version| *version > 0) else { return Ok(()) };
        let newest = self.store.revision().await.map_err(|error| store_error(&error))?;
        if wanted <= newest.0 {
            return Ok(());
        }
        let message = format!("Too large resource version: {wanted}, current: {newest}");
        let mut error = ApiError::timeout(format!("Timeout: {message}"));
        error.details = Some(json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }));
        error.retry_after = Some(1);
        Err(error)
    }
}
