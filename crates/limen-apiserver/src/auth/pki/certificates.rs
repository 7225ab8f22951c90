//! Making certificates, and judging whether one is still good. No files here.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::files::Secret;
use crate::auth::MASTERS;

const DAY: SignedDuration = SignedDuration::from_hours(24);
const AUTHORITY_DAYS: i32 = 10 * 365;
const LEAF_DAYS: i32 = 365;
/// A certificate with less time than this is replaced.
const RENEW_DAYS: i32 = 60;
const ADMIN: &str = "kubernetes-admin";

/// Under which names and addresses clients reach the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServingNames {
    names: BTreeSet<String>,
}

impl ServingNames {
    /// The names that every server has, with the address it listens on and any others.
    pub(crate) fn new(listen: IpAddr, others: impl IntoIterator<Item = String>) -> Self {
        let fixed = [
            "localhost",
            "127.0.0.1",
            "::1",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ];
        let mut names: BTreeSet<String> = fixed.map(str::to_owned).into();
        // Nobody connects to "every address".
        if !listen.is_unspecified() {
            names.insert(listen.to_string());
        }
        for other in others {
            // One form for each address, so that it can be compared with what is in a certificate.
            let address: Result<IpAddr, _> = other.parse();
            names.insert(address.map_or(other, |address| address.to_string()));
        }
        Self { names }
    }
}

/// What a certificate is for.
pub(super) enum LeafKind<'a> {
    Serving(&'a ServingNames),
    Admin,
}

impl LeafKind<'_> {
    pub(super) fn files(&self) -> (&'static str, &'static str) {
        match self {
            Self::Serving(_) => ("serving.crt", "serving.key"),
            Self::Admin => ("admin.crt", "admin.key"),
        }
    }

    fn params(&self) -> Result<CertificateParams, rcgen::Error> {
        let (mut params, usage) = match self {
            Self::Serving(names) => {
                let names: Vec<String> = names.names.iter().cloned().collect();
                let mut params = CertificateParams::new(names)?;
                params.distinguished_name = subject("kube-apiserver", None);
                (params, ExtendedKeyUsagePurpose::ServerAuth)
            }
            Self::Admin => {
                let mut params = CertificateParams::default();
                params.distinguished_name = subject(ADMIN, Some(MASTERS));
                (params, ExtendedKeyUsagePurpose::ClientAuth)
            }
        };
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        Ok(params)
    }
}

/// A certificate and its key, as PEM text.
#[derive(Clone, Debug)]
pub(super) struct PemPair {
    certificate: String,
    key: Secret,
}

impl PemPair {
    pub(super) fn new(certificate: String, key: &str) -> Self {
        Self { certificate, key: Secret::new(key.to_owned()) }
    }

    pub(super) fn expose(&self) -> (&str, &str) {
        (&self.certificate, self.key.expose())
    }
}

/// What signs all certificates.
pub(super) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority and its key.
    pub(super) fn make(now: Timestamp) -> Result<(Self, String), rcgen::Error> {
        let mut params = CertificateParams::default();
        // Two authorities must not look alike to a client that holds both.
        let name = format!("limen-ca@{}", now.as_second());
        params.distinguished_name = subject(&name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        set_validity(&mut params, now, AUTHORITY_DAYS);
        let key = KeyPair::generate()?;
        let key_pem = key.serialize_pem();
        let pem = params.self_signed(&key)?.pem();
        Ok((Self { pem, issuer: Issuer::new(params, key) }, key_pem))
    }

    /// The authority that was made before.
    pub(super) fn read(pem: &str, key_pem: &str, now: Timestamp) -> Result<Self, String> {
        let key = KeyPair::from_pem(key_pem)
            .map_err(|_| "its key file holds no private key in PEM form".to_owned())?;
        let der = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| "it holds no certificate in PEM form".to_owned())?;
        let (_, certificate) = X509Certificate::from_der(&der)
            .map_err(|_| "it holds no certificate that can be read".to_owned())?;
        if certificate.public_key().raw != key.subject_public_key_info() {
            return Err("its key file belongs to another certificate".to_owned());
        }
        if !certificate.is_ca() {
            return Err("it is not the certificate of an authority".to_owned());
        }
        if certificate.validity().not_after.timestamp() < now.as_second() {
            return Err("it has expired".to_owned());
        }
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(|error| error.to_string())?;
        Ok(Self { pem: pem.to_owned(), issuer })
    }

    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    /// A new certificate; for the given key if it can be read, else for a new one.
    pub(super) fn issue(
        &self,
        key_pem: Option<&str>,
        kind: &LeafKind<'_>,
        now: Timestamp,
    ) -> Result<PemPair, rcgen::Error> {
        let key = match key_pem.map(KeyPair::from_pem) {
            Some(Ok(key)) => key,
            _ => KeyPair::generate()?,
        };
        let mut params = kind.params()?;
        set_validity(&mut params, now, LEAF_DAYS);
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(PemPair::new(certificate.pem(), &key.serialize_pem()))
    }

    /// Whether a certificate is signed by this authority, for this key and these names, and has
    /// time left.
    pub(super) fn still_good(
        &self,
        pem: &str,
        key_pem: &str,
        kind: &LeafKind<'_>,
        now: Timestamp,
    ) -> bool {
        let Ok(key) = KeyPair::from_pem(key_pem) else { return false };
        let Ok(der) = CertificateDer::from_pem_slice(pem.as_bytes()) else { return false };
        let Ok((_, certificate)) = X509Certificate::from_der(&der) else { return false };
        let Ok(ca_der) = CertificateDer::from_pem_slice(self.pem.as_bytes()) else { return false };
        let Ok((_, ca)) = X509Certificate::from_der(&ca_der) else { return false };
        let validity = certificate.validity();
        let renewal = now.as_second() + DAY.as_secs() * i64::from(RENEW_DAYS);
        let right_names = match kind {
            LeafKind::Serving(names) => {
                names_in(&certificate).is_some_and(|in_it| in_it == names.names)
            }
            LeafKind::Admin => true,
        };
        certificate.verify_signature(Some(ca.public_key())).is_ok()
            && certificate.issuer() == ca.subject()
            && certificate.public_key().raw == key.subject_public_key_info()
            && validity.not_before.timestamp() <= now.as_second()
            && validity.not_after.timestamp() > renewal
            && right_names
    }
}

fn names_in(certificate: &X509Certificate<'_>) -> Option<BTreeSet<String>> {
    let names = certificate.subject_alternative_name().ok()??;
    let mut found = BTreeSet::new();
    for name in &names.value.general_names {
        found.insert(match name {
            GeneralName::DNSName(name) => (*name).to_owned(),
            GeneralName::IPAddress(bytes) => match <[u8; 4]>::try_from(*bytes) {
                Ok(v4) => IpAddr::from(v4).to_string(),
                Err(_) => IpAddr::from(<[u8; 16]>::try_from(*bytes).ok()?).to_string(),
            },
            _ => return None,
        });
    }
    Some(found)
}

/// From yesterday, since clocks differ, for so many days.
fn set_validity(params: &mut CertificateParams, now: Timestamp, days: i32) {
    let day = |offset: i32| {
        let time = now.saturating_add(DAY * offset).unwrap_or(now);
        let date = time.to_zoned(TimeZone::UTC).date();
        let (month, day) = (date.month().unsigned_abs(), date.day().unsigned_abs());
        date_time_ymd(date.year().into(), month, day)
    };
    params.not_before = day(-1);
    params.not_after = day(days);
}

fn subject(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    if let Some(organization) = organization {
        subject.push(DnType::OrganizationName, organization);
    }
    subject.push(DnType::CommonName, common_name);
    subject
}
