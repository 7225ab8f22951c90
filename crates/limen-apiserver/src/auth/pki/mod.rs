//! The server's own certificates and keys, made on its first start and kept in its data folder.
//!
//! ```text
//!   DIR/pki/ca.crt, ca.key                the authority; never replaced
//!   DIR/pki/serving.crt, serving.key      signed by it; renewed when it ages or its names change
//!   DIR/pki/admin.crt, admin.key          signed by it; renewed when it ages
//!   DIR/pki/service-accounts.key          signs tokens; never replaced
//!   DIR/kubeconfig                        for the admin
//! ```
//!
//! [`Pki::open`] is all there is to it. A certificate counts only together with its key: of each
//! pair the key is written first, so a start that was cut short leaves at most a key without a
//! certificate, which the next start makes use of. An authority whose key is gone is not
//! replaced, since every client would be locked out; the error says what to do.

mod certificates;
mod files;
mod kubeconfig;

pub(crate) use certificates::ServingNames;
pub(crate) use kubeconfig::{KubeconfigNames, kubeconfig};

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};

use super::jwt::SigningKey;
use certificates::{Authority, LeafKind, PemPair};
use files::Folder;

/// All certificates and keys of a server.
#[derive(Debug)]
pub(crate) struct Pki {
    ca_pem: String,
    serving: PemPair,
    admin: PemPair,
    signing_key_pem: files::Secret,
    folder: PathBuf,
}

/// Why there are no certificates. The message says which file it is about and what to do.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file or folder could not be read or written.
    #[error("cannot {step} {}: {source}; check that the disk has room and that this user may write there", path.display())]
    File {
        /// What was tried.
        step: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What went wrong.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{} cannot be used: {why}; restore it from a backup, or delete it to have a new one made", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The authority is incomplete or unusable.
    #[error(
        "{} cannot be used: {why}; restore it from a backup, or delete the folder {} to start with a new authority (every client then needs a new kubeconfig)",
        path.display(), folder.display()
    )]
    Authority {
        /// The file.
        path: PathBuf,
        /// The folder of all certificates.
        folder: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A name or address cannot be in a certificate, or no key could be made.
    #[error("cannot make a certificate for {subject}: {source}")]
    Make {
        /// Whom it was for.
        subject: String,
        /// What went wrong.
        source: rcgen::Error,
    },
}

impl Pki {
    /// Reads what is in `folder`, and makes what is missing, has aged, or is for other names.
    pub(crate) fn open(
        folder: &Path,
        names: &ServingNames,
        now: Timestamp,
    ) -> Result<Self, PkiError> {
        let files = Folder::create(folder)?;
        let authority = open_authority(&files, now)?;
        let serving = open_leaf(&files, &authority, &LeafKind::Serving(names), now)?;
        let admin = open_leaf(&files, &authority, &LeafKind::Admin, now)?;
        let signing_key_pem = open_signing_key(&files)?;
        Ok(Self {
            ca_pem: authority.pem().to_owned(),
            serving,
            admin,
            signing_key_pem,
            folder: folder.to_owned(),
        })
    }

    /// The authority's certificate.
    pub(crate) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The serving certificate and its key.
    pub(crate) fn serving(&self) -> (&str, &str) {
        self.serving.expose()
    }

    /// The admin's certificate and its key.
    pub(crate) fn admin(&self) -> (&str, &str) {
        self.admin.expose()
    }

    /// The key that tokens are signed with.
    pub(crate) fn signing_key(&self) -> Result<SigningKey, PkiError> {
        read_signing_key(&self.signing_key_pem)
            .map_err(|why| unusable(&self.folder.join("service-accounts.key"), why))
    }

    /// Writes the admin's kubeconfig for the API at `url` to `path`, unless it is there already.
    pub(crate) fn write_kubeconfig(
        &self,
        path: &Path,
        url: &str,
        names: &KubeconfigNames<'_>,
    ) -> Result<(), PkiError> {
        let (certificate, key) = self.admin();
        let text = kubeconfig(url, names, &self.ca_pem, certificate, key);
        let folder = path.parent().unwrap_or(Path::new("."));
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or("kubeconfig");
        let folder = Folder::create(folder)?;
        if folder.read_secret(file)?.is_some_and(|there| there.expose() == text) {
            return Ok(());
        }
        folder.write_secret(file, &text)
    }
}

fn open_authority(files: &Folder, now: Timestamp) -> Result<Authority, PkiError> {
    let unusable = |file: &str, why: String| PkiError::Authority {
        path: files.path(file),
        folder: files.path(""),
        why,
    };
    match (files.read("ca.crt")?, files.read_secret("ca.key")?) {
        (Some(certificate), Some(key)) => {
            Authority::read(&certificate, key.expose(), now).map_err(|why| unusable("ca.crt", why))
        }
        (Some(_), None) => Err(unusable("ca.key", "it is missing".to_owned())),
        // Nothing was signed yet: the certificate is written last.
        (None, _) => {
            let (authority, key) = Authority::make(now)
                .map_err(|source| PkiError::Make { subject: "the authority".into(), source })?;
            files.write_secret("ca.key", &key)?;
            files.write("ca.crt", authority.pem())?;
            Ok(authority)
        }
    }
}

fn open_leaf(
    files: &Folder,
    authority: &Authority,
    kind: &LeafKind<'_>,
    now: Timestamp,
) -> Result<PemPair, PkiError> {
    let (certificate_file, key_file) = kind.files();
    let key = files.read_secret(key_file)?;
    if let (Some(certificate), Some(key)) = (files.read(certificate_file)?, &key)
        && authority.still_good(&certificate, key.expose(), kind, now)
    {
        return Ok(PemPair::new(certificate, key.expose()));
    }
    let made = authority
        .issue(key.as_ref().map(files::Secret::expose), kind, now)
        .map_err(|source| PkiError::Make { subject: certificate_file.to_owned(), source })?;
    let (certificate_pem, key_pem) = made.expose();
    if key.is_none_or(|key| key.expose() != key_pem) {
        files.write_secret(key_file, key_pem)?;
    }
    files.write(certificate_file, certificate_pem)?;
    Ok(made)
}

fn open_signing_key(files: &Folder) -> Result<files::Secret, PkiError> {
    let file = "service-accounts.key";
    if let Some(pem) = files.read_secret(file)? {
        read_signing_key(&pem).map_err(|why| unusable(&files.path(file), why))?;
        return Ok(pem);
    }
    let pem = rcgen::KeyPair::generate()
        .map_err(|source| PkiError::Make { subject: file.to_owned(), source })?
        .serialize_pem();
    files.write_secret(file, &pem)?;
    Ok(files::Secret::new(pem))
}

fn read_signing_key(pem: &files::Secret) -> Result<SigningKey, String> {
    let der = PrivateKeyDer::from_pem_slice(pem.expose().as_bytes())
        .map_err(|_| "it holds no private key in PEM form".to_owned())?;
    SigningKey::from_pkcs8(der.secret_der()).map_err(|error| error.to_string())
}

fn unusable(path: &Path, why: String) -> PkiError {
    PkiError::Unusable { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests;
