//! Requests to a simulated API, and its answers.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

/// A request, decoded.
#[derive(Clone, Debug)]
pub struct Call {
    /// The HTTP method.
    pub method: String,
    /// The segments of the path.
    pub path: Vec<String>,
    /// The query.
    pub query: BTreeMap<String, String>,
    /// The content type of the body.
    pub content_type: String,
    /// The body.
    pub body: Value,
}

impl Call {
    /// Decodes a request.
    pub fn new(method: &str, uri: &http::Uri, content_type: &str, body: &[u8]) -> Self {
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let path = uri.path().split('/').filter(|part| !part.is_empty()).map(decode).collect();
        let query = uri.query().unwrap_or_default().split('&').filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (!name.is_empty()).then(|| (decode(name), decode(&value.replace('+', " "))))
        });
        Self {
            method: method.to_owned(),
            path,
            query: query.collect(),
            content_type: content_type.to_owned(),
            body: serde_json::from_slice(body).unwrap_or_default(),
        }
    }

    /// A query parameter, empty if it is absent.
    pub fn parameter(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    /// Whether this is a watch.
    pub fn is_watch(&self) -> bool {
        ["true", "1"].contains(&self.parameter("watch"))
    }

    /// Whether this may change something.
    pub fn is_write(&self) -> bool {
        self.method != "GET" && self.parameter("dryRun").is_empty()
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Body,
}

/// The body of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// An object.
    Json(Value),
    /// Text.
    Text(String),
}

impl Reply {
    /// A document.
    pub fn ok(body: Value) -> Self {
        Self { status: 200, body: Body::Json(body) }
    }

    /// A new object.
    pub fn created(body: Value) -> Self {
        Self { status: 201, body: Body::Json(body) }
    }

    /// Text.
    pub fn text(text: &str) -> Self {
        Self { status: 200, body: Body::Text(text.to_owned()) }
    }

    /// A path that no API serves.
    pub fn no_such_path() -> Self {
        Self { status: 404, body: Body::Text("404 page not found\n".to_owned()) }
    }

    /// A failure, as a Status.
    pub fn failure(code: u16, reason: &str, message: &str) -> Self {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": message, "reason": reason, "code": code});
        Self { status: code, body: Body::Json(status) }
    }

    /// A failure with the usual reason of its code.
    pub fn fault(code: u16) -> Self {
        let reason = match code {
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            409 => "Conflict",
            410 => "Expired",
            429 => "TooManyRequests",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "InternalError",
        };
        Self::failure(code, reason, &format!("simulated: {reason}"))
    }

    /// The body as bytes.
    pub fn bytes(&self) -> Vec<u8> {
        match &self.body {
            Body::Json(value) => value.to_string().into_bytes(),
            Body::Text(text) => text.clone().into_bytes(),
        }
    }
}
