//! kubectl, set up for one control plane.

use std::path::PathBuf;

use tokio::process::Command;

#[derive(Clone)]
pub(crate) struct Kubectl {
    pub(crate) binary: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    /// What it remembers about an API goes with that API, instead of into the
    /// home of whoever runs the test.
    pub(crate) cache: PathBuf,
}

impl Kubectl {
    /// The command, without anything to do yet.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(&self.cache)
            // Personal preferences may change the meaning of a command.
            .env("KUBERC", "off")
            .kill_on_drop(true);
        command
    }
}
