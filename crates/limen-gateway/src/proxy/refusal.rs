//! Answers that the gateway gives by itself.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

use super::body::ProxyBody;

/// Why a request is not passed on, or has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// For the client and for the log.
    pub(crate) reason: &'static str,
    /// Whether the connection cannot go on.
    pub(crate) close: bool,
    /// Seconds after which it may be tried again; 0 says nothing.
    pub(crate) retry_after: u32,
}

const fn refusal(status: StatusCode, reason: &'static str) -> Refusal {
    Refusal { status, reason, close: false, retry_after: 0 }
}

const fn malformed(reason: &'static str) -> Refusal {
    Refusal { status: StatusCode::BAD_REQUEST, reason, close: true, retry_after: 0 }
}

pub(crate) const NO_ROUTE: Refusal =
    refusal(StatusCode::NOT_FOUND, "no rule matches this host and path");
pub(crate) const NO_BACKEND: Refusal =
    refusal(StatusCode::SERVICE_UNAVAILABLE, "the rule leads to a backend that does not exist");
pub(crate) const NO_TARGET: Refusal = refusal(
    StatusCode::SERVICE_UNAVAILABLE,
    "the backend has no address in any cluster that may serve this client",
);
pub(crate) const MISDIRECTED: Refusal = refusal(
    StatusCode::MISDIRECTED_REQUEST,
    "this host asks for a client certificate, which this connection has not shown",
);
pub(crate) const LOOP: Refusal =
    refusal(StatusCode::LOOP_DETECTED, "the request has been here before");
pub(crate) const EXPECTATION: Refusal =
    refusal(StatusCode::EXPECTATION_FAILED, "only 100-continue can be expected");
pub(crate) const METHOD: Refusal = Refusal {
    status: StatusCode::METHOD_NOT_ALLOWED,
    reason: "this is not a forward proxy",
    close: true,
    retry_after: 0,
};
pub(crate) const TOO_SLOW: Refusal =
    refusal(StatusCode::GATEWAY_TIMEOUT, "the request took longer than it may");
pub(crate) const URI_TOO_LONG: Refusal =
    Refusal { close: true, ..refusal(StatusCode::URI_TOO_LONG, "the path is too long") };
pub(crate) const TOO_MANY: Refusal =
    refusal(StatusCode::TOO_MANY_REQUESTS, "this client asks more often than it may");
pub(crate) const BAD_HOST: Refusal = malformed("the host is missing or is not one");
pub(crate) const TWO_HOSTS: Refusal = malformed("there is more than one host");
pub(crate) const BAD_TARGET: Refusal = malformed("the request target is not a path");
pub(crate) const TWO_LENGTHS: Refusal = malformed("there is more than one length");
pub(crate) const TWO_FRAMINGS: Refusal = malformed("both a length and a transfer coding");
pub(crate) const BAD_CODING: Refusal = malformed("the only transfer coding is chunked");
pub(crate) const UPGRADE_WITH_BODY: Refusal =
    malformed("a request that asks for an upgrade must not have a body");
pub(crate) const NO_TUNNEL: Refusal =
    refusal(StatusCode::NOT_IMPLEMENTED, "the target speaks HTTP/2, where nothing is upgraded");

impl Refusal {
    /// For a failure of a target.
    pub(crate) fn upstream(status: StatusCode) -> Self {
        let reason = match status {
            StatusCode::GATEWAY_TIMEOUT => "the target gave no answer in time",
            StatusCode::SERVICE_UNAVAILABLE => "the target has no connection to spare",
            StatusCode::BAD_REQUEST => "the body of the request broke off or is malformed",
            StatusCode::REQUEST_TIMEOUT => "the body of the request stopped coming",
            _ => "the target could not be reached or broke off",
        };
        // What is left of the body would be taken for a request.
        let close = matches!(status, StatusCode::BAD_REQUEST | StatusCode::REQUEST_TIMEOUT);
        Self { status, reason, close, retry_after: 0 }
    }

    pub(crate) fn response(&self) -> Response<ProxyBody> {
        let text = Bytes::from(format!("{}\n", self.reason));
        let mut response = Response::new(ProxyBody::Full(text));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if self.retry_after > 0 {
            headers.insert(RETRY_AFTER, HeaderValue::from(self.retry_after));
        }
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
