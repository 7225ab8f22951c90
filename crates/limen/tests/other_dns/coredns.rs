//! CoreDNS as members have it, with what `limen dns coredns-config` prints. It is the binary that
//! `COREDNS` names, or else what `tools/coredns` has built.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::{Process, dig, eventually, free_port};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/coredns");

/// Where CoreDNS is, if it is there.
fn binary() -> Option<PathBuf> {
    let output = Command::new(SCRIPT).arg("--where").output().expect("tools/coredns");
    let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    path.exists().then_some(path)
}

struct CoreDns(Child);

impl Drop for CoreDns {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Service with a shard in each of two clusters, of which the first has ready endpoints or not.
fn service(ready_in_paris: u32) -> Value {
    let shard = |cluster: &str, region: &str, ready: u32, last: u8| {
        json!({
            "cluster": cluster, "region": region, "zone": format!("{region}-1"),
            "readyEndpoints": ready,
            "addresses": [{"host": format!("192.0.2.{last}"), "port": 80}],
            "localAddresses": [format!("10.0.0.{last}")]})
    };
    json!({
        "kind": "GlobalIngress", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "root": {"apiVersion": "v1", "kind": "Service", "name": "web"},
            "backends": [{"name": "web", "targets": [
                shard("paris", "eu", ready_in_paris, 1), shard("york", "us", 1, 2)]}]}})
}

#[test]
fn clients_of_a_member_get_its_own_shard_first_through_coredns() {
    let Some(coredns) = binary() else {
        println!("SKIPPED: there is no CoreDNS; tools/coredns builds one, or COREDNS names one");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let objects = folder.path().join("web.json");
    std::fs::write(&objects, service(1).to_string()).unwrap();
    let (server, port) = (format!("127.0.0.1:{}", free_port()), free_port());
    let config = objects.to_str().unwrap();
    let common = ["--zone", "example.com", "--federation", "fed"];
    let mut arguments = vec!["dns", "--config", config, "--listen", &server];
    arguments.extend(common);
    let _limen = Process::start(&arguments, "is ready");

    let port_text = port.to_string();
    let mut arguments = vec!["dns", "coredns-config", "--cluster", "paris", "--server", &server];
    arguments.extend(common);
    arguments.extend(["--port", &port_text]);
    let printed = Command::new(env!("CARGO_BIN_EXE_limen")).args(arguments).output().unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let corefile = folder.path().join("Corefile");
    std::fs::write(&corefile, &printed.stdout).unwrap();
    let _coredns = CoreDns(
        Command::new(coredns)
            .args(["-conf", corefile.to_str().unwrap()])
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );

    // Its own shard, under the name that was asked for, and not one of ours.
    let name = "web.shop.fed.svc.cluster.local";
    eventually(&format!("{name} A"), port, "10.0.0.1");
    let whole = dig(port, &format!("{name} A +noall +answer"));
    assert!(whole.starts_with(&format!("{name}.")), "{whole}");
    // Everybody's names are answered too, with all shards.
    eventually("web.shop.fed.svc.example.com A", port, "192.0.2.1\n192.0.2.2");
    let missing = dig(port, "api.shop.fed.svc.cluster.local A +noall +comments");
    assert!(missing.contains("NXDOMAIN"), "{missing}");

    // Without a ready endpoint in the cluster its clients are led to another.
    std::fs::write(&objects, service(0).to_string()).unwrap();
    let found = || dig(port, &format!("{name} A +short"));
    let start = std::time::Instant::now();
    while found().lines().last() != Some("192.0.2.2") {
        assert!(start.elapsed() < std::time::Duration::from_secs(60), "still {}", found());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}
