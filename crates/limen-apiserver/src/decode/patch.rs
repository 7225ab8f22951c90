//! Patch bodies: parsed, with what is wrong with their syntax, but not yet applied.

use std::collections::HashSet;

use serde_json::Value;

use super::quote::quoted;
use super::raw::Raw;
use super::{MAX_STRICT_ERRORS, json, yaml};
use crate::error::{ApiError, ApiResult};

/// The kind of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchMedia {
    /// `application/json-patch+json`.
    Json,
    /// `application/merge-patch+json`.
    Merge,
    /// `application/strategic-merge-patch+json`.
    Strategic,
    /// `application/apply-patch+yaml`.
    Apply,
}

/// A parsed patch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Patch {
    /// What it says: a list of operations for a JSON patch, else an object.
    pub value: Value,
    /// Its duplicate and unknown fields, each as `duplicate field "data.a"`, or as
    /// `line 1: key "data" already set in map` in YAML.
    pub strict_errors: Vec<String>,
}

/// Parses a patch and checks that it is a list or an object, as its kind must be.
pub(crate) fn parse_patch(body: &[u8], media: PatchMedia) -> ApiResult<Patch> {
    match media {
        PatchMedia::Apply => applied(body)
            .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}"))),
        PatchMedia::Strategic => object(body).map_err(ApiError::bad_request),
        PatchMedia::Merge => object(body).map_err(|error| undecodable(&error)),
        PatchMedia::Json => operations(body).map_err(|error| undecodable(&error)),
    }
}

fn undecodable(error: &str) -> ApiError {
    ApiError::bad_request(format!("error decoding patch: {error}"))
}

fn not_a_map(raw: &Raw) -> String {
    let found = raw.go_name();
    format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")
}

fn object(body: &[u8]) -> Result<Patch, String> {
    let raw = match json::parse(body)? {
        Raw::Null => Raw::Object(Vec::new()),
        raw @ Raw::Object(_) => raw,
        other => return Err(not_a_map(&other)),
    };
    let mut strict_errors = Vec::new();
    duplicates(&raw, &mut String::new(), &mut strict_errors);
    Ok(Patch { value: raw.into_value(), strict_errors })
}

fn applied(body: &[u8]) -> Result<Patch, String> {
    let document =
        yaml::parse(body).map_err(|error| format!("error converting YAML to JSON: {error}"))?;
    let raw = match document.value {
        Raw::Null => Raw::Object(Vec::new()),
        raw @ Raw::Object(_) => raw,
        other => {
            let error = not_a_map(&other);
            return Err(format!("error unmarshaling JSON: while decoding JSON: {error}"));
        }
    };
    Ok(Patch { value: raw.into_value(), strict_errors: document.duplicates })
}

fn operations(body: &[u8]) -> Result<Patch, String> {
    let items = match json::parse(body)? {
        Raw::Null => Vec::new(),
        Raw::List(items) => items,
        other => {
            let found = other.go_name();
            return Err(format!(
                "json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp"
            ));
        }
    };
    let mut strict_errors = Vec::new();
    for (position, item) in items.iter().enumerate() {
        let Raw::Object(fields) = item else { continue };
        let mut seen = HashSet::new();
        for (name, _) in fields {
            let path = quoted(&format!("[{position}].{name}"));
            let known = matches!(name.as_str(), "op" | "path" | "from" | "value");
            if !known {
                strict_errors.push(format!("json patch unknown field {path}"));
            } else if !seen.insert(name) {
                strict_errors.push(format!("json patch duplicate field {path}"));
            }
        }
    }
    strict_errors.truncate(MAX_STRICT_ERRORS);
    Ok(Patch { value: Raw::List(items).into_value(), strict_errors })
}

/// Tells the fields that occur twice, by their path.
pub(super) fn duplicates(raw: &Raw, path: &mut String, errors: &mut Vec<String>) {
    let length = path.len();
    match raw {
        Raw::List(items) => {
            for (position, item) in items.iter().enumerate() {
                path.push_str(&format!("[{position}]"));
                duplicates(item, path, errors);
                path.truncate(length);
            }
        }
        Raw::Object(fields) => {
            let mut seen = HashSet::with_capacity(fields.len());
            for (name, value) in fields {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
                if !seen.insert(name) && errors.len() < MAX_STRICT_ERRORS {
                    errors.push(format!("duplicate field {}", quoted(path)));
                }
                duplicates(value, path, errors);
                path.truncate(length);
            }
        }
        _ => {}
    }
}
