//! Answers to a browser.

use std::convert::Infallible;

use bytes::Bytes;
use futures::StreamExt;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use limen_api::error_text;
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;

use crate::live::Update;

pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// What went wrong, in a form that the page can show.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The hub does not take what somebody logged in with, or not any more.
    pub(crate) fn unknown() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "the hub does not know this token or certificate, or it has expired; log in with another one",
        )
    }
}

impl From<kube::Error> for Refusal {
    /// What the hub says of a request is what the person is told.
    fn from(error: kube::Error) -> Self {
        match status_of(&error) {
            StatusCode::UNAUTHORIZED => Self::unknown(),
            StatusCode::BAD_GATEWAY => Self::new(
                StatusCode::BAD_GATEWAY,
                format!("the hub does not answer: {}; is it running?", error_text(&error)),
            ),
            code => Self::new(code, error_text(&error)),
        }
    }
}

/// How the hub has answered; that of a bad gateway if it has not.
pub(crate) fn status_of(error: &kube::Error) -> StatusCode {
    match error {
        kube::Error::Api(status) => {
            StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY)
        }
        _ => StatusCode::BAD_GATEWAY,
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        json_answer(refusal.status, &json!({"message": refusal.message}))
    }
}

pub(crate) fn bytes_answer(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Answer {
    let mut answer = Response::new(Full::new(body.into()).boxed_unsync());
    *answer.status_mut() = status;
    secure(&mut answer, content_type);
    answer
}

pub(crate) fn json_answer(status: StatusCode, body: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(body).unwrap_or_default();
    bytes_answer(status, "application/json", body)
}

/// The page is elsewhere.
pub(crate) fn moved_to(url: &str) -> Answer {
    let mut answer = bytes_answer(StatusCode::PERMANENT_REDIRECT, "text/plain", url.to_owned());
    if let Ok(url) = HeaderValue::from_str(url) {
        answer.headers_mut().insert(LOCATION, url);
    }
    answer
}

/// A stream of server-sent events.
pub(crate) fn live_answer(updates: mpsc::Receiver<Update>) -> Answer {
    let events = futures::stream::unfold(updates, async |mut updates| {
        let update = updates.recv().await?;
        let text = serde_json::to_string(&update).unwrap_or_default();
        Some((format!("data: {text}\n\n"), updates))
    });
    // The browser tries again by itself, after this many milliseconds.
    let first = futures::stream::once(async { "retry: 1000\n\n".to_owned() });
    let frames = first.chain(events).map(|text| Ok(Frame::data(Bytes::from(text))));
    let mut answer = Response::new(BodyExt::boxed_unsync(StreamBody::new(frames)));
    secure(&mut answer, "text/event-stream");
    answer
}

/// The page loads nothing from elsewhere, and nobody may frame it.
fn secure(answer: &mut Answer, content_type: &'static str) {
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in [
        ("content-security-policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
