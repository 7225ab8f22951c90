//! The dashboard of a hub: in the clear only on loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;

use kube::client::ConfigExt;
use rustls::{ClientConnection, StreamOwned};

use crate::limen;

/// A hub with a dashboard, which ends with the test.
struct Hub {
    process: Child,
    /// Where its dashboard is.
    url: String,
}

impl Hub {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = limen(&["hub", "--listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(folder).args(arguments);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("Press Ctrl-C") {
            let read = output.read_line(&mut said).unwrap();
            assert!(read > 0, "it ended before it was ready: {said}");
        }
        let line = said.lines().find(|line| line.contains("# the dashboard"));
        let url = line.and_then(|line| line.split_whitespace().next()).expect(&said).to_owned();
        std::thread::spawn(move || output.read_to_string(&mut String::new()));
        Self { process, url }
    }

    fn address(&self) -> &str {
        self.url.split("://").nth(1).unwrap()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What is said about who asks.
fn ask(mut stream: impl Read + Write) -> String {
    let request = b"GET /api/me HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn on_loopback_it_is_plain() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub::start(folder.path(), &["--dashboard", "127.0.0.1:0"]);
    assert!(hub.url.starts_with("http://127.0.0.1:"), "{}", hub.url);
    let said = ask(TcpStream::connect(hub.address()).unwrap());
    assert!(said.starts_with("HTTP/1.1 401") && said.contains("log in first"), "{said}");
}

#[tokio::test]
async fn elsewhere_it_has_the_hubs_certificate_and_knows_those_of_people() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub::start(folder.path(), &["--dashboard", "0.0.0.0:0"]);
    assert!(hub.url.starts_with("https://localhost:"), "{}", hub.url);
    let config = limen_testbed::config_of(&folder.path().join("kubeconfig")).await;
    let tls = Arc::new(config.rustls_client_config().unwrap());
    let client = ClientConnection::new(tls, "localhost".try_into().unwrap()).unwrap();
    let said = ask(StreamOwned::new(client, TcpStream::connect(hub.address()).unwrap()));
    assert!(said.starts_with("HTTP/1.1 401"), "{said}");
    assert!(said.contains(r#""certificate":"kubernetes-admin""#), "{said}");
}

#[test]
fn a_kubernetes_of_somebody_else_has_no_certificate_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let _hub = Hub::start(folder.path(), &["--api-only", "--dashboard", "127.0.0.1:0"]);
    let mut command = limen(&["hub", "--dashboard", "0.0.0.0:0", "--kubeconfig"]);
    let output = command.arg(folder.path().join("kubeconfig")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("--dashboard-cert"), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
}
