//! The command line as scripts and people meet it: pipes, exit codes, errors and what to do.

mod bad_input;
mod dashboard;
mod pipes;
mod plugin;

use std::process::{Command, Output};

/// `limen` with arguments, and with nothing of the surroundings that could matter.
fn limen(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_limen"));
    command.args(arguments).env_remove("KUBECONFIG").env("HOME", "/nonexistent");
    command
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_version_is_for_people_and_for_programs() {
    let said = limen(&["version"]).output().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(out(&said).starts_with(&format!("limen {version} (")), "{said:?}");
    let said = limen(&["version", "-o", "json"]).output().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(value["version"], version);
    let target = value["target"].as_str().unwrap();
    assert!(target.contains(std::env::consts::ARCH), "{value}");
}

#[test]
fn exit_codes_are_those_that_the_help_promises() {
    let help = limen(&["--help"]).output().unwrap();
    assert!(out(&help).contains("Exit codes: 0"), "{}", out(&help));
    assert_eq!(help.status.code(), Some(0));
    assert_eq!(limen(&["clusters", "--colour"]).output().unwrap().status.code(), Some(2));
    assert_eq!(limen(&["clusters"]).output().unwrap().status.code(), Some(1));
}
