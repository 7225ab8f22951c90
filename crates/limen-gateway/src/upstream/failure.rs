//! Why a target gave no answer, and whether the request may be tried again.

use http::StatusCode;

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) detail: String,
}

/// The step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// No connection: the target has seen nothing of the request.
    Connect,
    /// All connections that it may have are in use.
    Full,
    /// The connection was gone before anything of the request was sent.
    Unsent,
    /// The connection broke after something was sent and before an answer.
    Broken,
    /// No answer in time.
    Slow,
    /// The client's side of the exchange broke, so nothing is the target's fault.
    Client,
    /// The client stopped sending, and nobody can answer half a request.
    Stalled,
}

impl FailureKind {
    /// Whether the target cannot have acted on the request.
    pub(crate) fn unseen(self) -> bool {
        matches!(self, Self::Connect | Self::Full | Self::Unsent)
    }

    /// Whether it counts against the address.
    pub(crate) fn blames_address(self) -> bool {
        matches!(self, Self::Connect | Self::Broken | Self::Slow)
    }

    /// What the client is told.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Connect | Self::Unsent | Self::Broken => StatusCode::BAD_GATEWAY,
            Self::Full => StatusCode::SERVICE_UNAVAILABLE,
            Self::Slow => StatusCode::GATEWAY_TIMEOUT,
            Self::Client => StatusCode::BAD_REQUEST,
            Self::Stalled => StatusCode::REQUEST_TIMEOUT,
        }
    }

    /// What it is called in logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Full => "full",
            Self::Unsent => "unsent",
            Self::Broken => "broken",
            Self::Slow => "slow",
            Self::Client => "client",
            Self::Stalled => "stalled",
        }
    }
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, detail: String) -> Self {
        Self { kind, detail }
    }
}
