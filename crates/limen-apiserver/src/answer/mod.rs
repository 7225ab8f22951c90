//! What the client wants its answer to look like, and making it so.
//!
//! The `Accept` header says two things: the encoding (JSON or YAML), and whether to answer with
//! the objects themselves, with a table for people, or with their metadata only.

pub(crate) mod jsonpath;
mod table;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

pub(crate) use table::Tables;

use crate::error::{ApiError, ApiResult};

/// The body of an answer; a watch's goes on and on.
pub(crate) type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    #[default]
    Json,
    Yaml,
}

/// What an answer consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    #[default]
    Object,
    Table,
    Metadata,
}

/// What the client asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) encoding: Encoding,
    pub(crate) form: Form,
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

impl Wanted {
    /// Chooses the first of the accepted media types that can be made.
    pub(crate) fn from_headers(headers: &HeaderMap) -> ApiResult<Self> {
        let mut accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut any = false;
        let chosen = accepts.find_map(|header| {
            header.split(',').find_map(|entry| {
                any |= !entry.trim().is_empty();
                Self::parse(entry)
            })
        });
        match chosen {
            Some(wanted) => Ok(wanted),
            None if !any => Ok(Self::default()),
            None => Err(ApiError::not_acceptable(&[JSON, YAML])),
        }
    }

    fn parse(entry: &str) -> Option<Self> {
        let mut parts = entry.split(';').map(str::trim);
        let encoding = match parts.next()? {
            JSON | "*/*" | "application/*" => Encoding::Json,
            YAML => Encoding::Yaml,
            _ => return None,
        };
        let (mut as_kind, mut group, mut version) = ("", "", "");
        for parameter in parts {
            match parameter.split_once('=') {
                Some(("as", value)) => as_kind = value,
                Some(("g", value)) => group = value,
                Some(("v", value)) => version = value,
                _ => {}
            }
        }
        let form = match as_kind {
            "" => Form::Object,
            _ if (group, version) != ("meta.k8s.io", "v1") => return None,
            "Table" => Form::Table,
            "PartialObjectMetadata" | "PartialObjectMetadataList" => Form::Metadata,
            _ => return None,
        };
        Some(Self { encoding, form })
    }

    /// Answers with an object that is a value already.
    pub(crate) fn value(self, code: StatusCode, value: &Value) -> Response<Body> {
        match self.encoding {
            Encoding::Json => bytes(code, JSON, value.to_string().into()),
            Encoding::Yaml => bytes(code, YAML, yaml(value).into()),
        }
    }

    /// Answers with JSON text, which is turned into YAML if that is wanted.
    pub(crate) fn json(self, code: StatusCode, text: Vec<u8>) -> Response<Body> {
        match self.encoding {
            Encoding::Json => bytes(code, JSON, text.into()),
            Encoding::Yaml => {
                let value = serde_json::from_slice(&text).unwrap_or_default();
                bytes(code, YAML, yaml(&value).into())
            }
        }
    }
}

fn yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).unwrap_or_else(|error| format!("# {error}\n"))
}

/// Answers with bytes of a media type.
pub(crate) fn bytes(code: StatusCode, media: &'static str, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(body).boxed_unsync());
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// Answers with a document that clients may keep and ask for again only if it has changed.
pub(crate) fn cacheable(headers: &HeaderMap, media: &'static str, value: &Value) -> Response<Body> {
    let body = Bytes::from(value.to_string());
    let digest = ring::digest::digest(&ring::digest::SHA256, &body);
    let hash: String = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    let tag = format!("\"{hash}\"");
    let known = headers.get(IF_NONE_MATCH).is_some_and(|known| *known == tag.as_str());
    let mut response =
        if known { nothing(StatusCode::NOT_MODIFIED) } else { bytes(StatusCode::OK, media, body) };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    response
}

/// Answers with a code and nothing else.
pub(crate) fn nothing(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(empty());
    *response.status_mut() = code;
    response
}

/// Nothing.
pub(crate) fn empty() -> Body {
    Full::new(Bytes::new()).boxed_unsync()
}

/// Answers with an error.
pub(crate) fn error(error: &ApiError, encoding: Encoding) -> Response<Body> {
    if *error == ApiError::page_not_found() {
        let text = format!("{}\n", error.message).into();
        return bytes(error.code, "text/plain; charset=utf-8", text);
    }
    let wanted = Wanted { encoding, form: Form::Object };
    let mut response = wanted.value(error.code, &error.status());
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
    }
    response
}

/// The metadata of an object, as clients ask for when they want nothing else.
pub(crate) fn metadata_only(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(accept: &'static str) -> ApiResult<Wanted> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        Wanted::from_headers(&headers)
    }

    #[test]
    fn the_first_media_type_that_can_be_made_is_made() {
        let table = Wanted { encoding: Encoding::Json, form: Form::Table };
        let cases = [
            ("application/json", Wanted::default()),
            ("*/*", Wanted::default()),
            ("application/vnd.kubernetes.protobuf,application/json", Wanted::default()),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", table),
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Wanted::default(),
            ),
            ("application/yaml", Wanted { encoding: Encoding::Yaml, form: Form::Object }),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Wanted { encoding: Encoding::Json, form: Form::Metadata },
            ),
        ];
        for (accept, expected) in cases {
            assert_eq!(wanted(accept).unwrap(), expected, "{accept}");
        }
        assert_eq!(wanted("application/vnd.kubernetes.protobuf").unwrap_err().code, 406);
        assert_eq!(Wanted::from_headers(&HeaderMap::new()).unwrap(), Wanted::default());
    }
}
