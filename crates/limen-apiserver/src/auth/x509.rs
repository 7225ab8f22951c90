//! Client certificates: the subject's common name is the user, its organizations are the groups.
//!
//! Whether a certificate may be believed at all is decided in the TLS handshake; this only reads
//! one that was.

use std::fmt::Write;

use ring::digest::{SHA256, digest};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::identity::{CREDENTIAL_ID, Identity};

/// The part of a subject that holds the user's UID.
const UID_OID: &str = "1.3.6.1.4.1.57683.2";

/// The user that a verified certificate (DER) stands for; `None` if it names nobody.
pub(crate) fn certificate_identity(der: &[u8]) -> Option<Identity> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().last()?.as_str().ok()?;
    if name.is_empty() {
        return None;
    }
    let mut groups = Vec::new();
    for organization in subject.iter_organization() {
        groups.push(organization.as_str().ok()?.to_owned());
    }
    let uids: Vec<&str> = subject
        .iter_attributes()
        .filter(|attribute| attribute.attr_type().to_id_string() == UID_OID)
        .map(|attribute| attribute.as_str().unwrap_or_default())
        .collect();
    let uid = match uids[..] {
        [] => "",
        [uid] if !uid.is_empty() => uid,
        _ => return None,
    };
    let mut identity =
        Identity { name: name.to_owned(), groups, uid: uid.to_owned(), ..Identity::default() };
    identity.extra.insert(CREDENTIAL_ID.to_owned(), vec![fingerprint(der)]);
    Some(identity.authenticated())
}

/// When a certificate (DER) ends, in seconds since 1970.
pub(crate) fn certificate_end(der: &[u8]) -> Option<i64> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

fn fingerprint(der: &[u8]) -> String {
    let mut id = "X509SHA256=".to_owned();
    for byte in digest(&SHA256, der).as_ref() {
        let _ = write!(id, "{byte:02x}");
    }
    id
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(subject: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_subject_gives_the_user_and_the_group() {
        let der = certificate(&[
            (DnType::OrganizationName, "system:masters"),
            (DnType::CommonName, "ann"),
            (DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), "u-1"),
        ]);
        let identity = certificate_identity(&der).unwrap();
        assert_eq!(identity.name, "ann");
        assert_eq!(identity.groups, ["system:masters", "system:authenticated"]);
        assert_eq!(identity.uid, "u-1");
        assert!(identity.extra[CREDENTIAL_ID][0].starts_with("X509SHA256="));
        assert_eq!(identity.extra[CREDENTIAL_ID][0].len(), 11 + 64);
    }

    #[test]
    fn a_certificate_without_a_common_name_names_nobody() {
        assert_eq!(certificate_identity(&certificate(&[(DnType::OrganizationName, "dev")])), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_name_nobody(der in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(certificate_identity(&der), None);
        }
    }
}
