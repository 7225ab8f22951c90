//! Request bodies become objects, as strictly as the client asks.
//!
//! ```text
//! bytes --json/yaml/protobuf--> Raw --typed (built in) or custom--> Value as it would be stored
//!                                |                  |
//!                          syntax errors     type errors, unknown and duplicate fields
//! ```
//!
//! A syntax or type error is always an answer of 400. Unknown and duplicate fields are an error,
//! a warning or nothing, as `fieldValidation` says. The sentences are those of kube-apiserver,
//! which in turn are those of Go's JSON decoder: people search for them.

mod custom;
mod json;
mod patch;
mod protobuf;
mod quote;
mod raw;
mod scalars;
mod time;
mod typed;
mod yaml;

#[cfg(all(test, feature = "e2e"))]
mod facts;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

pub(crate) use patch::{PatchMedia, parse_patch};

use crate::error::{ApiError, ApiResult, Subject};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::ResourceType;
use crate::schema::Schema;
use crate::schema::types::{self, Definition};
use raw::Raw;

/// How many bytes a body may have.
pub(crate) const MAX_BODY: usize = 3 * 1024 * 1024;

/// How many unknown and duplicate fields are told of one body.
const MAX_STRICT_ERRORS: usize = 100;

/// What a body is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`, which only built-in types have.
    Protobuf,
}

/// What happens to unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped, and the client is warned.
    #[default]
    Warn,
    /// They are an error.
    Strict,
}

impl FieldValidation {
    /// The value of the query parameter `fieldValidation`, if it is one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Warn" => Some(Self::Warn),
            "Ignore" => Some(Self::Ignore),
            "Strict" => Some(Self::Strict),
            _ => None,
        }
    }
}

/// The type that a body should have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The schema of a custom resource; built-in types are known.
    pub custom: Option<&'a Schema>,
}

impl<'a> From<&'a ResourceType> for Expected<'a> {
    fn from(resource: &'a ResourceType) -> Self {
        Self {
            group: &resource.group,
            version: &resource.version,
            kind: &resource.kind,
            custom: resource.custom.then(|| &**resource.schema.get()),
        }
    }
}

impl Expected<'_> {
    fn api_version(self) -> String {
        api_version(self.group, self.version)
    }
}

/// A decoded object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decoded {
    /// The object as the server would store it, before defaults.
    pub object: Value,
    /// What to warn the client of.
    pub warnings: Vec<String>,
}

/// An object that was brought into the form in which the server would store it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Normalized {
    /// The object.
    pub object: Value,
    /// The unknown fields, each as `unknown field "spec.foo"`.
    pub strict_errors: Vec<String>,
}

/// What is wrong with a JSON text, in the words of Go's parser.
pub(crate) fn json_problem(text: &[u8]) -> Option<String> {
    json::parse(text).err()
}

/// The error for a body of more than [`MAX_BODY`] bytes.
pub(crate) fn too_large() -> ApiError {
    ApiError::too_large(format!("Request entity too large: limit is {MAX_BODY}"))
}

/// Reads an object from a body.
pub(crate) fn decode(
    body: &[u8],
    media: Media,
    expected: Expected<'_>,
    validation: FieldValidation,
) -> ApiResult<Decoded> {
    let parsed = match media {
        Media::Json => parse_json(body),
        Media::Yaml => parse_yaml(body),
        Media::Protobuf => return protobuf::decode(body, expected),
    };
    let (raw, mut strict_errors, mut warnings) =
        parsed.map_err(|error| unrecognized(expected, &error, body))?;
    let named = TypeName::of(&raw).map_err(|error| unrecognized(expected, &error, body))?;
    let fields = match raw {
        Raw::Object(fields) => fields,
        _ => Vec::new(),
    };

    let named = match expected.custom {
        None => named.or(expected),
        Some(_) if named.kind.is_empty() => {
            let text = String::from_utf8_lossy(body);
            let error = format!("Object 'Kind' is missing in '{text}'");
            return Err(unrecognized(expected, &error, body));
        }
        Some(_) => named,
    };
    let cannot = |error: &str| named.cannot_be(expected, error);
    if expected.custom.is_none() {
        named.check(expected).map_err(|error| cannot(&error))?;
    }
    let (mut object, field_errors) =
        objects_fields(expected, fields).map_err(|error| cannot(&error))?;
    warnings.extend(field_errors.iter().cloned());
    strict_errors.extend(field_errors);
    if validation == FieldValidation::Strict && !strict_errors.is_empty() {
        return Err(cannot(&format!("strict decoding error: {}", strict_errors.join(", "))));
    }
    if expected.custom.is_some() {
        named.check_custom(expected, &object)?;
    }
    object.insert("apiVersion".to_owned(), expected.api_version().into());
    object.insert("kind".to_owned(), expected.kind.into());
    if validation == FieldValidation::Ignore {
        warnings.clear();
    }
    Ok(Decoded { object: object.into(), warnings })
}

/// Reads options, such as the body of a DELETE. They are never strict, and their version is of no
/// account. An empty body has none.
pub(crate) fn decode_options(body: &[u8], media: Media, kind: &str) -> ApiResult<Value> {
    if body.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let expected = Expected { group: "meta.k8s.io", version: "v1", kind, custom: None };
    let read = || {
        let (raw, ..) = match media {
            Media::Json => parse_json(body)?,
            Media::Yaml => parse_yaml(body)?,
            Media::Protobuf => return protobuf::decode_options(body, expected),
        };
        TypeName::of(&raw)?.or(expected).check_options(expected)?;
        let Raw::Object(fields) = raw else { return Ok(Map::new()) };
        objects_fields(expected, fields).map(|(object, _)| object)
    };
    read().map(Value::Object).map_err(ApiError::bad_request)
}

/// Brings an object, such as one that was patched, into the form in which the server would store
/// it. The error is a sentence about a value of a wrong type or about the object's type.
pub(crate) fn normalize(object: Value, expected: Expected<'_>) -> Result<Normalized, String> {
    let raw = Raw::from(object);
    let named = TypeName::of(&raw)?.or(expected);
    let Raw::Object(fields) = raw else { return Err("the object is not an object".to_owned()) };
    if expected.custom.is_none()
        && let Err(error) = named.check(expected)
    {
        // It is read as what it says it is before anybody looks at what it should be.
        let own = Expected {
            group: &named.group,
            version: &named.version,
            kind: &named.kind,
            custom: None,
        };
        if let Ok(definition) = definition_of(own) {
            typed::decode(definition, fields)?;
        }
        return Err(error);
    }
    let (object, strict_errors) = objects_fields(expected, fields)?;
    Ok(Normalized { object: object.into(), strict_errors })
}

/// What the converter behind strategic merge patches says in place of a decoder's sentence about a
/// value of a wrong type.
pub(crate) fn unrestorable(sentence: &str) -> String {
    let parts = || {
        let rest = sentence.strip_prefix("json: cannot unmarshal ")?;
        let (found, rest) = rest.split_once(" into Go ")?;
        Some((found, rest.rsplit_once(" of type ")?.1))
    };
    let Some((found, wanted)) = parts() else { return sentence.to_owned() };
    let found = match found {
        "object" => "map",
        "array" => "slice",
        "number" => "int64",
        scalar => scalar,
    };
    match wanted {
        wanted if wanted.starts_with("map[") => format!("cannot restore map from {found}"),
        wanted if wanted.starts_with("[]") => format!("cannot restore slice from {found}"),
        wanted if wanted.contains('.') => format!("cannot restore struct from: {found}"),
        scalar => format!("unrecognized type: {scalar}"),
    }
}

fn objects_fields(
    expected: Expected<'_>,
    fields: Vec<(String, Raw)>,
) -> Result<(Map<String, Value>, Vec<String>), String> {
    if let Some(schema) = expected.custom {
        let decoded = custom::decode(schema, fields)?;
        return Ok((decoded.object, decoded.strict_errors));
    }
    let decoded = typed::decode(definition_of(expected)?, fields)?;
    Ok((decoded.object, decoded.strict_errors))
}

/// The definition of a built-in type.
fn definition_of(expected: Expected<'_>) -> Result<&'static Definition, String> {
    let name = types::definition_name(expected.group, expected.version, expected.kind);
    types::definition(&name)
        .or_else(|| types::by_short_name(&format!("meta.{}", expected.kind)))
        .ok_or_else(|| format!("nothing is known of {name}"))
}

/// A body's content, the strict errors of its syntax, and these as warnings.
type Parsed = Result<(Raw, Vec<String>, Vec<String>), String>;

fn parse_json(body: &[u8]) -> Parsed {
    let raw = json::parse(body)
        .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
    Ok((raw, Vec::new(), Vec::new()))
}

fn parse_yaml(body: &[u8]) -> Parsed {
    let document = yaml::parse(body)?;
    let strict = match document.duplicates.as_slice() {
        [] => Vec::new(),
        lines => vec![format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "))],
    };
    Ok((document.value, strict, document.duplicates))
}

/// The type that a body claims to be of.
#[derive(Clone, Debug)]
struct TypeName {
    group: String,
    version: String,
    kind: String,
}

impl TypeName {
    fn of(raw: &Raw) -> Result<Self, String> {
        let parse_error = |error: String| {
            format!("couldn't get version/kind; json parse error: json: cannot unmarshal {error}")
        };
        let fields = match raw {
            Raw::Null => &[],
            Raw::Object(fields) => fields.as_slice(),
            other => {
                let go_type = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
                let found = other.go_name();
                return Err(parse_error(format!("{found} into Go value of type {go_type}")));
            }
        };
        let text = |name: &str| match fields.iter().rfind(|(field, _)| field == name) {
            None | Some((_, Raw::Null)) => Ok(String::new()),
            Some((_, Raw::String(text))) => Ok(text.clone()),
            Some((_, other)) => {
                let found = other.go_name();
                Err(parse_error(format!("{found} into Go struct field .{name} of type string")))
            }
        };
        let (api_version, kind) = (text("apiVersion")?, text("kind")?);
        let (group, version) = match api_version.matches('/').count() {
            0 => ("", api_version.as_str()),
            1 => api_version.split_once('/').unwrap_or_default(),
            _ => return Err(format!("unexpected GroupVersion string: {api_version}")),
        };
        Ok(Self { group: group.to_owned(), version: version.to_owned(), kind })
    }

    /// What the body leaves out is as expected.
    fn or(self, expected: Expected<'_>) -> Self {
        let kind = if self.kind.is_empty() { expected.kind.to_owned() } else { self.kind };
        if self.version.is_empty() && self.group.is_empty() {
            let (group, version) = (expected.group.to_owned(), expected.version.to_owned());
            return Self { group, version, kind };
        }
        Self { kind, ..self }
    }

    /// Whether a built-in type is the expected one.
    fn check(&self, expected: Expected<'_>) -> Result<(), String> {
        let same = (self.group.as_str(), self.version.as_str(), self.kind.as_str())
            == (expected.group, expected.version, expected.kind);
        if same {
            return Ok(());
        }
        let name = types::definition_name(&self.group, &self.version, &self.kind);
        if types::definition(&name).is_none() {
            return Err(self.not_registered());
        }
        let package = match expected.group.split('.').next() {
            Some("") | None => "core",
            Some(package) => package,
        };
        Err(format!(
            "converting ({}.{}) to ({package}.{}): unknown conversion",
            self.version, self.kind, expected.kind
        ))
    }

    /// Whether options are the expected ones, of whichever version.
    fn check_options(&self, expected: Expected<'_>) -> Result<(), String> {
        if self.kind == expected.kind { Ok(()) } else { Err(self.not_registered()) }
    }

    /// Whether a custom type is the expected one.
    fn check_custom(&self, expected: Expected<'_>, object: &Map<String, Value>) -> ApiResult<()> {
        if (self.group.as_str(), self.version.as_str()) != (expected.group, expected.version) {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({}) does not match the expected API version ({})",
                api_version(&self.group, &self.version),
                expected.api_version()
            )));
        }
        if self.kind != expected.kind {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let detail = format!("must be {}", expected.kind);
            let value = Value::from(self.kind.as_str());
            let error = FieldError::invalid(&FieldPath::new("kind"), &value, &detail);
            let subject = Subject { group: expected.group, resource: &self.kind };
            return Err(ApiError::invalid(subject, name, &[error]));
        }
        Ok(())
    }

    fn not_registered(&self) -> String {
        format!(
            "no kind {:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:111\"",
            self.kind,
            api_version(&self.group, &self.version)
        )
    }

    fn cannot_be(&self, expected: Expected<'_>, error: &str) -> ApiError {
        ApiError::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: {error}",
            self.kind, self.version, expected.kind
        ))
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn unrecognized(expected: Expected<'_>, error: &str, body: &[u8]) -> ApiError {
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {error} ({})",
        expected.kind,
        summary(body)
    ))
}

/// The first bytes of a body: as they are if they look like JSON, else in hexadecimal.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let start = &body[..body.len().min(SHOWN)];
    let more = if body.len() > SHOWN { " ..." } else { "" };
    match start {
        [] => "<empty>".to_owned(),
        [b'{', ..] => format!("{}{more}", String::from_utf8_lossy(start)),
        start => {
            let hexadecimal: String = start.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hexadecimal}{more}")
        }
    }
}
