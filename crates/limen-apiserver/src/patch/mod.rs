//! Patches: a change to an object, rather than a whole new one.
//!
//! ```text
//!  current object ──┐
//!                   ├─> apply_patch ──> patched object ──> decoded, defaulted and validated
//!  patch + schema ──┘                                      like any other, elsewhere
//! ```
//!
//! Nothing here knows what is a valid object: a patch may make nonsense, and whoever asked for it
//! hears so later. Server-side apply is not a patch in this sense; see [`crate::apply`].

pub(crate) mod go_format;
pub(crate) mod go_json;
mod json_patch;
mod merge_patch;
mod strategic;

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::error::{ApiError, ApiResult};
use crate::schema::Node;
use strategic::StrategicError;

/// How deep a patch and a patched object may be nested: no deeper than an object that can be read
/// back.
const MAX_DEPTH: usize = 120;

/// The ways to write a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// `application/json-patch+json`: a list of operations.
    Json,
    /// `application/merge-patch+json`: a partial object.
    Merge,
    /// `application/strategic-merge-patch+json`: a partial object that knows lists.
    Strategic,
}

impl PatchKind {
    /// The kind of patch that a media type means, without its parameters.
    pub(crate) fn of_media_type(media_type: &str) -> Option<Self> {
        match media_type {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            _ => None,
        }
    }
}

/// The object that a patch makes of the current one. The schema says how strategic merge treats
/// lists; the other kinds do not look at it.
pub(crate) fn apply_patch(
    kind: PatchKind,
    current: &Value,
    patch: &Value,
    schema: Node<'_>,
) -> ApiResult<Value> {
    if nodes_within(patch, MAX_DEPTH).is_none() {
        return Err(ApiError::bad_request("error decoding patch: exceeded max depth"));
    }
    let patched = match kind {
        PatchKind::Json => json(current, patch)?,
        PatchKind::Merge => merge(current, patch)?,
        PatchKind::Strategic => strategic(current, patch, schema)?,
    };
    if nodes_within(&patched, MAX_DEPTH).is_none() { Err(rejected()) } else { Ok(patched) }
}

fn json(current: &Value, patch: &Value) -> ApiResult<Value> {
    let undecodable = |value: &Value, into: &str| {
        let got = go_format::json_type(value);
        ApiError::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {got} into Go {into}"
        ))
    };
    let operations = match patch {
        Value::Null => return Ok(current.clone()),
        Value::Array(operations) => operations,
        value => return Err(undecodable(value, "value of type []handlers.jsonPatchOp")),
    };
    for operation in operations {
        match operation {
            Value::Null => {}
            Value::Object(fields) => {
                for name in ["op", "path", "from"] {
                    if let Some(value) = fields.get(name)
                        && !value.is_string()
                        && !value.is_null()
                    {
                        let field = format!("struct field jsonPatchOp.{name} of type string");
                        return Err(undecodable(value, &field));
                    }
                }
            }
            value => return Err(undecodable(value, "value of type handlers.jsonPatchOp")),
        }
    }
    if operations.len() > json_patch::MAX_OPERATIONS {
        return Err(ApiError::too_large(format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {}, got {}",
            json_patch::MAX_OPERATIONS,
            operations.len()
        )));
    }
    json_patch::apply(current, operations).map_err(|_| rejected())
}

/// The fields of a JSON patch's operations that mean nothing, in the words that Kubernetes warns
/// or refuses with, depending on `fieldValidation`.
pub(crate) fn unknown_operation_fields(patch: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    for (n, operation) in patch.as_array().into_iter().flatten().enumerate() {
        for (name, _) in operation.as_object().into_iter().flatten() {
            if !matches!(name.as_str(), "op" | "path" | "from" | "value") {
                unknown.push(format!("json patch unknown field \"[{n}].{name}\""));
            }
        }
    }
    unknown
}

fn merge(current: &Value, patch: &Value) -> ApiResult<Value> {
    match patch {
        Value::Object(patch) => Ok(Value::Object(merge_patch::apply(fields_of(current)?, patch))),
        Value::Null => Err(ApiError::bad_request("Invalid JSON Patch")),
        value => Err(ApiError::bad_request(format!("error decoding patch: {}", not_a_map(value)))),
    }
}

fn strategic(current: &Value, patch: &Value, schema: Node<'_>) -> ApiResult<Value> {
    let patch = match patch {
        Value::Object(patch) => patch.clone(),
        Value::Null => return Ok(current.clone()),
        value => return Err(ApiError::bad_request(not_a_map(value))),
    };
    let merged = strategic::merge(fields_of(current)?.clone(), patch, Some(schema));
    merged.map(Value::Object).map_err(|error| match error {
        StrategicError::BadDirective(_) => ApiError::bad_request(error.to_string()),
        StrategicError::ListOfLists => rejected(),
        StrategicError::Other(message) => {
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
        }
    })
}

fn fields_of(object: &Value) -> ApiResult<&Map<String, Value>> {
    object.as_object().ok_or_else(|| ApiError::internal("the object to patch is not an object"))
}

fn not_a_map(value: &Value) -> String {
    let got = go_format::json_type(value);
    format!("json: cannot unmarshal {got} into Go value of type map[string]interface {{}}")
}

/// What kube-apiserver says to a patch that does not fit the object, whatever the reason.
fn rejected() -> ApiError {
    let message = "the server rejected our request due to an error in our request";
    let mut error = ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
    error.details = Some(json!({}));
    error
}

/// How many values there are in a value, or `None` if some are deeper than the limit. Walks
/// without recursion, since this is what guards the walks that recurse.
fn nodes_within(value: &Value, limit: usize) -> Option<usize> {
    let mut pending = vec![(value, 0)];
    let mut nodes = 0;
    while let Some((value, depth)) = pending.pop() {
        if depth > limit {
            return None;
        }
        nodes += 1;
        match value {
            Value::Object(fields) => pending.extend(fields.values().map(|v| (v, depth + 1))),
            Value::Array(items) => pending.extend(items.iter().map(|v| (v, depth + 1))),
            _ => {}
        }
    }
    Some(nodes)
}

#[cfg(test)]
mod tests;
