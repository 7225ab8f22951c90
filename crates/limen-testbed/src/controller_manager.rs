//! The command line of kube-controller-manager.

use std::path::Path;

use crate::folder::Folder;

pub(crate) const NAME: &str = "kube-controller-manager";

/// The arguments that do not depend on the port. The certificates are those
/// that the API server's arguments have written.
pub(crate) fn args(folder: &Folder, kubeconfig: &Path, controllers: &str) -> Vec<String> {
    let file = |name| folder.file(name).display().to_string();
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--root-ca-file={}", file("ca.crt")),
        format!("--service-account-private-key-file={}", file("service-accounts.key")),
        format!("--tls-cert-file={}", file("serving.crt")),
        format!("--tls-private-key-file={}", file("serving.key")),
        format!("--controllers={controllers}"),
        "--bind-address=127.0.0.1".into(),
        // It is the only one; an election would only delay it.
        "--leader-elect=false".into(),
    ]
}
