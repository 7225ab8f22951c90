//! What the client wants its answer to look like, and making it so.
//!
//! The `Accept` header says two things: the encoding (JSON or YAML), and whether to answer with
//! the objects themselves, with a table for people, or with their metadata only.

pub(crate) mod jsonpath;
mod table;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
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
    /// The metadata of one object.
    Metadata,
    /// The metadata of each object of a list.
    MetadataList,
}

/// What there is to answer with, which decides what may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    One,
    List,
    Watch,
    /// The groups that there are, which the real server has no router for.
    Groups,
    /// A review, which cannot be a table and has no metadata.
    Review,
}

/// What the client asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) encoding: Encoding,
    pub(crate) form: Form,
    /// Whether tables and metadata are to be of the version that was there before `v1`.
    pub(crate) beta: bool,
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const WATCH: &str = "application/json;stream=watch";

impl Wanted {
    /// Chooses the first of the accepted media types that can be made.
    pub(crate) fn from_headers(headers: &HeaderMap, offer: Offer) -> ApiResult<Self> {
        let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let entries: Vec<&str> = accepts
            .flat_map(|header| header.split(','))
            .map(str::trim)
            .filter(|entry| !entry.is_empty())
            .collect();
        if entries.is_empty() {
            return Ok(Self::default());
        }
        // The real server asks twice: first by the bare media type, then with its parameters.
        let bare = |entry: &&str| entry.split(';').next().unwrap_or_default().trim().to_owned();
        let is_known = |media: String| matches!(media.as_str(), JSON | YAML | "*/*");
        if offer != Offer::Groups && !entries.iter().map(bare).any(is_known) {
            let offered: &[&str] = if matches!(offer, Offer::One | Offer::Review) {
                &[JSON, YAML]
            } else {
                &[JSON, YAML, WATCH]
            };
            let mut error = ApiError::not_acceptable(format!(
                "406: Not Acceptable\n\nAvailable representations: {}",
                offered.join(", ")
            ));
            error.details = Some(json!({}));
            return Err(error);
        }
        let chosen = entries.into_iter().filter_map(Self::parse).find(|wanted| {
            let streams = wanted.encoding == Encoding::Json;
            let plain = wanted.form == Form::Object;
            (offer != Offer::Watch || streams) && (offer != Offer::Review || plain)
        });
        chosen.ok_or_else(|| {
            let offered: &[&str] = if offer == Offer::Watch { &[WATCH] } else { &[JSON, YAML] };
            ApiError::not_acceptable(format!(
                "only the following media types are accepted: {}",
                offered.join(", ")
            ))
        })
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
            "" => return Some(Self { encoding, ..Self::default() }),
            _ if group != "meta.k8s.io" || !matches!(version, "v1" | "v1beta1") => return None,
            "Table" => Form::Table,
            "PartialObjectMetadata" => Form::Metadata,
            "PartialObjectMetadataList" => Form::MetadataList,
            _ => return None,
        };
        Some(Self { encoding, form, beta: version == "v1beta1" })
    }

    /// The version of tables and metadata.
    pub(crate) fn meta_version(self) -> &'static str {
        if self.beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" }
    }

    /// The metadata of an object, for clients that want nothing else.
    pub(crate) fn metadata_only(self, object: &Value) -> Value {
        json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": self.meta_version(),
            "metadata": object.get("metadata").cloned().unwrap_or_default(),
        })
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

    /// Answers with JSON text that comes in pieces.
    pub(crate) fn json_pieces(
        self,
        code: StatusCode,
        mut pieces: impl Iterator<Item = Vec<u8>> + Send + 'static,
    ) -> Response<Body> {
        let first = pieces.next().unwrap_or_default();
        let Some(second) = pieces.next() else { return self.json(code, first) };
        let pieces = [first, second].into_iter().chain(pieces);
        if self.encoding == Encoding::Yaml {
            return self.json(code, pieces.flatten().collect());
        }
        let frames = pieces.map(|piece| Ok(Frame::data(Bytes::from(piece))));
        let mut response = bytes(code, JSON, Bytes::new());
        *response.body_mut() = StreamBody::new(futures::stream::iter(frames)).boxed_unsync();
        response
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
    let wanted = Wanted { encoding, ..Wanted::default() };
    let mut response = wanted.value(error.code, &error.status());
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(accept: &'static str, offer: Offer) -> ApiResult<Wanted> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        Wanted::from_headers(&headers, offer)
    }

    #[tokio::test]
    async fn pieces_are_one_answer() {
        let cases: [(&[&str], Encoding, &str); 4] = [
            (&["[1]"], Encoding::Json, "[1]"),
            (&["[1", ",2", "]"], Encoding::Json, "[1,2]"),
            (&["[1]"], Encoding::Yaml, "- 1\n"),
            (&["[1", ",2", "]"], Encoding::Yaml, "- 1\n- 2\n"),
        ];
        for (pieces, encoding, expected) in cases {
            let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| (*piece).into()).collect();
            let wanted = Wanted { encoding, ..Wanted::default() };
            let answer = wanted.json_pieces(StatusCode::OK, pieces.into_iter());
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, expected);
        }
    }

    #[test]
    fn the_first_media_type_that_can_be_made_is_made() {
        let of = |form| Wanted { form, ..Wanted::default() };
        let cases = [
            ("application/json", Wanted::default()),
            ("*/*", Wanted::default()),
            ("application/vnd.kubernetes.protobuf,application/json", Wanted::default()),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", of(Form::Table)),
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Wanted { beta: true, ..of(Form::Table) },
            ),
            ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Wanted::default()),
            ("application/yaml", Wanted { encoding: Encoding::Yaml, ..Wanted::default() }),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                of(Form::MetadataList),
            ),
        ];
        for (accept, expected) in cases {
            assert_eq!(wanted(accept, Offer::List).unwrap(), expected, "{accept}");
        }
        let nothing = Wanted::from_headers(&HeaderMap::new(), Offer::One);
        assert_eq!(nothing.unwrap(), Wanted::default());
    }

    #[test]
    fn what_cannot_be_made_is_refused_in_two_ways() {
        let unknown = "406: Not Acceptable\n\nAvailable representations: ";
        let unable = "only the following media types are accepted: ";
        let cases = [
            ("application/cbor", Offer::One, format!("{unknown}{JSON}, {YAML}")),
            ("garbage", Offer::List, format!("{unknown}{JSON}, {YAML}, {WATCH}")),
            ("application/*;q=0.5", Offer::One, format!("{unknown}{JSON}, {YAML}")),
            (
                "application/json;as=Table;v=v9;g=meta.k8s.io",
                Offer::List,
                format!("{unable}{JSON}, {YAML}"),
            ),
            (YAML, Offer::Watch, format!("{unable}{WATCH}")),
            ("garbage", Offer::Groups, format!("{unable}{JSON}, {YAML}")),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io",
                Offer::Review,
                format!("{unable}{JSON}, {YAML}"),
            ),
        ];
        for (accept, offer, message) in cases {
            let error = wanted(accept, offer).unwrap_err();
            assert_eq!((error.code.as_u16(), error.message), (406, message), "{accept}");
        }
    }
}
