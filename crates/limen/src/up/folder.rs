//! Where a federation on one machine keeps its things.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// How often, and how long apart, it is tried to remove what something still writes to.
const TRIES: u32 = 40;
const APART: Duration = Duration::from_millis(50);

/// Who holds it has the folder; it stays there when the process ends.
const LOCK: &str = "up.lock";
/// What is written into the folder for others to read.
const WRITTEN: [&str; 2] = ["kubeconfig", "up.json"];

/// A folder that belongs to this process while it runs.
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
    /// Removes the folder when it is dropped, whatever the reason.
    temporary: bool,
}

impl Folder {
    /// The folder of that name, or a new one that goes when the process does.
    pub(crate) fn open(named: Option<&Path>) -> Result<Self> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => std::env::temp_dir().join(format!("limen-up-{}", std::process::id())),
        };
        let context = || format!("cannot use the folder {}", path.display());
        std::fs::create_dir_all(&path).with_context(context)?;
        let path = std::path::absolute(&path).with_context(context)?;
        refuse_anothers(&path)?;
        let context = || format!("cannot write to the folder {}", path.display());
        let lock = OpenOptions::new().create(true).append(true).open(path.join(LOCK));
        let lock = lock.with_context(context)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(
                "another limen up runs on the folder {}; stop it, or choose another --data-dir",
                path.display()
            ),
            Err(TryLockError::Error(error)) => return Err(error).with_context(context),
        }
        // Whoever waits for these shall not take those of an old run for ours.
        for name in WRITTEN {
            match std::fs::remove_file(path.join(name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).with_context(context);
                }
                _ => {}
            }
        }
        Ok(Self { path, _lock: lock, temporary: named.is_none() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Refuses a folder where something else keeps files of our names: where no `limen up` has been, they
/// are not ours to replace.
fn refuse_anothers(path: &Path) -> Result<()> {
    let there = |name: &&str| path.join(name).symlink_metadata().is_ok();
    if there(&LOCK) {
        return Ok(());
    }
    match WRITTEN.iter().find(|name| there(name)) {
        None => Ok(()),
        Some(name) => bail!(
            "the folder {} has a {name} that no limen up has written; choose another --data-dir, or move that file away",
            path.display()
        ),
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.temporary {
            // When the start was interrupted, threads that are about to end may write still.
            let mut removed = std::fs::remove_dir_all(&self.path);
            for _ in 1..TRIES {
                match &removed {
                    Err(error) if error.kind() != ErrorKind::NotFound => {}
                    _ => return,
                }
                std::thread::sleep(APART);
                removed = std::fs::remove_dir_all(&self.path);
            }
            if let Err(error) = removed {
                tracing::warn!(%error, "cannot remove {}", self.path.display());
            }
        } else {
            // What it says is not true any more.
            let _ = std::fs::remove_file(self.path.join("up.json"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Folder;

    #[test]
    fn a_kubeconfig_of_somebody_else_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, "mine").unwrap();
        let Err(refused) = Folder::open(Some(folder.path())) else { panic!("it was taken") };
        assert!(refused.to_string().contains("choose another --data-dir"), "{refused}");
        // Asked again, it is still not ours.
        assert!(Folder::open(Some(folder.path())).is_err());
        assert_eq!(std::fs::read_to_string(&kubeconfig).unwrap(), "mine");
    }

    #[test]
    fn what_a_former_run_has_written_goes() {
        let folder = tempfile::tempdir().unwrap();
        drop(Folder::open(Some(folder.path())).unwrap());
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, "of the former run").unwrap();
        let _taken = Folder::open(Some(folder.path())).unwrap();
        assert!(!kubeconfig.exists());
    }
}
