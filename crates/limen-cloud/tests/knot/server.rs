//! A Knot DNS of our own, on loopback, that ends with the test.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const KEY: &str = "limen-test";

pub(crate) struct Knot {
    folder: tempfile::TempDir,
    port: u16,
    process: Option<Child>,
}

const ZONE: &str = "\
$ORIGIN example.com.
@ 60 SOA ns1 hostmaster 1 3600 600 604800 30
@ 60 NS ns1
ns1 60 A 127.0.0.1
byhand 60 A 198.51.100.7
mail 60 MX 10 mx.elsewhere.net.
";

impl Knot {
    /// A server of `example.com` that takes updates and transfers signed with a secret.
    pub(crate) fn start(secret: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let path = folder.path().display();
        let config = format!(
            "\
server:
    rundir: {path}
    listen: 127.0.0.1@{port}
log:
  - target: stderr
    any: error
key:
  - id: {KEY}
    algorithm: hmac-sha256
    secret: {secret}
acl:
  - id: publisher
    address: 127.0.0.1
    key: {KEY}
    action: [update, transfer]
database:
    storage: {path}
zone:
  - domain: example.com
    storage: {path}
    file: example.com.zone
    acl: publisher
    zonefile-sync: 0
"
        );
        std::fs::write(folder.path().join("knot.conf"), config).unwrap();
        std::fs::write(folder.path().join("example.com.zone"), ZONE).unwrap();
        let mut knot = Self { folder, port, process: None };
        knot.start_again();
        knot
    }

    pub(crate) fn start_again(&mut self) {
        let config = self.folder.path().join("knot.conf");
        let process = Command::new("knotd")
            .arg("-c")
            .arg(config)
            .stdout(Stdio::null())
            .spawn()
            .expect("knotd of the package knot");
        self.process = Some(process);
        let start = Instant::now();
        while self.ask("ns1.example.com A") != "127.0.0.1\n" {
            assert!(start.elapsed() < Duration::from_secs(60), "Knot does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What kdig prints of the answers, sorted.
    pub(crate) fn ask(&self, question: &str) -> String {
        let output = Command::new("kdig")
            .args(["@127.0.0.1", "-p", &self.port.to_string(), "+short", "+timeout=2", "+retry=0"])
            .args(question.split(' '))
            .output()
            .expect("kdig of the package knot-dnsutils");
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines: Vec<&str> =
            text.lines().filter(|line| !line.is_empty() && !line.starts_with(";;")).collect();
        lines.sort_unstable();
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    pub(crate) async fn eventually(&self, question: &str, expected: &str) {
        let start = Instant::now();
        loop {
            let found = self.ask(question);
            if found == expected {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{question}: still {found:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Knot {
    fn drop(&mut self) {
        self.stop();
    }
}
