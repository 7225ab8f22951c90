//! What cannot be: one clear line each, and a failure.

use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::rig::{Up, limen, terminate};

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
fn a_port_that_is_taken_by_udp_is_named_too() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let base = (port - 4).to_string();
    let mut command = limen(&["up", "--clusters", "1", "--port-base", &base]);
    refused(&mut command, &format!("{port} (for DNS by UDP)"));
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
        (vec!["up", "--data-dir", "/proc/limen-up"], "cannot use the folder /proc/limen-up"),
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

#[test]
fn what_an_old_run_wrote_is_not_taken_for_a_federation() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--clusters", "1", "--no-sample"]);
    let hub = up.address("/hub");
    up.terminate();
    let kubeconfig = folder.path().join("kubeconfig");
    let said = limen(&["clusters", "--hub-kubeconfig"]).arg(&kubeconfig).output().unwrap();
    let complained = String::from_utf8_lossy(&said.stderr);
    assert!(!said.status.success(), "the hub of {hub} has ended");
    assert!(complained.starts_with("limen: "), "{complained}");
    assert_eq!(complained.trim_end().lines().count(), 1, "{complained}");
}

#[test]
fn ipv6_is_not_needed() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--clusters", "1", "--no-sample"]);
    let process = format!("/proc/{}", up.id());
    let sockets: Vec<String> = std::fs::read_dir(format!("{process}/fd"))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .filter_map(|link| {
            Some(link.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned())
        })
        .collect();
    let of_ours = |family: &str| {
        let table = std::fs::read_to_string(format!("{process}/net/{family}")).unwrap_or_default();
        let inode = |line: &str| line.split_whitespace().nth(9).map(str::to_owned);
        let ours = table.lines().filter_map(inode).filter(|inode| sockets.contains(inode));
        ours.count()
    };
    assert!(of_ours("tcp") > 5 && of_ours("udp") > 0, "sockets can be told apart");
    assert_eq!(of_ours("tcp6") + of_ours("udp6"), 0);
    up.terminate();
}

#[test]
fn whoever_stops_it_while_it_starts_finds_nothing_left() {
    for wait in [0, 150, 600, 1500] {
        let folder = tempfile::tempdir().unwrap();
        let mut process = limen(&["up", "--port-base", "0", "--clusters", "2"])
            .env("TMPDIR", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It listens to signals from the moment on that it makes its folder.
        let there = || std::fs::read_dir(folder.path()).unwrap().count();
        while there() == 0 {
            assert!(process.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(wait));
        terminate(&mut process);
        assert_eq!(there(), 0, "after {wait} ms");
    }
}
