//! The folder of one counterpart: its certificates, logs and data, readable by
//! us only and gone with it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::Error;

pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Result<Self, Error> {
        tempfile::Builder::new()
            .prefix("limen-testbed-")
            .tempdir()
            .map(Self)
            .map_err(|source| Error::WriteFile { path: std::env::temp_dir(), source })
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file and returns `flag=path`, ready for a command line.
    pub(crate) fn flag(&self, flag: &str, name: &str, text: &str) -> Result<String, Error> {
        let path = self.write(name, text)?;
        Ok(format!("{flag}={}", path.display()))
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        let path = self.file(name);
        match fs::write(&path, text) {
            Ok(()) => Ok(path),
            Err(source) => Err(Error::WriteFile { path, source }),
        }
    }
}
