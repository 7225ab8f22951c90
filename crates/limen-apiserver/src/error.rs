//! API errors: what becomes a `Status` object on the wire.
//!
//! Inner layers make an [`ApiError`] where they know what went wrong; the HTTP layer turns it into
//! a response in one place. Codes, reasons and sentences are those of Kubernetes, which clients
//! match on.

use http::StatusCode;
use serde_json::{Value, json};

use crate::field_error::FieldError;

/// The result of an API operation.
pub type ApiResult<T> = Result<T, ApiError>;

/// A failed API operation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status.
    pub code: StatusCode,
    /// The machine-readable reason, such as `NotFound`; empty for none.
    pub reason: &'static str,
    /// The sentence for people.
    pub message: String,
    /// The object or type that the error is about, and its causes.
    pub details: Option<Value>,
    /// After how many seconds to try again.
    pub retry_after: Option<u32>,
}

/// The type that an error is about: a group and a plural resource name or a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The plural resource name or the kind, as the error shows it.
    pub resource: &'a str,
}

impl Subject<'_> {
    /// `ingresses.networking.k8s.io`, or `pods`.
    fn qualified(self) -> String {
        if self.group.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }

    fn details(self, name: &str) -> Value {
        let mut details = json!({});
        if !self.resource.is_empty() {
            details["kind"] = self.resource.into();
        }
        if !name.is_empty() {
            details["name"] = name.into();
        }
        if !self.group.is_empty() {
            details["group"] = self.group.into();
        }
        details
    }
}

impl ApiError {
    /// An error with nothing but a code, a reason and a message.
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, retry_after: None }
    }

    fn about(mut self, subject: Subject<'_>, name: &str) -> Self {
        self.details = Some(subject.details(name));
        self
    }

    /// There is no object of that name.
    pub fn not_found(subject: Subject<'_>, name: &str) -> Self {
        let message = format!("{} {name:?} not found", subject.qualified());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(subject, name)
    }

    /// The server has nothing under that path.
    pub fn no_such_path() -> Self {
        let message = "the server could not find the requested resource";
        let mut error = Self::new(StatusCode::NOT_FOUND, "NotFound", message);
        error.details = Some(json!({}));
        error
    }

    /// There is nothing at all under that path, which the real server says in plain text.
    pub fn page_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "", "404 page not found")
    }

    /// An object of that name is there already.
    pub fn already_exists(subject: Subject<'_>, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", subject.qualified());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(subject, name)
    }

    /// The object was changed by somebody else, or is not in a state for this.
    pub fn conflict(subject: Subject<'_>, name: &str, detail: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: {detail}", subject.qualified());
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(subject, name)
    }

    /// The object was changed since it was read.
    pub fn modified(subject: Subject<'_>, name: &str) -> Self {
        let detail = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(subject, name, detail)
    }

    /// The object breaks the rules of its kind. `subject.resource` is the kind.
    pub fn invalid(subject: Subject<'_>, name: &str, errors: &[FieldError]) -> Self {
        // What several rules find is said once, though every finding is a cause.
        let mut said: Vec<String> = Vec::new();
        for error in errors.iter().map(ToString::to_string) {
            if !said.contains(&error) {
                said.push(error);
            }
        }
        let listed = match &said[..] {
            [only] => only.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} {name:?} is invalid: {listed}", subject.qualified());
        let mut error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        let mut details = subject.details(name);
        details["causes"] = errors.iter().map(FieldError::cause).collect();
        error.details = Some(details);
        error
    }

    /// The object is called something else than its address says.
    pub fn other_name(given: &str, name: &str) -> Self {
        Self::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))
    }

    /// The request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// The user may not do this. `detail` is a whole sentence's rest, such as
    /// `User "a" cannot get resource "pods" in API group "" in the namespace "default"`.
    pub fn forbidden(subject: Subject<'_>, name: &str, detail: &str) -> Self {
        let named = if name.is_empty() { String::new() } else { format!(" {name:?}") };
        let message = format!("{}{named} is forbidden: {detail}", subject.qualified());
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(subject, name)
    }

    /// Nobody knows who is asking.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// The resource has no such verb.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let mut error = Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message);
        error.details = Some(json!({}));
        error
    }

    /// The answer cannot be made in the form that the client wants.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// The body has a media type that the server does not read.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// The body is too large.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// The resourceVersion asked for is no longer there.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// The client asks too much; it may try again.
    pub fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Self {
        let mut error = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        error.retry_after = Some(retry_after);
        error.details = Some(json!({"retryAfterSeconds": retry_after}));
        error
    }

    /// The server cannot do this now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    /// Something took too long.
    pub fn timeout(message: impl Into<String>) -> Self {
        let mut error = Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message);
        error.details = Some(json!({}));
        error
    }

    /// What kube-apiserver has neither a code nor a reason for, though it may be the client's
    /// fault.
    pub fn unexplained(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// The server failed.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let message = format!("Internal error occurred: {message}");
        let mut error = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message);
        error.details = Some(json!({"causes": [{"message": error.message.clone()}]}));
        error
    }

    /// The `Status` object.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code.as_u16(),
        });
        // Kubernetes leaves the reason out where it has none.
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field_error::FieldPath;

    #[test]
    fn a_status_reads_as_in_kubernetes() {
        let ingresses = Subject { group: "networking.k8s.io", resource: "ingresses" };
        let error = ApiError::not_found(ingresses, "web");
        assert_eq!(
            error.status(),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "ingresses.networking.k8s.io \"web\" not found",
                "reason": "NotFound",
                "details": {"name": "web", "group": "networking.k8s.io", "kind": "ingresses"},
                "code": 404,
            })
        );
    }

    #[test]
    fn an_invalid_object_lists_its_causes() {
        let kind = Subject { group: "", resource: "ConfigMap" };
        let name = FieldPath::new("metadata").child("name");
        let errors = [FieldError::required(&name, "name or generateName is required")];
        let error = ApiError::invalid(kind, "", &errors);
        assert_eq!(
            error.message,
            "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required"
        );
        assert_eq!(
            error.details.unwrap()["causes"],
            json!([{
                "reason": "FieldValueRequired",
                "message": "Required value: name or generateName is required",
                "field": "metadata.name",
            }])
        );
    }
}
