//! What a failed call to etcd means: was the request carried out, and is it worth repeating?
//!
//! This decides between [`Error::Unavailable`] and [`Error::Unknown`] for writes, so whatever is
//! not known for certain counts as unknown.

use std::error::Error as StdError;
use std::fmt;

use tonic::{Code, ConnectError, Status};

use crate::Error;

/// A call that failed, and where.
#[derive(Debug)]
pub(super) struct Failure {
    endpoint: String,
    status: Status,
    /// What the other endpoints said that were tried before.
    elsewhere: Vec<String>,
}

/// What became of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was not carried out; another endpoint, or the same one later, may take it.
    Undone,
    /// It may have been carried out or not.
    Unknown,
    /// It asks for a revision that was compacted.
    Compacted,
    /// It asks for a revision that has not come about.
    FutureRevision,
    /// It is larger than etcd takes. Nothing was done.
    TooLarge,
    /// etcd's database has reached its quota. Nothing was done.
    NoSpace,
    /// It names a lease that has ended. Nothing was done.
    NoLease,
    /// It is a transaction that etcd never takes. Nothing was done.
    Invalid,
    /// etcd does not want to. Nothing was done.
    Refused,
}

impl Outcome {
    /// Whether the same request may fare better elsewhere or later.
    pub(super) fn may_pass(self) -> bool {
        matches!(self, Self::Undone | Self::Unknown)
    }
}

/// Said before a request is looked at. The first one only because every call requires a leader;
/// see [`super::endpoints`].
const NOT_LOOKED_AT: [&str; 3] = [
    "etcdserver: no leader",
    "etcdserver: not capable",
    "etcdserver: rpc not supported for learner",
];

impl Failure {
    pub(super) fn new(endpoint: &str, status: Status) -> Self {
        Self { endpoint: endpoint.to_owned(), status, elsewhere: Vec::new() }
    }

    pub(super) fn after(self, elsewhere: impl IntoIterator<Item = String>) -> Self {
        Self { elsewhere: elsewhere.into_iter().collect(), ..self }
    }

    pub(super) fn outcome(&self) -> Outcome {
        outcome(&self.status)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "etcd at {}: {}", self.endpoint, words(&self.status))?;
        if self.outcome() == Outcome::NoSpace {
            write!(
                f,
                "; compact and defragment it, or raise its --quota-backend-bytes, and then clear \
                 the alarm with `etcdctl alarm disarm`"
            )?;
        }
        self.elsewhere.iter().try_for_each(|told| write!(f, "; {told}"))
    }
}

/// For calls that write nothing, or that may be repeated.
impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Error::Unavailable(failure.to_string())
    }
}

pub(super) fn outcome(status: &Status) -> Outcome {
    if never_sent(status) {
        return Outcome::Undone;
    }
    // A status with a source was made on this side, from a connection that broke.
    if status.source().is_some() {
        return Outcome::Unknown;
    }
    let message = status.message();
    if NOT_LOOKED_AT.contains(&message) {
        return Outcome::Undone;
    }
    match status.code() {
        Code::OutOfRange if message.contains("has been compacted") => Outcome::Compacted,
        Code::OutOfRange if message.contains("future revision") => Outcome::FutureRevision,
        Code::ResourceExhausted if message.contains("space exceeded") => Outcome::NoSpace,
        Code::ResourceExhausted if message.contains("message larger than max") => Outcome::TooLarge,
        Code::InvalidArgument if message.contains("request is too large") => Outcome::TooLarge,
        Code::InvalidArgument if message.contains("in txn request") => Outcome::Invalid,
        Code::NotFound if message.contains("lease not found") => Outcome::NoLease,
        // Whatever answers there, it is not etcd.
        Code::Unimplemented => Outcome::Undone,
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Unknown
        | Code::Internal
        | Code::Aborted => Outcome::Unknown,
        _ => Outcome::Refused,
    }
}

/// Whether the request certainly did not leave this process: there was no connection, or it ended
/// while the request waited for it.
fn never_sent(status: &Status) -> bool {
    // hyper says this of requests that it hands back unsent, and of no others. Its error type is
    // not looked for because tonic does not show it.
    let handed_back = status.code() == Code::Cancelled
        && status.source().is_some()
        && status.message().starts_with("operation was canceled");
    handed_back || sources(status).any(<dyn StdError>::is::<ConnectError>)
}

/// The status and what caused it, without the "transport error" that tonic says of anything.
pub(super) fn words(status: &Status) -> String {
    let mut words: Vec<String> = Vec::new();
    let causes = sources(status).map(ToString::to_string);
    for text in std::iter::once(status.message().to_owned()).chain(causes) {
        let new = !text.is_empty() && !words.iter().any(|earlier| earlier.contains(&text));
        if new && text != "transport error" {
            words.push(text);
        }
    }
    if words.is_empty() { status.code().to_string() } else { words.join(": ") }
}

fn sources(status: &Status) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(status.source(), |&error| error.source())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn answers_of_etcd_are_told_apart() {
        let cases = [
            (Code::Unavailable, "etcdserver: no leader", Outcome::Undone),
            (
                Code::FailedPrecondition,
                "etcdserver: rpc not supported for learner",
                Outcome::Undone,
            ),
            (Code::Unavailable, "etcdserver: request timed out", Outcome::Unknown),
            (Code::Unavailable, "etcdserver: leader changed", Outcome::Unknown),
            (Code::Unavailable, "etcdserver: server stopped", Outcome::Unknown),
            (Code::Cancelled, "operation was canceled", Outcome::Unknown),
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted",
                Outcome::Compacted,
            ),
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision is a future revision",
                Outcome::FutureRevision,
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                Outcome::NoSpace,
            ),
            (Code::ResourceExhausted, "etcdserver: too many requests", Outcome::Refused),
            (
                Code::ResourceExhausted,
                "grpc: received message larger than max (2097201 vs. 2097152)",
                Outcome::TooLarge,
            ),
            (Code::InvalidArgument, "etcdserver: request is too large", Outcome::TooLarge),
            (
                Code::InvalidArgument,
                "etcdserver: too many operations in txn request",
                Outcome::Invalid,
            ),
            (Code::NotFound, "etcdserver: requested lease not found", Outcome::NoLease),
            (Code::InvalidArgument, "etcdserver: user name is empty", Outcome::Refused),
            (Code::PermissionDenied, "etcdserver: permission denied", Outcome::Refused),
            (Code::DataLoss, "etcdserver: corrupt cluster", Outcome::Refused),
            (Code::Unimplemented, "unknown service etcdserverpb.KV", Outcome::Undone),
        ];
        for (code, message, expected) in cases {
            assert_eq!(outcome(&Status::new(code, message)), expected, "{code:?} {message}");
        }
    }

    fn broken(code: Code, message: &str, source: impl StdError + Send + Sync + 'static) -> Status {
        let mut status = Status::new(code, message);
        status.set_source(Arc::new(source));
        status
    }

    #[test]
    fn only_what_never_left_this_process_counts_as_undone() {
        let io = || std::io::Error::other("connection reset");
        let refused = ConnectError(Box::new(io()));
        assert_eq!(outcome(&broken(Code::Unavailable, "tcp", refused)), Outcome::Undone);
        let handed_back = broken(Code::Cancelled, "operation was canceled", io());
        assert_eq!(outcome(&handed_back), Outcome::Undone);
        // With tonic's server half compiled in, this is what a stream looks like that etcd reset.
        let reset = broken(Code::Cancelled, "h2 protocol error: http2 error", io());
        assert_eq!(outcome(&reset), Outcome::Unknown);
        assert_eq!(outcome(&broken(Code::Unknown, "transport error", io())), Outcome::Unknown);
        assert_eq!(
            outcome(&broken(Code::OutOfRange, "has been compacted", io())),
            Outcome::Unknown
        );
    }

    #[test]
    fn a_failure_says_where_why_and_what_to_do() {
        let io = std::io::Error::other("connection reset");
        let failure = Failure::new("http://a", broken(Code::Unknown, "transport error", io));
        assert_eq!(failure.to_string(), "etcd at http://a: connection reset");

        let full = Status::resource_exhausted("etcdserver: mvcc: database space exceeded");
        let error = Error::from(Failure::new("http://a", full)).to_string();
        assert!(error.contains("database space exceeded"), "{error}");
        assert!(error.contains("--quota-backend-bytes"), "{error}");

        let down = Failure::new("http://b", Status::unavailable("down"));
        let failure =
            Failure::new("http://a", Status::unavailable("lost")).after([down.to_string()]);
        assert_eq!(failure.to_string(), "etcd at http://a: lost; etcd at http://b: down");
    }
}
