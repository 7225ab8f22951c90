//! Why a member did not do what it was asked, in words for a person.

use limen_api::error_text;

/// Why a member did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct MemberError {
    /// The kind of failure.
    pub kind: MemberErrorKind,
    /// The message for people.
    pub message: String,
}

/// The kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberErrorKind {
    /// It cannot be reached, or does not answer in time.
    Unreachable,
    /// It does not accept the credential: wrong or expired.
    Credential,
    /// The credential lacks the permission.
    Forbidden,
    /// It does not take the object: invalid, over quota, or denied by a webhook.
    Rejected,
    /// Something of it is missing: the namespace, or the kind.
    Missing,
    /// It fails by itself, or asks to slow down.
    Busy,
    /// Nothing was sent: this hub does not hold its lease. Not the member's failure.
    NotLeading,
}

/// A write that the fence did not let through.
#[derive(Debug, thiserror::Error)]
#[error("this hub no longer leads")]
pub(crate) struct NotLeading;

impl MemberError {
    /// Whether the request may have taken effect all the same.
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
        let status = match error {
            kube::Error::Api(status) => status,
            kube::Error::Service(cause) if cause.is::<NotLeading>() => {
                return Self { kind: MemberErrorKind::NotLeading, message: cause.to_string() };
            }
            error => {
                let message = format!("it cannot be reached: {}", error_text(&error));
                return Self { kind: MemberErrorKind::Unreachable, message };
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_fence_is_not_the_failure_of_the_member() {
        let error = MemberError::from(kube::Error::Service(Box::new(NotLeading)));
        assert_eq!(error.kind, MemberErrorKind::NotLeading);
        assert!(!error.leaves_doubt(), "nothing was sent");
    }
}
