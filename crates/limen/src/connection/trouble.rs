//! Why a hub does not answer, in one line that says what to do.

use std::error::Error;
use std::io;

use rustls::CertificateError;

/// Whom we wanted to talk to.
pub(super) struct Place<'a> {
    pub(super) url: &'a str,
    /// Where the address comes from.
    pub(super) kubeconfig: &'a str,
}

/// What can be the matter.
#[derive(Debug, PartialEq, Eq)]
enum Matter {
    /// Nobody is there.
    Nobody(String),
    /// Somebody else is there.
    Stranger(String),
    /// The certificate of whoever is there has ended.
    Expired,
    /// The hub does not take the credential.
    Unknown,
    /// Something else.
    Other(String),
}

/// Nobody has said anything for too long.
pub(super) fn silence(at: &Place<'_>) -> String {
    say(at, Matter::Nobody("it is silent".to_owned()))
}

/// Why a request to a hub failed.
pub(super) fn explain(at: &Place<'_>, error: &kube::Error) -> String {
    say(at, matter(error))
}

fn matter(error: &kube::Error) -> Matter {
    if let kube::Error::Api(status) = error {
        return match status.code {
            401 => Matter::Unknown,
            _ => Matter::Other(status.message.clone()),
        };
    }
    let mut last: &(dyn Error + 'static) = error;
    let mut nobody = None;
    while let Some(cause) = cause(last) {
        last = cause;
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return match tls {
                rustls::Error::InvalidCertificate(
                    CertificateError::Expired | CertificateError::ExpiredContext { .. },
                ) => Matter::Expired,
                tls => Matter::Stranger(tls.to_string()),
            };
        }
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            nobody = Some(Matter::Nobody(io.to_string()));
        }
    }
    nobody.unwrap_or_else(|| Matter::Other(last.to_string()))
}

/// What is behind an error. What an I/O error holds is not its source, and yet behind it.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    match held {
        Some(held) => Some(held),
        None => error.source(),
    }
}

fn say(Place { url, kubeconfig }: &Place<'_>, matter: Matter) -> String {
    match matter {
        Matter::Nobody(why) => format!(
            "no hub answers at {url} ({why}), which {kubeconfig} names; start the hub again (limen up, limen hub), or give --kubeconfig of one that runs: each writes its own"
        ),
        Matter::Stranger(why) => format!(
            "what answers at {url} is not the hub that {kubeconfig} was written for ({why}): it is of an old run; take the kubeconfig that the running hub has written (limen up prints where, limen hub keeps it in its --data-dir)"
        ),
        Matter::Expired => format!(
            "the certificate of the hub at {url}, which {kubeconfig} names, has expired; restart limen hub, which makes a new one, or renew it if it is yours"
        ),
        Matter::Unknown => format!(
            "the hub at {url} does not know the credential in {kubeconfig}: it has expired, or is of an old run; take the kubeconfig that the hub has written, or ask whoever runs it for a new one"
        ),
        Matter::Other(why) => {
            format!("the hub at {url}, which {kubeconfig} names, does not answer as one: {why}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(error: io::Error) -> kube::Error {
        kube::Error::Service(Box::new(error))
    }

    #[test]
    fn each_kind_of_trouble_has_its_own_advice() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let issuer = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let expired = rustls::Error::InvalidCertificate(CertificateError::Expired);
        let expired = io::Error::other(io::Error::other(expired));
        let unknown = kube::core::Status {
            code: 401,
            message: "Unauthorized".to_owned(),
            ..kube::core::Status::default()
        };
        let at = Place { url: "https://127.0.0.1:1", kubeconfig: "demo/kubeconfig" };
        for (error, words) in [
            (
                service(refused),
                ["no hub answers at https://127.0.0.1:1 (connection refused)", "limen up"],
            ),
            (service(io::Error::other(issuer)), ["is not the hub that demo/kubeconfig", "old run"]),
            (service(expired), ["has expired", "restart limen hub"]),
            (kube::Error::Api(Box::new(unknown)), ["does not know the credential", "a new one"]),
        ] {
            let said = explain(&at, &error);
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}
