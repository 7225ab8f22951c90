//! `limen hub` as a process.

use std::path::Path;

use kube::Client;

use crate::process::Process;

/// A hub that keeps its things in a folder.
pub(crate) fn hub(folder: &Path) -> Process {
    let folder = folder.to_str().unwrap();
    Process::start(&["hub", "--data-dir", folder, "--listen", "127.0.0.1:0"])
}

/// A client of the hub that keeps its things in a folder.
pub(crate) async fn client(folder: &Path) -> Client {
    Client::try_from(limen_testbed::config_of(&folder.join("kubeconfig")).await).unwrap()
}
