//! Why a member did not do what it was asked, in words for a person.

use limen_api::why;

/// Why a member did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct MemberError {
    /// What kind of trouble it is.
    pub kind: MemberErrorKind,
    /// What a person reads.
    pub message: String,
}

/// What kind of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberErrorKind {
    /// It cannot be reached, or does not answer in time.
    Unreachable,
    /// It does not know who we are: the credential is wrong or has expired.
    Credential,
    /// It knows us, and does not let us.
    Forbidden,
    /// It does not take the object: invalid, over quota, or denied by a webhook.
    Rejected,
    /// Something of it is missing: the namespace, or the kind.
    Missing,
    /// It is in trouble itself, or asks us to slow down.
    Busy,
}

impl MemberError {
    /// Whether it may have been done all the same: nobody said that it was not.
    pub(crate) fn leaves_doubt(&self) -> bool {
        matches!(self.kind, MemberErrorKind::Unreachable | MemberErrorKind::Busy)
    }

    /// A request that took too long.
    pub(crate) fn timeout(seconds: u64) -> Self {
        let message = format!("no answer within {seconds} s");
        Self { kind: MemberErrorKind::Unreachable, message }
    }
}

impl From<kube::Error> for MemberError {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            let message = format!("it cannot be reached: {}", why(&error));
            return Self { kind: MemberErrorKind::Unreachable, message };
        };
        let (kind, what) = match status.code {
            401 => (
                MemberErrorKind::Credential,
                "the cluster does not accept the credential (wrong, expired or revoked); run limen join again",
            ),
            403 if status.message.contains("exceeded quota") => {
                (MemberErrorKind::Rejected, "over quota")
            }
            403 if status.message.contains("admission webhook") => {
                (MemberErrorKind::Rejected, "denied by a webhook")
            }
            403 => (MemberErrorKind::Forbidden, "the cluster does not allow it"),
            404 => (MemberErrorKind::Missing, "not there"),
            429 => (MemberErrorKind::Busy, "the cluster asks to slow down"),
            code if code >= 500 => (MemberErrorKind::Busy, "the cluster is in trouble"),
            _ => (MemberErrorKind::Rejected, "the cluster does not take it"),
        };
        Self { kind, message: format!("{what}: {}", status.message) }
    }
}
