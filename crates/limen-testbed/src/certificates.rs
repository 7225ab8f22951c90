//! The certificates of one counterpart: an authority that lives as long as the
//! start takes, and what it signs.
//!
//! Each counterpart has an authority of its own. A client that reached the wrong
//! server, because a port changed hands, is refused instead of answered.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};

/// What a client needs to be let in over TLS, as PEM text.
#[derive(Clone, Debug)]
pub struct ClientTls {
    /// The authority that signed the server's certificate.
    pub ca_pem: String,
    /// The client's certificate.
    pub cert_pem: String,
    /// The key of the client's certificate.
    pub key_pem: String,
}

/// A server's certificate and key, as PEM text.
pub(crate) struct ServingTls {
    pub(crate) cert_pem: String,
    pub(crate) key_pem: String,
}

/// The key that service account tokens are signed with, as PEM text.
pub(crate) struct SigningKey {
    pub(crate) private_pem: String,
    pub(crate) public_pem: String,
}

impl SigningKey {
    pub(crate) fn new() -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        Ok(Self { private_pem: key.serialize_pem(), public_pem: key.public_key_pem() })
    }
}

pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Ok(Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for a server on the loopback address.
    pub(crate) fn serving(&self) -> Result<ServingTls, rcgen::Error> {
        let names = ["127.0.0.1", "localhost"].map(String::from);
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = subject("localhost", None);
        // etcd's JSON gateway is a client of etcd itself, with this certificate.
        let usages = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let (cert_pem, key_pem) = self.sign(params, &usages)?;
        Ok(ServingTls { cert_pem, key_pem })
    }

    /// A certificate for a client; Kubernetes reads `user` and `group` from it.
    pub(crate) fn client(&self, user: &str, group: &str) -> Result<ClientTls, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(user, Some(group));
        let (cert_pem, key_pem) = self.sign(params, &[ExtendedKeyUsagePurpose::ClientAuth])?;
        Ok(ClientTls { ca_pem: self.pem(), cert_pem, key_pem })
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        usages: &[ExtendedKeyUsagePurpose],
    ) -> Result<(String, String), rcgen::Error> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages.to_vec();
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &self.issuer)?;
        Ok((cert.pem(), key.serialize_pem()))
    }
}

fn subject(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        subject.push(DnType::OrganizationName, organization);
    }
    subject
}
