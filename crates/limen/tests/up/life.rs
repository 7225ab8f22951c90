//! From the start to the end.

use std::net::TcpStream;
use std::process::Stdio;

use crate::rig::{Up, ask, eventually, limen, terminate, wait_for_end_of_welcome};

fn cluster(up: &Up) -> String {
    let (status, answer) = up.ask_gateway();
    assert_eq!(status, 200, "no client may notice anything: {answer}");
    answer["cluster"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_nearest_answers_another_takes_over_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--clusters", "2"]);
    let (nearest, other) = ("gce-us-central1a", "gce-europe-west1b");
    assert_eq!(cluster(&up), nearest);

    // A pod can be told to be different.
    let state = up.state();
    let pod = state["clusters"][1]["pods"][0]["name"].as_str().unwrap();
    assert_eq!(state["clusters"][1]["pods"].as_array().unwrap().len(), 2, "{pod}");

    up.trouble(nearest, "kill");
    eventually("the other takes over", || {
        let now = cluster(&up);
        (now == other, now)
    });
    for _ in 0..20 {
        assert_eq!(cluster(&up), other);
    }
    up.trouble(nearest, "restore");
    eventually("it is back", || {
        let now = cluster(&up);
        (now == nearest, now)
    });

    let second = limen(&["up", "--port-base", "0", "--data-dir"]).arg(folder.path()).output();
    let second = second.unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && said.contains("another limen up runs"), "{said}");

    let gateway = up.addresses["gateway"]["http"].as_str().unwrap().to_owned();
    up.terminate();
    assert!(TcpStream::connect(gateway).is_err());
    assert!(!folder.path().join("up.json").exists(), "it is not true any more");

    // It goes on where it was.
    let up = Up::start(folder.path(), &["--clusters", "2", "--no-sample"]);
    eventually("the sample is still there", || {
        let (status, answer) = up.ask_gateway();
        (status == 200 && answer["cluster"] == nearest, format!("{status} {answer}"))
    });
    up.terminate();
}

#[test]
fn without_a_folder_nothing_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = limen(&["up", "--port-base", "0", "--clusters", "1", "--no-sample"])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_end_of_welcome(&mut process);
    let there = || std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(there(), 1, "everything is in one folder while it runs");
    terminate(&mut process);
    assert_eq!(there(), 0);
}

#[test]
fn the_control_is_not_for_web_pages() {
    use std::io::{Read, Write};
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--clusters", "1", "--no-sample"]);
    let admin = up.addresses["admin"].as_str().unwrap();
    assert_eq!(ask(admin, "GET", "/").0, 200);
    assert_eq!(ask(admin, "POST", "/clusters/nowhere/kill").0, 404);
    assert_eq!(ask(admin, "POST", "/clusters/gce-us-central1a/explode").0, 404);
    for head in ["host: example.com", "host: 127.0.0.1\r\norigin: http://example.com"] {
        let mut stream = TcpStream::connect(admin).unwrap();
        let request = format!(
            "POST /clusters/gce-us-central1a/kill HTTP/1.1\r\n{head}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    }
    assert_eq!(up.state()["clusters"][0]["faults"]["killed"], false);
    up.terminate();
}
