//! Where the binaries are.
//!
//! `KUBEBUILDER_ASSETS` names the folder, as for every tool built on envtest.
//! Without it, `tools/kube-assets --where` is asked: that script builds the
//! binaries, and is the one place that knows their versions.

use std::{
    env,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tokio::process::Command;

use crate::Error;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/kube-assets");

/// The folder of the binaries; whether anything is in it is not known yet.
pub(crate) struct Assets {
    folder: PathBuf,
}

impl Assets {
    pub(crate) async fn locate() -> Result<Self, Error> {
        let folder = match env::var_os("KUBEBUILDER_ASSETS") {
            Some(folder) if !folder.is_empty() => PathBuf::from(folder),
            _ => ask_script(Path::new(SCRIPT)).await?,
        };
        Ok(Self { folder })
    }

    pub(crate) fn binary(&self, binary: &'static str) -> Result<PathBuf, Error> {
        let path = self.folder.join(binary);
        let executable = path
            .metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
        if executable {
            Ok(path)
        } else {
            Err(Error::MissingBinary { binary, folder: self.folder.clone() })
        }
    }
}

/// Where kubectl is, for tests that bring a cluster of their own.
pub async fn kubectl_binary() -> Result<PathBuf, Error> {
    Assets::locate().await?.binary("kubectl")
}

async fn ask_script(script: &Path) -> Result<PathBuf, Error> {
    let failed = |reason| Error::LocateAssets { script: script.to_owned(), reason };
    let answer = Command::new(script)
        .arg("--where")
        .output()
        .await
        .map_err(|error| failed(error.to_string()))?;
    if !answer.status.success() {
        return Err(failed(String::from_utf8_lossy(&answer.stderr).trim().to_owned()));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim_end()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn missing_binary_is_named_with_its_folder_and_the_way_to_get_it() {
        let folder = tempfile::tempdir().unwrap();
        let assets = Assets { folder: folder.path().to_owned() };

        let error = assets.binary("kube-apiserver").unwrap_err();

        assert_eq!(
            error.to_string(),
            format!(
                "no executable kube-apiserver in {}: run tools/kube-assets to build it, \
                 or set KUBEBUILDER_ASSETS to a folder that has it",
                folder.path().display()
            )
        );
    }

    #[test]
    fn file_that_cannot_be_executed_is_no_binary() {
        let folder = tempfile::tempdir().unwrap();
        let assets = Assets { folder: folder.path().to_owned() };
        let path = folder.path().join("etcd");

        fs::write(&path, "").unwrap();
        assert!(assets.binary("etcd").is_err());

        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(assets.binary("etcd").unwrap(), path);
    }

    #[tokio::test]
    async fn script_that_is_not_there_points_to_the_variable() {
        let error = ask_script(Path::new("/nowhere/kube-assets")).await.unwrap_err();

        let text = error.to_string();
        assert!(text.contains("/nowhere/kube-assets"), "{text}");
        assert!(text.contains("set KUBEBUILDER_ASSETS"), "{text}");
    }

    #[tokio::test]
    async fn script_of_this_repository_answers_with_a_folder() {
        let folder = ask_script(Path::new(SCRIPT)).await.unwrap();

        assert!(folder.is_absolute(), "{}", folder.display());
    }
}
