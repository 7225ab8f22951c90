//! `limen dns` and `limen publish` with the DNS software of others: nsupdate as an ACME client has
//! it, Knot as a server that takes updates, and CoreDNS in front as in a member. They need the Debian packages `bind9-dnsutils`,
//! `knot` and `knot-dnsutils`.

#[path = "../../../limen-cloud/tests/knot/server.rs"]
mod server;

mod coredns;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use limen_api::DnsChallenge;
use serde_json::json;

const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// A process that is killed, at the latest, when the test ends.
struct Process(Child);

impl Process {
    /// Starts it and waits for its first line.
    fn start(arguments: &[&str], first: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_limen"))
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.contains(first), "{line}");
        // What it says later must not fill the pipe.
        std::thread::spawn(move || output.read_to_string(&mut String::new()));
        Self(process)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// What dig says.
fn dig(port: u16, question: &str) -> String {
    let output = Command::new("dig")
        .args(["@127.0.0.1", "-p", &port.to_string(), "+tries=1", "+time=2"])
        .args(question.split(' '))
        .output()
        .expect("dig of the package bind9-dnsutils");
    String::from_utf8(output.stdout).unwrap()
}

fn eventually(question: &str, port: u16, expected: &str) {
    let start = Instant::now();
    loop {
        let found = dig(port, &format!("{question} +short"));
        let mut lines: Vec<_> = found.lines().filter(|line| !line.starts_with(";;")).collect();
        lines.sort_unstable();
        if lines.join("\n") == expected {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{question}: still {found:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Runs nsupdate. Whether it succeeded, and what it said.
fn nsupdate(port: u16, key: &str, commands: &str) -> (bool, String) {
    let mut process = Command::new("nsupdate")
        .args(["-y", key])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nsupdate of the package bind9-dnsutils");
    let script = format!("server 127.0.0.1 {port}\nzone example.com\n{commands}\nsend\n");
    process.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A hub that knows what DNS servers obey.
async fn prepare(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in limen_api::crds() {
        // It may be there already.
        let _ = definitions.create(&PostParams::default(), &definition).await;
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = json!({"metadata": {"name": limen_api::NAMESPACE}});
    let namespace = serde_json::from_value(namespace).unwrap();
    let _ = namespaces.create(&PostParams::default(), &namespace).await;
    let challenges: Api<DnsChallenge> = Api::all(client.clone());
    let start = Instant::now();
    while let Err(error) = challenges.list(&ListParams::default()).await {
        assert!(start.elapsed() < Duration::from_secs(60), "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    client
}

/// A file with a shared secret that nobody else can read.
fn write_key(path: &Path, name: &str) {
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    writeln!(file.unwrap(), "hmac-sha256:{name}:{SECRET}").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_challenge_that_nsupdate_writes_to_one_server_is_answered_by_all() {
    let data = tempfile::tempdir().unwrap();
    let hub_listen = format!("127.0.0.1:{}", free_port());
    let folder = data.path().to_str().unwrap();
    let _hub = Process::start(&["hub", "--data-dir", folder, "--listen", &hub_listen], "is ready");
    let kubeconfig = data.path().join("kubeconfig");
    prepare(&kubeconfig).await;
    let key_file = data.path().join("acme.key");
    write_key(&key_file, "acme");

    let ports = [free_port(), free_port()];
    let start = |port: u16| {
        let listen = format!("127.0.0.1:{port}");
        let (kubeconfig, key) = (kubeconfig.to_str().unwrap(), key_file.to_str().unwrap());
        Process::start(
            &[
                "dns",
                "--hub-kubeconfig",
                kubeconfig,
                "--zone",
                "example.com",
                "--listen",
                &listen,
                "--acme-key",
                key,
            ],
            "is ready",
        )
    };
    let _servers = ports.map(start);
    let key = format!("hmac-sha256:acme:{SECRET}");
    let name = "_acme-challenge.shop.example.com";

    // A wildcard and its host are proven at the same time, each by a text of its own.
    for text in ["one", "two"] {
        let command = format!("update add {name} 60 TXT {text}");
        assert_eq!(nsupdate(ports[0], &key, &command), (true, String::new()));
    }
    for port in ports {
        eventually(&format!("{name} TXT"), port, "\"one\"\n\"two\"");
    }
    let command = format!("update delete {name} TXT one");
    assert_eq!(nsupdate(ports[1], &key, &command), (true, String::new()));
    for port in ports {
        eventually(&format!("{name} TXT"), port, "\"two\"");
    }
    let command = format!("update delete {name} TXT");
    assert_eq!(nsupdate(ports[0], &key, &command), (true, String::new()));
    for port in ports {
        eventually(&format!("{name} TXT"), port, "");
    }

    let (done, said) = nsupdate(ports[0], &key, "update add shop.example.com 60 A 192.0.2.1");
    assert!(!done && said.contains("REFUSED"), "{said}");
    let wrong = "hmac-sha256:acme:ZmFsc2VmYWxzZWZhbHNlZmFsc2VmYWxzZQ==";
    let (done, said) = nsupdate(ports[0], wrong, &format!("update add {name} 60 TXT x"));
    assert!(!done && said.contains("BADSIG"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_root_compiles_to_is_published_in_knot() {
    let knot = server::Knot::start(SECRET);
    let folder = tempfile::tempdir().unwrap();
    let manifest = |address: &str| {
        json!({
            "kind": "GlobalIngress", "metadata": {"name": "web"},
            "spec": {
                "rules": [{"host": "shop.example.com", "paths": [{"path": "/", "backend": "web"}]}],
                "backends": [{"name": "web", "targets": [{
                    "cluster": "c1", "addresses": [{"host": address, "port": 80}]}]}]}})
    };
    let file = folder.path().join("web.json");
    std::fs::write(&file, manifest("192.0.2.1").to_string()).unwrap();
    let key = folder.path().join("publish.key");
    write_key(&key, server::KEY);
    let address = knot.address();
    let arguments = [
        "publish",
        "--config",
        file.to_str().unwrap(),
        "--zone",
        "example.com",
        "--owner",
        "hub-1",
        "--rfc2136",
        &address,
        "--tsig-key",
        key.to_str().unwrap(),
    ];
    let dry = Command::new(env!("CARGO_BIN_EXE_limen"))
        .args(arguments)
        .arg("--dry-run")
        .output()
        .unwrap();
    let said = String::from_utf8(dry.stdout).unwrap();
    assert_eq!(
        said,
        "would: say that hub-1 is alive\nwould: shop.example.com leads to 192.0.2.1\n"
    );
    assert_eq!(knot.ask("shop.example.com A"), "");

    let _publisher = Process::start(&arguments, "Publishing example.com as hub-1");
    knot.eventually("shop.example.com A", "192.0.2.1\n").await;
    let new = folder.path().join("web.new");
    std::fs::write(&new, manifest("192.0.2.2").to_string()).unwrap();
    std::fs::rename(&new, &file).unwrap();
    knot.eventually("shop.example.com A", "192.0.2.2\n").await;
}
