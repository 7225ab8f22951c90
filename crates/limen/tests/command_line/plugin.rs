//! Shells, manuals, and kubectl, which calls `kubectl-limen` when somebody types `kubectl limen`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{err, limen, out};

/// A folder with limen in it under the name that kubectl looks for.
fn installed(folder: &Path) -> PathBuf {
    let plugin = folder.join("kubectl-limen");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_limen"), &plugin).unwrap();
    plugin
}

#[test]
fn as_a_plugin_it_calls_itself_what_people_type() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = installed(folder.path());
    let help = Command::new(&plugin).arg("--help").output().unwrap();
    assert!(out(&help).contains("Usage: kubectl limen <COMMAND>"), "{}", out(&help));
    let wrong = Command::new(&plugin).args(["drain"]).output().unwrap();
    assert!(err(&wrong).contains("Usage: kubectl limen drain"), "{}", err(&wrong));
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn scripts_for_kubemci_need_only_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("kubemci");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_limen"), &link).unwrap();
    let help = Command::new(&link).args(["create", "--help"]).output().unwrap();
    assert!(out(&help).contains("Usage: kubemci create"), "{}", out(&help));
    let failed = Command::new(&link)
        .args(["list", "--gcp-project=p", "--kubeconfig=/nonexistent/clusters.yaml"])
        .output()
        .unwrap();
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(err(&failed).contains("cannot read the kubeconfig /nonexistent"), "{failed:?}");
}

#[cfg(feature = "e2e")]
#[tokio::test]
async fn kubectl_finds_and_runs_it() {
    let folder = tempfile::tempdir().unwrap();
    installed(folder.path());
    let kubectl = limen_testbed::kubectl_binary().await.unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&kubectl);
        command.args(arguments).env("PATH", folder.path()).env("HOME", folder.path());
        command.env("KUBERC", "off").env_remove("KUBECONFIG").output().unwrap()
    };
    let listed = run(&["plugin", "list"]);
    assert!(out(&listed).contains("kubectl-limen"), "{listed:?}");
    let version = run(&["limen", "version", "-o", "name"]);
    assert_eq!(out(&version).trim(), env!("CARGO_PKG_VERSION"), "{version:?}");
    let help = run(&["limen", "clusters", "--help"]);
    assert!(out(&help).contains("Usage: kubectl limen clusters"), "{help:?}");
    let failed = run(&["limen", "clusters", "--kubeconfig", "/nonexistent/kubeconfig"]);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
}

#[test]
fn shells_can_complete_every_command() {
    for (shell, sign) in
        [("bash", "complete -F"), ("zsh", "#compdef limen"), ("fish", "complete -c limen")]
    {
        let printed = limen(&["completion", shell]).output().unwrap();
        let text = out(&printed);
        assert!(printed.status.success() && text.contains(sign), "{shell}: {text}");
        for word in ["undrain", "placement", "remove-clusters", "kubecontexts"] {
            assert!(text.contains(word), "{shell} does not know {word}");
        }
    }
}

#[test]
fn bash_takes_its_completion() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("limen.bash");
    let printed = limen(&["completion", "bash"]).output().unwrap();
    std::fs::write(&file, &printed.stdout).unwrap();
    let script = format!(
        "source {}; COMP_WORDS=(limen explain p); COMP_CWORD=2; _limen limen p explain; echo \"${{COMPREPLY[@]}}\"",
        file.display()
    );
    // Not every machine has it.
    let Ok(completed) = Command::new("bash").args(["--norc", "-c", &script]).output() else {
        return;
    };
    assert_eq!(out(&completed).trim(), "placement", "{completed:?}");
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let written = limen(&["man", pages.to_str().unwrap()]).output().unwrap();
    assert!(written.status.success(), "{written:?}");
    for name in
        ["limen", "limen-drain", "limen-explain-traffic", "limen-ingress-create", "limen-doctor"]
    {
        let page = std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".TH ") && page.contains("Example"), "{name}: {page}");
    }
}
