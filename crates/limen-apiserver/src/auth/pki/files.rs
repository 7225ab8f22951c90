//! Files that are either whole or not there.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::PkiError;

/// Text that must not be shown.
#[derive(Clone)]
pub(super) struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A folder of certificates and keys.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// The folder, which is made if it is not there.
    pub(super) fn create(path: &Path) -> Result<Self, PkiError> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        fs::create_dir_all(path).map_err(|source| failed("make the folder", path, source))?;
        Ok(Self(path.to_owned()))
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        if file.is_empty() { self.0.clone() } else { self.0.join(file) }
    }

    /// The text of a file; `None` if there is none.
    pub(super) fn read(&self, file: &str) -> Result<Option<String>, PkiError> {
        let path = self.path(file);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(failed("read", &path, source)),
        }
    }

    /// The text of a file that only this user should be able to read, and from then on is.
    pub(super) fn read_secret(&self, file: &str) -> Result<Option<Secret>, PkiError> {
        let Some(text) = self.read(file)? else { return Ok(None) };
        let path = self.path(file);
        let tighten = || {
            let mut permissions = fs::metadata(&path)?.permissions();
            if permissions.mode() & 0o077 != 0 {
                tracing::warn!(path = %path.display(), "a key was readable by others; now it is not");
                permissions.set_mode(0o600);
                fs::set_permissions(&path, permissions)?;
            }
            io::Result::Ok(())
        };
        tighten()
            .map_err(|source| failed("take away the permissions of others on", &path, source))?;
        Ok(Some(Secret(text)))
    }

    pub(super) fn write(&self, file: &str, text: &str) -> Result<(), PkiError> {
        self.replace(file, text, 0o644)
    }

    pub(super) fn write_secret(&self, file: &str, text: &str) -> Result<(), PkiError> {
        self.replace(file, text, 0o600)
    }

    /// Writes beside the file, then puts it in its place: a cut leaves the old file or the new.
    fn replace(&self, file: &str, text: &str, mode: u32) -> Result<(), PkiError> {
        let path = self.path(file);
        let beside = self.path(&format!("{file}.new"));
        let write = || {
            // A left-over may have other permissions, so it is not written into.
            match fs::remove_file(&beside) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut new =
                OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
            new.write_all(text.as_bytes())?;
            new.sync_all()?;
            fs::rename(&beside, &path)?;
            File::open(&self.0)?.sync_all()
        };
        write().map_err(|source| failed("write", &path, source))
    }
}

fn failed(step: &'static str, path: &Path, source: io::Error) -> PkiError {
    PkiError::File { step, path: path.to_owned(), source }
}
