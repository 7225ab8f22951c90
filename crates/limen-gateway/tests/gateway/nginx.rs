//! Every case of the smuggling table also sent to nginx, in front of the same upstream.
//!
//! Where the two verdicts differ is written down in `nginx-differences.md`, and this test holds that
//! list to be exactly what nginx does. Another version of nginx than the list is of is only printed.

use std::fmt::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tokio::net::TcpStream;

use crate::bed::{Reply, Upstream, eventually, exchange};
use crate::smuggling::{CASES, SECOND, echo};

const LIST: &str = include_str!("nginx-differences.md");

struct Nginx {
    process: Child,
    address: SocketAddr,
}

impl Nginx {
    async fn start(folder: &Path, upstream: SocketAddr) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let at = folder.display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {at}/{kind};"))
            .concat();
        let text = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log;
             events {{ worker_connections 64; }}
             http {{ access_log off; {temporary} client_header_timeout 5s; client_body_timeout 5s;
               server {{ listen {free}; server_name a.test;
                 location / {{ proxy_pass http://{upstream}; proxy_http_version 1.1;
                               proxy_set_header Host $host; }} }} }}"
        );
        std::fs::write(folder.join("nginx.conf"), text).unwrap();
        let process = Command::new("nginx")
            .args(["-c", folder.join("nginx.conf").to_str().unwrap(), "-p"])
            .arg(folder)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("nginx listens", async || TcpStream::connect(free).await.is_ok()).await;
        Self { process, address: free }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What came of a case: the first status, and whether the request behind it was answered too.
fn verdict(read: &[u8]) -> String {
    let text = String::from_utf8_lossy(read);
    match (Reply::parse(read).status, text.contains("[/second 0]")) {
        (0, _) => "closed".to_owned(),
        (status, false) => status.to_string(),
        (status, true) => format!("{status}, and the second"),
    }
}

fn version() -> Option<String> {
    let output = Command::new("nginx").arg("-v").output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(said.split_once('/')?.1.split_whitespace().next()?.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_gets_the_same_cases_and_every_difference_is_listed() {
    let Some(version) = version() else {
        eprintln!("SKIPPED: there is no nginx on the PATH; apt-get install nginx-light");
        return;
    };
    let upstream = Upstream::http(echo).await;
    let folder = tempfile::tempdir().unwrap();
    let nginx = Nginx::start(folder.path(), upstream.address).await;
    let mut found = String::new();
    for (name, bytes) in CASES {
        let verdict = verdict(&exchange(nginx.address, &[bytes, SECOND].concat()).await);
        if verdict != "400" {
            writeln!(found, "{name} | {verdict}").unwrap();
        }
    }
    let rows = LIST.lines().filter_map(|line| line.strip_prefix("| ")).skip(1);
    let listed: String = rows
        .filter(|row| !row.starts_with("---"))
        .map(|row| row.rsplitn(2, " | ").last().map_or(String::new(), |row| format!("{row}\n")))
        .collect();
    if !LIST.contains(&format!("nginx {version}")) {
        eprintln!(
            "the list is of another version than {version}, which differs from us in\n{found}"
        );
        return;
    }
    assert_eq!(found, listed, "nginx {version} differs from nginx-differences.md");
}
