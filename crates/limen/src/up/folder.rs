//! Where a federation on one machine keeps its things.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// How often, and how long apart, it is tried to remove what something still writes to.
const TRIES: u32 = 40;
const APART: Duration = Duration::from_millis(50);

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
        let context = || format!("cannot write to the folder {}", path.display());
        let lock = OpenOptions::new().create(true).append(true).open(path.join("up.lock"));
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
        for name in ["kubeconfig", "up.json"] {
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
