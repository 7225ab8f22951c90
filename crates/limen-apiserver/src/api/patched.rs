//! A patch in a body, what it makes of an object, and what is wrong with either.

use serde_json::Value;

use super::dispatch::Asked;
use super::patch::media_type;
use crate::decode::{self, FieldValidation, PatchMedia, parse_patch};
use crate::error::{ApiError, ApiResult, Subject};
use crate::field_error::{FieldError, FieldPath};
use crate::patch::{PatchKind, apply_patch, go_format, go_json, unknown_operation_fields};
use crate::resource::ResourceType;
use crate::schema::Node;

/// A patch that was read from a body.
pub(super) struct BodyPatch {
    kind: PatchKind,
    value: Value,
    /// Its unknown and duplicate fields.
    problems: Vec<String>,
}

impl BodyPatch {
    /// The kind of patch that a body claims to be.
    pub(super) fn kind(asked: &Asked, custom: bool) -> ApiResult<PatchKind> {
        let given = media_type(asked);
        let kind = PatchKind::of_media_type(given);
        let kind = kind.filter(|kind| !(custom && *kind == PatchKind::Strategic));
        kind.ok_or_else(|| unsupported(custom))
    }

    pub(super) fn read(asked: &Asked, kind: PatchKind) -> ApiResult<Self> {
        let media = match kind {
            PatchKind::Json => PatchMedia::Json,
            PatchKind::Merge => PatchMedia::Merge,
            PatchKind::Strategic => PatchMedia::Strategic,
        };
        let patch = parse_patch(&asked.body, media)?;
        let mut problems = patch.strict_errors;
        problems.extend(unknown_operation_fields(&patch.value));
        Ok(Self { kind, value: patch.value, problems })
    }

    pub(super) fn apply(&self, current: &Value, schema: Node<'_>) -> ApiResult<Value> {
        apply_patch(self.kind, current, &self.value, schema)
    }

    /// Brings what the patch has made into the form that is stored. Returns it with what to warn
    /// of.
    pub(super) fn settle(
        &self,
        patched: &Value,
        kind: &ResourceType,
        validation: FieldValidation,
    ) -> ApiResult<(Value, Vec<String>)> {
        let normalized = match decode::normalize(patched.clone(), kind.into()) {
            Ok(normalized) => normalized,
            Err(problem) if self.kind == PatchKind::Strategic => {
                return Err(self.refusal(patched, &decode::unrestorable(&problem)));
            }
            Err(problem) => return Err(self.refusal(patched, &problem)),
        };
        let mut problems = self.problems.clone();
        problems.extend(normalized.strict_errors);
        if validation == FieldValidation::Strict && !problems.is_empty() {
            let problem = format!("strict decoding error: {}", problems.join(", "));
            return Err(self.refusal(patched, &problem));
        }
        if validation == FieldValidation::Ignore {
            problems.clear();
        }
        Ok((normalized.object, problems))
    }

    /// The error about a patch: it quotes the object that was made, or the patch if it is one that
    /// needs no detour through JSON in the real server.
    fn refusal(&self, patched: &Value, problem: &str) -> ApiError {
        let quoted = match self.kind {
            PatchKind::Strategic => go_format::plain(&self.value),
            _ => go_json::object(patched, self.touches_metadata()),
        };
        let error = FieldError::invalid(&FieldPath::new("patch"), &quoted.into(), problem);
        ApiError::invalid(Subject { group: "", resource: "" }, "", &[error])
    }

    fn touches_metadata(&self) -> bool {
        let at_metadata = |operation: &Value| {
            operation["path"].as_str().is_some_and(|path| path.starts_with("/metadata/"))
        };
        match &self.value {
            Value::Array(operations) => operations.iter().any(at_metadata),
            patch => patch.get("metadata").is_some_and(Value::is_object),
        }
    }
}

/// The router of the real server refuses what no built-in kind takes; for custom resources, the
/// code behind it does.
fn unsupported(custom: bool) -> ApiError {
    let accepted = [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/apply-patch+yaml",
    ];
    let mut error = ApiError::unsupported_media_type(&accepted);
    if !custom {
        error.message = "415: Unsupported Media Type".to_owned();
        error.details = Some(Value::Object(serde_json::Map::new()));
    }
    error
}
