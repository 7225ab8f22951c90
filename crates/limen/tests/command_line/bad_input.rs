//! What cannot be: one clear line each, what to do about it, and a failure.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use tempfile::TempDir;

use crate::{err, limen};

/// A hub without members, which ends with the test.
struct Hub {
    process: Child,
    folder: TempDir,
}

impl Hub {
    fn start(port: u16, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = limen(&["hub", "--listen", &format!("127.0.0.1:{port}"), "--data-dir"]);
        command.arg(folder.path()).args(arguments);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let hub = Self { process, folder };
        assert!(line.starts_with("The hub is ready"), "{line}");
        std::thread::spawn(move || output.read_to_string(&mut String::new()));
        hub
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Ends it, and leaves its folder.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Fails in one line that has these words.
fn refused(arguments: &[&str], kubeconfig: Option<&Path>, words: &[&str]) {
    let mut command = limen(arguments);
    command.stdin(Stdio::null());
    if let Some(kubeconfig) = kubeconfig {
        command.env("KUBECONFIG", kubeconfig);
    }
    let output = command.output().unwrap();
    let said = err(&output);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    assert!(said.starts_with("limen: "), "{arguments:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{arguments:?} says nothing of {word:?}: {said}");
    }
    assert_eq!(said.trim_end().lines().count(), 1, "{arguments:?}: {said}");
}

/// Commands that talk to a hub.
const ASKING: [&[&str]; 7] = [
    &["clusters"],
    &["status", "ingress/web"],
    &["release", "--all"],
    &["drain", "a"],
    &["undrain", "a"],
    &["explain", "placement", "ingress/web"],
    &["explain", "traffic", "shop.example"],
];

#[test]
fn no_kubeconfig_says_how_to_name_one() {
    for arguments in ASKING {
        refused(arguments, None, &["cannot tell which hub to talk to", "--kubeconfig"]);
        let missing = Path::new("/nonexistent/kubeconfig");
        refused(arguments, Some(missing), &["/nonexistent/kubeconfig", "No such file"]);
    }
}

#[test]
fn a_kubeconfig_that_is_none_or_lacks_the_context_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    std::fs::write(&file, "contexts: [{name: here, context: {cluster: c, user: u}}]").unwrap();
    let named = file.to_str().unwrap();
    let arguments = ["clusters", "--kubeconfig", named, "--context", "there"];
    refused(&arguments, None, &["has no context \"there\"; it has here"]);
    std::fs::write(&file, "a: [b").unwrap();
    refused(&["clusters"], Some(&file), &["cannot use the kubeconfig", named]);
}

#[test]
fn the_kubeconfig_of_a_hub_that_has_ended_is_said_to_be_that() {
    let port = free_port();
    let mut old = Hub::start(port, &["--api-only"]);
    old.kill();
    for arguments in ASKING {
        let words = ["no hub answers at https://127.0.0.1:", "limen up", "--kubeconfig"];
        refused(arguments, Some(&old.kubeconfig()), &words);
    }
    let gone = old.kubeconfig();
    let gone = gone.to_str().unwrap();
    let words = ["no cluster answers at https://127.0.0.1:", "give another --kubeconfig"];
    refused(&["hub", "--kubeconfig", gone], None, &words);
    // Another hub has its port now, and is not the one that the kubeconfig is of.
    let new = Hub::start(port, &["--api-only"]);
    for arguments in ASKING {
        refused(arguments, Some(&old.kubeconfig()), &["is of an old run", "take the kubeconfig"]);
    }
    let words = ["is not the cluster that", "get a new kubeconfig from whoever runs the cluster"];
    refused(&["join", "a", "--kubeconfig", gone], Some(&new.kubeconfig()), &words);
}

#[test]
fn somebody_without_rights_is_told_which_one_and_whom_to_ask() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "secret,ann,1\n").unwrap();
    let port = free_port();
    let hub = Hub::start(port, &["--token-auth-file", tokens.to_str().unwrap()]);
    let admin = std::fs::read_to_string(hub.kubeconfig()).unwrap();
    let authority = admin.lines().find(|line| line.contains("certificate-authority-data")).unwrap();
    let authority = authority.trim().trim_start_matches("- ").trim_start_matches("cluster:").trim();
    let kubeconfig = |token: &str| {
        let file = folder.path().join(format!("{token}.yaml"));
        let text = format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             users: [{{name: u, user: {{token: {token}}}}}]\nclusters:\n- name: c\n  cluster:\n    \
             server: https://127.0.0.1:{port}\n    {authority}\n"
        );
        std::fs::write(&file, text).unwrap();
        file
    };
    let ann = kubeconfig("secret");
    refused(&["clusters"], Some(&ann), &["User \"ann\" cannot list", "ask whoever runs the hub"]);
    refused(&["status", "ingress/web"], Some(&ann), &["User \"ann\" cannot list", "that right"]);
    let stranger = kubeconfig("guessed");
    refused(&["clusters"], Some(&stranger), &["does not know the credential", "a new one"]);
}

#[test]
fn folders_that_cannot_be_written_to_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let under = file.join("folder");
    let under = under.to_str().unwrap();
    refused(&["hub", "--data-dir", under], None, &["cannot make the folder", under]);
    refused(&["man", under], None, &["cannot write manual pages to", under]);
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/simulate/region-loss.yaml");
    refused(&["simulate", "-f", scenario, "--out", under], None, &["cannot write", under]);
}
