//! Bodies in protobuf, which Go clients send for built-in types.
//!
//! ```text
//! k8s\0 envelope { type, message } --the table of types--> Raw --typed--> Value
//! ```
//!
//! A body becomes what its JSON would have been and is then decoded like any other: the zeros that
//! clients write for what they left out vanish there. Nothing is ever answered in protobuf.

mod message;
mod wire;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use super::raw::Raw;
use super::{Decoded, Expected, TypeName, definition_of, objects_fields, unrecognized};
use crate::error::{ApiError, ApiResult};

/// What custom resources may be written in. Kubernetes says nothing but drops the connection.
const FOR_CUSTOM: [&str; 2] = ["application/json", "application/yaml"];
/// What every body starts with.
const MAGIC: &[u8] = b"k8s\0";

/// Reads an object of a built-in type. Fields that nobody knows have no names to warn of.
pub(super) fn decode(body: &[u8], expected: Expected<'_>) -> ApiResult<Decoded> {
    if expected.custom.is_some() {
        return Err(ApiError::unsupported_media_type(&FOR_CUSTOM));
    }
    let envelope = Envelope::read(body).map_err(|error| unrecognized(expected, &error, body))?;
    let named = envelope.type_name().or(expected);
    let read = || {
        named.check(expected)?;
        let (object, _) = objects_fields(expected, envelope.fields(expected)?)?;
        Ok(object)
    };
    let mut object: Map<String, Value> =
        read().map_err(|error: String| named.cannot_be(expected, &error))?;
    object.insert("apiVersion".to_owned(), expected.api_version().into());
    object.insert("kind".to_owned(), expected.kind.into());
    Ok(Decoded { object: object.into(), warnings: Vec::new() })
}

/// Reads options such as the body of a DELETE.
pub(super) fn decode_options(
    body: &[u8],
    expected: Expected<'_>,
) -> Result<Map<String, Value>, String> {
    let envelope = Envelope::read(body)?;
    envelope.type_name().or(expected).check_options(expected)?;
    objects_fields(expected, envelope.fields(expected)?).map(|(object, _)| object)
}

/// An encoded object and what it says it is.
struct Envelope<'a> {
    api_version: String,
    kind: String,
    message: Vec<&'a [u8]>,
}

impl<'a> Envelope<'a> {
    fn read(body: &'a [u8]) -> Result<Self, String> {
        if body.is_empty() {
            return Err("empty data".to_owned());
        }
        let content = body.strip_prefix(MAGIC).ok_or(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        )?;
        if content.is_empty() {
            return Err("empty body".to_owned());
        }
        let mut envelope =
            Self { api_version: String::new(), kind: String::new(), message: Vec::new() };
        let mut type_meta = Vec::new();
        for item in wire::items(&[content], "Unknown")? {
            match item.number {
                1 => type_meta.push(item.bytes("TypeMeta")?),
                2 => envelope.message = vec![item.bytes("Raw")?],
                _ => {}
            }
        }
        for item in wire::items(&type_meta, "TypeMeta")? {
            match item.number {
                1 => envelope.api_version = item.text("APIVersion")?,
                2 => envelope.kind = item.text("Kind")?,
                _ => {}
            }
        }
        Ok(envelope)
    }

    /// A version of more than two parts counts as none.
    fn type_name(&self) -> TypeName {
        let (group, version) = match self.api_version.matches('/').count() {
            0 => ("", self.api_version.as_str()),
            1 => self.api_version.split_once('/').unwrap_or_default(),
            _ => ("", ""),
        };
        TypeName { group: group.to_owned(), version: version.to_owned(), kind: self.kind.clone() }
    }

    fn fields(&self, expected: Expected<'_>) -> Result<Vec<(String, Raw)>, String> {
        message::fields(definition_of(expected)?, &self.message)
    }
}
