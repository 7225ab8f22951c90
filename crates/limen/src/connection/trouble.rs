//! Why a hub does not answer, in one line that says what to do.

use std::error::Error;
use std::io;

use rustls::CertificateError;

/// Whom we wanted to talk to.
pub(super) struct Place<'a> {
    pub(super) whom: Whom,
    pub(super) url: &'a str,
    /// Where the address comes from.
    pub(super) kubeconfig: &'a str,
}

/// Whose API server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    /// That of a hub.
    Hub,
    /// That of a cluster that is no hub, or not yet.
    Cluster,
}

/// What can be the matter.
#[derive(Debug, PartialEq, Eq)]
enum Matter {
    /// Nobody is there.
    Nobody(String),
    /// Somebody else is there.
    Stranger(String),
    /// The certificate of whoever is there is for other names.
    OtherName(String),
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
                rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName
                    | CertificateError::NotValidForNameContext { .. },
                ) => Matter::OtherName(tls.to_string()),
                tls => Matter::Stranger(tls.to_string()),
            };
        }
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            nobody = Some(Matter::Nobody(io.to_string()));
        }
    }
    nobody.unwrap_or_else(|| Matter::Other(limen_api::error_text(error)))
}

/// What is behind an error. What an I/O error holds is not its source, and yet behind it.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    match held {
        Some(held) => Some(held),
        None => error.source(),
    }
}

fn say(Place { whom, url, kubeconfig }: &Place<'_>, matter: Matter) -> String {
    let (it, start, take, restart, name) = match whom {
        Whom::Hub => (
            "hub",
            "start the hub again (limen up, limen hub), or give --kubeconfig of one that runs: each writes its own",
            "take the kubeconfig that the running hub has written (limen up prints where, limen hub keeps it in its --data-dir)",
            "restart limen hub, which makes a new one, or renew it if it is yours",
            "start limen hub with --tls-san for each name that clients use",
        ),
        Whom::Cluster => (
            "cluster",
            "see whether its API runs and can be reached from here, or give another --kubeconfig or --context",
            "get a new kubeconfig from whoever runs the cluster",
            "let whoever runs the cluster renew it",
            "use an address that it is for, or tls-server-name in the kubeconfig",
        ),
    };
    match matter {
        Matter::Nobody(why) => {
            format!("no {it} answers at {url} ({why}), which {kubeconfig} names; {start}")
        }
        Matter::Stranger(why) => format!(
            "what answers at {url} is not the {it} that {kubeconfig} was written for ({why}): it is of an old run; {take}"
        ),
        Matter::OtherName(why) => format!(
            "the certificate of the {it} at {url}, which {kubeconfig} names, is for other names ({why}); {name}"
        ),
        Matter::Expired => format!(
            "the certificate of the {it} at {url}, which {kubeconfig} names, has expired; {restart}"
        ),
        Matter::Unknown => format!(
            "the {it} at {url} does not know the credential in {kubeconfig}: it has expired, or is of an old run; {take}, or ask whoever runs it for a new one"
        ),
        Matter::Other(why) => {
            format!("the {it} at {url}, which {kubeconfig} names, does not answer as one: {why}")
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
        let name = rustls::Error::InvalidCertificate(CertificateError::NotValidForName);
        let expired = io::Error::other(io::Error::other(expired));
        let unknown = kube::core::Status {
            code: 401,
            message: "Unauthorized".to_owned(),
            ..kube::core::Status::default()
        };
        let (url, kubeconfig) = ("https://127.0.0.1:1", "demo/kubeconfig");
        let at = Place { whom: Whom::Hub, url, kubeconfig };
        for (error, words) in [
            (
                service(refused),
                ["no hub answers at https://127.0.0.1:1 (connection refused)", "limen up"],
            ),
            (service(io::Error::other(issuer)), ["is not the hub that demo/kubeconfig", "old run"]),
            (service(io::Error::other(name)), ["is for other names", "--tls-san"]),
            (service(expired), ["has expired", "restart limen hub"]),
            (kube::Error::Api(Box::new(unknown)), ["does not know the credential", "a new one"]),
        ] {
            let said = explain(&at, &error);
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}
