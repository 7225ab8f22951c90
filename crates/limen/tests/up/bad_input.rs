//! What cannot be: one clear line each, and a failure.

use std::net::TcpListener;
use std::process::Command;

use crate::rig::limen;

fn refused(command: &mut Command, reason: &str) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{command:?} went well");
    assert!(said.starts_with("limen: ") && said.contains(reason), "{command:?}: {said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{command:?}: {said}");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    // As the hub's own port, and as the admin's.
    for (base, whose) in [(port, "the hub"), (port - 5, "admin")] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = limen(&["up", "--clusters", "1", "--port-base", &base.to_string()]);
        let reason = format!("{port} (for {whose})");
        refused(command.env("TMPDIR", folder.path()), &reason);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    }
}

#[test]
fn wrong_arguments_and_files_are_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "clusters: [{name: a}]").unwrap();
    let (file, under) = (file.to_str().unwrap(), file.join("folder"));
    let under = under.to_str().unwrap();
    for (arguments, reason) in [
        (vec!["up", "--clusters", "0"], "a federation has 1 to 200 clusters here, not 0"),
        (vec!["up", "--clusters", "1000"], "not 1000"),
        (vec!["up", "--port-base", "65530"], "choose a lower one"),
        (vec!["up", "--topology", file], "is not understood"),
        (vec!["up", "--topology", under], "cannot read the topology"),
        (vec!["up", "--data-dir", under], "cannot use the folder"),
        (vec!["play", "drain", "--data-dir", under], "no limen up runs on"),
        (vec!["play", "drain", "--admin", "127.0.0.1:1"], "no limen up answers at 127.0.0.1:1"),
    ] {
        refused(&mut limen(&arguments), reason);
    }
}

#[test]
fn what_is_left_of_an_old_run_is_said_to_be_that() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("up.json"), r#"{"admin": "127.0.0.1:1"}"#).unwrap();
    let folder = folder.path().to_str().unwrap();
    refused(&mut limen(&["play", "drain", "--data-dir", folder]), "up.json is of an old run");
}
