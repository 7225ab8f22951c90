//! `limen hub` as a process.

use std::path::Path;

use kube::Client;

use crate::process::{Process, free_port};

/// A hub that keeps its things in a folder.
pub(crate) fn hub(folder: &Path) -> Process {
    let listen = format!("127.0.0.1:{}", free_port());
    Process::start(&["hub", "--data-dir", folder.to_str().unwrap(), "--listen", &listen])
}

/// A client of the hub that keeps its things in a folder.
pub(crate) async fn client(folder: &Path) -> Client {
    Client::try_from(limen_testbed::config_of(&folder.join("kubeconfig")).await).unwrap()
}
